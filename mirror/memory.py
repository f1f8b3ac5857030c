"""How much memory does this process hold, and how much is left?  None where the system does not tell."""

import os
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_GROUP = Path("/sys/fs/cgroup")


def rss_bytes() -> int:
    """What this process holds now; 0 where that is not told."""
    try:
        return int(Path("/proc/self/statm").read_bytes().split()[1]) * _PAGE
    except (OSError, ValueError, IndexError):
        return 0


def free_share() -> float | None:
    """The share of memory that is available: of the machine's, or of this container's if that is less."""
    shares = [share for share in (_machine(), _container()) if share is not None]
    return min(shares, default=None)


def _machine() -> float | None:
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        told = {name: int(rest.split()[0]) for name, _, rest in (line.partition(":") for line in lines)}
        return told["MemAvailable"] / told["MemTotal"]
    except (OSError, ValueError, KeyError, IndexError, ZeroDivisionError):
        return None


def _container() -> float | None:
    """By version 2 of control groups; files that were read and can be dropped count as available."""
    try:
        most = (_GROUP / "memory.max").read_text().strip()
        if most == "max":
            return None
        told = dict(line.split() for line in (_GROUP / "memory.stat").read_text().splitlines())
        used = int((_GROUP / "memory.current").read_text()) - int(told.get("inactive_file", 0))
        return max(0.0, 1 - used / int(most))
    except (OSError, ValueError, ZeroDivisionError):
        return None
