"""How the child processes are kept alive and brought to their end.

A plain loop over a few descriptors: signals arrive on a pipe, children speak on their channels,
`children.Roster` decides, this file acts.
"""

import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import Any

from gateway.processes.channel import Channel, Closed, body_file
from gateway.processes.children import Child, Order, Roster

_LONGEST_WAIT_S = 5.0  # looks after the children at least this often, should a signal ever be lost
_ANNOUNCE_EVERY_S = 0.05


def _noted(_signal: int, _frame: object) -> None:
    """A signal needs a handler for its number to be written to the wakeup pipe."""


class Supervisor:
    """Starts `children`, restarts the dead, and ends them in order on SIGTERM or SIGINT.

    `environment` is what children see.  `started(child)` and `died(child)` are called for each life and
    death, `draining()` once when the end is asked for, `hangup()` for each SIGHUP.  `announce()` is called
    again and again after the start until it returns True.  `heard(child, kind, body)` is called for each
    message of a child that has a channel, `looked()` at each turn of the loop: every few seconds at least, or
    after as many seconds as it says.  `greeting(child)` gives messages that lie in a channel before its child
    begins to live.
    """

    def __init__(
        self,
        children: Sequence[Child],
        *,
        environment: Mapping[str, str],
        log: Any,
        started: Callable[[Child], None] = lambda _child: None,
        died: Callable[[Child], None] = lambda _child: None,
        draining: Callable[[], None] = lambda: None,
        hangup: Callable[[], None] | None = None,
        announce: Callable[[], bool] = lambda: True,
        heard: Callable[[str, str, bytes], None] = lambda _child, _kind, _body: None,
        looked: Callable[[], float | None] = lambda: None,
        greeting: Callable[[Child], Sequence[tuple[str, bytes]]] = lambda _child: (),
    ) -> None:
        self._roster = Roster(children)
        self._children = {child.name: child for child in children}
        self._environment = dict(environment)
        self._log = log
        self._when_started = started
        self._died = died
        self._when_draining = draining
        self._hangup = hangup
        self._announce: Callable[[], bool] | None = announce
        self._heard = heard
        self._looked = looked
        self._greeting = greeting
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._channels: dict[str, Channel] = {}
        self._selector = selectors.DefaultSelector()

    def keep(self, child: Child) -> None:
        """From now on keep `child` too; in place of a child of the same name from its next life on."""
        self._children[child.name] = child
        self._roster.keep(child)

    def tell(self, name: str, kind: str, body: bytes = b"") -> bool:
        """Send a message to a running child; False when it does not run, has no channel or does not read."""
        channel = self._channels.get(name)
        return channel is not None and channel.send(kind, body)

    def watch(self, fd: int, readable: Callable[[], None]) -> None:
        """Call `readable()` in the loop whenever `fd` can be read."""
        self._selector.register(fd, selectors.EVENT_READ, readable)

    def run(self) -> int:
        """Supervise until the end was asked for and every child is gone.  Main thread only.

        Gives the exit status: 0 when all ended by themselves, 1 when one had to be killed.
        """
        with ExitStack() as undo:
            undo.callback(self._selector.close)
            signals = _signal_pipe(undo)
            self.watch(signals, lambda: self._signalled(os.read(signals, 4096)))
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
                within_s = self._looked()
                for key, _events in self._selector.select(self._wait_s(within_s)):
                    key.data()
        if self._roster.killed:
            self._log.warning("ended, but had to kill", children=self._roster.killed)
            return 1
        self._log.info("ended cleanly")
        return 0

    def _wait_s(self, within_s: float | None) -> float:
        if self._announce is not None and (self._roster.draining or self._announce()):
            self._announce = None
        wait_s = self._roster.wake_in_s(time.monotonic_ns())
        most_s = _LONGEST_WAIT_S if self._announce is None else _ANNOUNCE_EVERY_S
        most_s = most_s if within_s is None else min(most_s, within_s)
        return most_s if wait_s is None else min(most_s, wait_s)

    def _signalled(self, signals: bytes) -> None:
        for number in signals:
            if number in (signal.SIGTERM, signal.SIGINT):
                first = not self._roster.draining
                self._roster.drain(time.monotonic_ns())
                self._log.info("draining" if first else "ending at once", signal=signal.Signals(number).name)
                if first:
                    self._when_draining()
            elif number == signal.SIGHUP and not self._roster.draining:
                if self._hangup is None:
                    self._log.warning("SIGHUP ignored: there is nothing to read again")
                else:
                    self._hangup()

    def _hear(self, name: str) -> None:
        try:
            for kind, body in self._channels[name].receive():
                self._heard(name, kind, body)
        except Closed:
            self._hang_up(name)

    def _hang_up(self, name: str) -> None:
        channel = self._channels.pop(name, None)
        if channel is not None:
            self._selector.unregister(channel)
            channel.close()

    def _start(self, child: Child, now_ns: int) -> None:
        argv, fds = child.argv, child.fds
        ours = theirs = None
        try:
            if child.hears:
                ours, theirs = Channel.pair()
                for kind, body in self._greeting(child):
                    ours.send(kind, body)
                argv, fds = (*argv, "--control", str(theirs.fileno())), (*fds, theirs.fileno())
            with body_file(child.spec) as spec:
                self._running[child.name] = subprocess.Popen(
                    argv,
                    stdin=spec,
                    env=self._environment,
                    pass_fds=fds,
                    process_group=0,  # Ctrl-C reaches the supervisor alone, which ends the children in order
                )
        except OSError as error:
            if ours is not None:
                ours.close()
            delay_s = self._roster.died(child.name, now_ns)
            self._log.error("cannot start", child=child.name, error=str(error), again_in_s=delay_s)
            return
        finally:
            if theirs is not None:
                theirs.close()
        if ours is not None:
            self._channels[child.name] = ours
            self._selector.register(ours, selectors.EVENT_READ, lambda: self._hear(child.name))
        self._roster.started(child.name, now_ns)
        self._log.info("started", child=child.name, pid=self._running[child.name].pid)
        self._when_started(child)

    def _reap(self, now_ns: int) -> None:
        for name, process in list(self._running.items()):
            status = process.poll()
            if status is None:
                continue
            del self._running[name]
            self._hang_up(name)
            delay_s = self._roster.died(name, now_ns)
            if delay_s is None:
                self._log.info("child ended", child=name, why=_cause(status))
            else:
                self._log.error("child died", child=name, why=_cause(status), again_in_s=delay_s)
            self._died(self._children[name])

    def _tell(self, child: Child, order: Order) -> None:
        process = self._running[child.name]
        if order is Order.KILL:
            self._log.error("killing: it had not ended", child=child.name, grace_s=child.grace_s)
        else:
            _hasten(process.pid)
        process.send_signal(signal.SIGKILL if order is Order.KILL else signal.SIGTERM)

    def _kill_all(self) -> None:
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        self._running.clear()
        for name in list(self._channels):
            self._hang_up(name)


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


def _hasten(pid: int) -> None:
    """Let a child that gave way to others end as they do, if we may: a busy machine would have it killed."""
    with suppress(OSError):
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))


def _cause(status: int) -> str:
    if status >= 0:
        return f"exit status {status}"
    try:
        return f"killed by {signal.Signals(-status).name}"
    except ValueError:
        return f"killed by signal {-status}"
