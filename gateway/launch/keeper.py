"""Keeps one engine from outliving Shadowlane: started for each launched engine, between it and the
launching process.

    python -I -S keeper.py STATUS_FD STOP_S COMMAND [ARGUMENT ...]

Its standard input is a pipe that the launching process holds and never writes to but to ask for the end: a
byte, or the pipe's end when that process dies, however it dies.  Then the engine and all that it has
started get SIGTERM, and SIGKILL after STOP_S.  The same when the engine itself ends and leaves children
behind.  On STATUS_FD it writes lines: `started PID`, `failed WHY`, `ended STATUS` as subprocess gives it,
and `clean` at its end.

It imports nothing of Shadowlane, for it must start fast and run where the engine's own packages are.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36
_ORPHANED_STOP_S = 5.0  # what is left when nobody waits for the end any more
_KILLED_S = 10.0


def main(argv: list[str]) -> int:
    """See above.  0 when nothing is left."""
    status_fd, stop_s, command = int(argv[0]), float(argv[1]), argv[2:]
    os.set_inheritable(status_fd, False)
    prctl = _prctl()
    prctl(_PR_SET_CHILD_SUBREAPER, 1)  # who loses its parent becomes our child, and is found
    wake = _wake_pipe()
    us = os.getpid()

    def before_exec() -> None:
        prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
        if os.getppid() != us:
            os._exit(1)

    try:
        engine = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, start_new_session=True, preexec_fn=before_exec
        )
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        _say(status_fd, f"failed {getattr(error, 'strerror', None) or error}")
        return 1
    _say(status_fd, f"started {engine.pid}")
    orphaned = False
    while engine.returncode is None:
        readable, _, _ = select.select([0, wake], [], [], 5.0)
        if wake in readable:
            asked = any(number != signal.SIGCHLD for number in os.read(wake, 4096))
            if asked:
                break
        if 0 in readable:
            orphaned = not os.read(0, 64)
            break
        _reap(engine)
    if engine.returncode is not None:
        _say(status_fd, f"ended {engine.returncode}")
    _end(engine, min(stop_s, _ORPHANED_STOP_S) if orphaned else stop_s, status_fd)
    _say(status_fd, "clean")
    return 0


def _end(engine: "subprocess.Popen[bytes]", stop_s: float, status_fd: int) -> None:
    """SIGTERM to all that is there, SIGKILL to what is there after `stop_s`."""
    told = engine.returncode is not None
    deadline_s = time.monotonic() + stop_s
    for number, until_s in ((signal.SIGTERM, deadline_s), (signal.SIGKILL, deadline_s + _KILLED_S)):
        sent: set[int] = set()
        while True:
            _reap(engine)
            if not told and engine.returncode is not None:
                told = True
                _say(status_fd, f"ended {engine.returncode}")
            left = set(_descendants(os.getpid()))
            if not left:
                return
            if time.monotonic() >= until_s:
                break
            for pid in left - sent:  # whoever was forked meanwhile is told, too
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            sent |= left
            time.sleep(0.05)


def _reap(engine: "subprocess.Popen[bytes]") -> None:
    """Take in the dead, the engine's own status as Popen has it."""
    engine.poll()
    while engine.returncode is not None:
        try:
            if os.waitpid(-1, os.WNOHANG)[0] == 0:
                return
        except ChildProcessError:
            return


def _descendants(pid: int) -> Iterator[int]:
    """All processes below `pid` that are not dead, by /proc."""
    children: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/stat", "rb") as file:
                state, parent = file.read().rpartition(b")")[2].split()[:2]
        except OSError:
            continue
        if state not in (b"Z", b"X"):
            children.setdefault(int(parent), []).append(int(name))
        else:  # a zombie's children are not its own any more
            children.setdefault(int(parent), [])
    waiting = [pid]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            waiting.append(child)
            yield child


def _prctl() -> "ctypes._NamedFuncPointer":
    return ctypes.CDLL(None, use_errno=True).prctl


def _wake_pipe() -> int:
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, _noted)
    return read


def _noted(_number: int, _frame: object) -> None:
    """A signal needs a handler for its number to be written to the pipe."""


def _say(fd: int, line: str) -> None:
    try:
        os.write(fd, line.encode(errors="replace").replace(b"\n", b" ") + b"\n")
    except OSError:
        pass  # nobody listens any more: go on with the end


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
