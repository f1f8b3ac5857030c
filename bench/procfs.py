"""What the kernel says of running processes: their tree, CPU time, memory, descriptors and threads."""

import os
from collections.abc import Iterable
from pathlib import Path


def tree(pid: int) -> list[int]:
    """The process and all that it started, itself first."""
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            started = children.read_text().split()
        except (FileNotFoundError, ProcessLookupError):
            continue  # ended between listing and reading, here and below
        for child in started:
            found += tree(int(child))
    return found


def cpu_ns(pids: Iterable[int]) -> int:
    """Time on a CPU, by the scheduler's own count, of all threads that live."""
    total = 0
    for pid in pids:
        for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
            try:
                total += int(stat.read_text().split()[0])
            except (FileNotFoundError, ProcessLookupError):
                continue
    return total


def rss_kb(pid: int) -> float:
    """Resident memory."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1024


def descriptors(pid: int) -> int:
    """Open file descriptors."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def threads(pid: int) -> int:
    """Threads."""
    return len(os.listdir(f"/proc/{pid}/task"))


def parts(pid: int) -> dict[str, int]:
    """A gateway's processes by what they are: supervisor, worker (worker-1, ... where there are more)."""
    found: dict[str, int] = {}
    for one in tree(pid):
        words = Path(f"/proc/{one}/cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        name = next((word[1:] for word in words if word in ("_worker", "_shadow", "_analysis")), "supervisor")
        found[name if name not in found else f"{name}-{len(found)}"] = one
    return found


_LEAST_NICE = 19


def pin(pids: Iterable[int], core: int) -> None:
    """Keep all threads of these on one core; on a machine that has only one there is nothing to part."""
    if (os.cpu_count() or 1) < 2:
        return
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(task), {core})


def yield_to_others(pids: Iterable[int]) -> None:
    """Have all threads of these give way to whoever else wants their core."""
    for pid in pids:
        for task in os.listdir(f"/proc/{pid}/task"):
            os.setpriority(os.PRIO_PROCESS, int(task), _LEAST_NICE)
