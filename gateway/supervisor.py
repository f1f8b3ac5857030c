"""How the child processes are kept alive and brought to their end.

A plain loop over one pipe: signals arrive on it, `children.Roster` decides, this file acts.
"""

import os
import selectors
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import IO, Any

from gateway.children import Child, Order, Roster

_LONGEST_WAIT_S = 5.0  # looks after the children at least this often, should a signal ever be lost
_ANNOUNCE_EVERY_S = 0.05


def _noted(_signal: int, _frame: object) -> None:
    """A signal needs a handler for its number to be written to the wakeup pipe."""


class Supervisor:
    """Starts `children`, restarts the dead, and ends them in order on SIGTERM or SIGINT.

    `environment` is what children see.  `died(child)` is called for each death, `draining()` once when the
    end is asked for.  `announce()` is called again and again after the start until it returns True.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        environment: Mapping[str, str],
        log: Any,
        died: Callable[[Child], None] = lambda _child: None,
        draining: Callable[[], None] = lambda: None,
        announce: Callable[[], bool] = lambda: True,
    ) -> None:
        self._roster = Roster(children)
        self._children = {child.name: child for child in children}
        self._environment = dict(environment)
        self._log = log
        self._died = died
        self._when_draining = draining
        self._announce: Callable[[], bool] | None = announce
        self._running: dict[str, subprocess.Popen[bytes]] = {}

    def run(self) -> int:
        """Supervise until the end was asked for and every child is gone.  Main thread only.

        Gives the exit status: 0 when all ended by themselves, 1 when one had to be killed.
        """
        with ExitStack() as undo:
            selector = undo.enter_context(selectors.DefaultSelector())
            selector.register(_signal_pipe(undo), selectors.EVENT_READ)
            undo.callback(self._kill_all)
            while True:
                now_ns = time.monotonic_ns()
                self._reap(now_ns)
                if self._roster.ended:
                    break
                for child in self._roster.due(now_ns):
                    self._start(child, now_ns)
                for child, order in self._roster.orders(now_ns):
                    self._tell(child, order)
                for key, _events in selector.select(self._wait_s()):
                    self._hear(os.read(key.fd, 4096))
        if self._roster.killed:
            self._log.warning("ended, but had to kill", children=self._roster.killed)
            return 1
        self._log.info("ended cleanly")
        return 0

    def _wait_s(self) -> float:
        if self._announce is not None and (self._roster.draining or self._announce()):
            self._announce = None
        wait_s = self._roster.wake_in_s(time.monotonic_ns())
        most_s = _LONGEST_WAIT_S if self._announce is None else _ANNOUNCE_EVERY_S
        return most_s if wait_s is None else min(most_s, wait_s)

    def _hear(self, signals: bytes) -> None:
        for number in signals:
            if number in (signal.SIGTERM, signal.SIGINT):
                first = not self._roster.draining
                self._roster.drain(time.monotonic_ns())
                self._log.info("draining" if first else "ending at once", signal=signal.Signals(number).name)
                if first:
                    self._when_draining()
            elif number == signal.SIGHUP:
                self._log.warning("SIGHUP ignored: the config is read at start; restart to apply a new one")

    def _start(self, child: Child, now_ns: int) -> None:
        try:
            with _spec_file(child.spec) as spec:
                self._running[child.name] = subprocess.Popen(
                    child.argv,
                    stdin=spec,
                    env=self._environment,
                    pass_fds=child.fds,
                    process_group=0,  # Ctrl-C reaches the supervisor alone, which ends the children in order
                )
        except OSError as error:
            delay_s = self._roster.died(child.name, now_ns)
            self._log.error("cannot start", child=child.name, error=str(error), again_in_s=delay_s)
            return
        self._roster.started(child.name, now_ns)
        self._log.info("started", child=child.name, pid=self._running[child.name].pid)

    def _reap(self, now_ns: int) -> None:
        for name, process in list(self._running.items()):
            status = process.poll()
            if status is None:
                continue
            del self._running[name]
            delay_s = self._roster.died(name, now_ns)
            if delay_s is None:
                self._log.info("child ended", child=name, why=_cause(status))
            else:
                self._log.error("child died", child=name, why=_cause(status), again_in_s=delay_s)
            self._died(self._children[name])

    def _tell(self, child: Child, order: Order) -> None:
        if order is Order.KILL:
            self._log.error("killing: it had not ended", child=child.name, grace_s=child.grace_s)
        self._running[child.name].send_signal(signal.SIGKILL if order is Order.KILL else signal.SIGTERM)

    def _kill_all(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()


def _signal_pipe(undo: ExitStack) -> int:
    """The read end of a pipe on which each signal heard is one byte, its number."""
    read, write = os.pipe()
    undo.callback(os.close, read)
    undo.callback(os.close, write)
    os.set_blocking(write, False)
    os.set_blocking(read, False)
    undo.callback(signal.set_wakeup_fd, signal.set_wakeup_fd(write, warn_on_full_buffer=False))
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD):
        undo.callback(signal.signal, number, signal.signal(number, _noted))
    return read


def _spec_file(spec: bytes) -> IO[bytes]:
    """The spec as a file to be a child's stdin: never on disk where the system can, since it holds keys; and
    unlike a pipe it cannot block the supervisor when the child does not read."""
    if hasattr(os, "memfd_create"):
        file: IO[bytes] = os.fdopen(os.memfd_create("shadowlane-spec"), "w+b")
    else:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    file.write(spec)
    file.flush()
    file.seek(0)
    return file


def _cause(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
