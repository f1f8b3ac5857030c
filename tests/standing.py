"""A loop whose clock can stand: what comes is served as ever, and nothing that waits for a time goes on.

It can leap, too, as it does for a process that got no turn for a while.
"""

import asyncio
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import Timer
from typing import Any

_MOST_S = 30.0


class StandingLoop(asyncio.SelectorEventLoop):
    """asyncio's own, with a clock that stands while `standing` says so, and leaps when it is told to."""

    stood_s: float | None = None
    leapt_s = 0.0

    def time(self) -> float:
        return self.leapt_s + (super().time() if self.stood_s is None else self.stood_s)

    def leap(self, by_s: float) -> None:
        """So much time has passed, of which nobody had any."""
        self.leapt_s += by_s

    def go(self) -> None:
        """The clock goes on."""
        self.stood_s = None


@contextmanager
def standing() -> Iterator[None]:
    """What is done here takes no time, by the running loop's clock.

    If it needs some, it would never be done: the clock goes on in the end, and this fails.
    """
    loop = asyncio.get_running_loop()
    assert isinstance(loop, StandingLoop) and loop.stood_s is None
    loop.stood_s = loop.time() - loop.leapt_s
    alarm = Timer(_MOST_S, loop.call_soon_threadsafe, (loop.go,))
    alarm.start()
    try:
        yield
        assert loop.stood_s is not None, "it waited for a time to come"
    finally:
        alarm.cancel()
        alarm.join()
        loop.go()


def run(test: Coroutine[Any, Any, None]) -> None:
    """Run a test on such a loop."""
    with asyncio.Runner(loop_factory=StandingLoop) as runner:
        runner.run(test)
