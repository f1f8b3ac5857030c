"""Which text goes through which command?  One of each runs, however many experiments have it."""

import asyncio
from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import Any, Final

from analysis import errors
from analysis.scrub import Scrubber, Text
from analysis.texts import Scrubbed

Command = tuple[str, ...]
_ENDS_S: Final = 1.0  # of what a stop may take


class Scrubbing:
    """The operator's commands that texts go through before they are kept.  Made on the loop they run on.

    `lost` counts texts that did not come back, by reason.
    """

    def __init__(self, log: Any) -> None:
        self._log = log
        self._loop = asyncio.get_running_loop()
        self._running: dict[Command, tuple[Scrubber, asyncio.Task[None]]] = {}
        self._past: Counter[str] = Counter()

    @property
    def lost(self) -> Counter[str]:
        """Of all commands that are or were."""
        return sum((scrubber.lost for scrubber, _ in self._running.values()), Counter(self._past))

    def keep(self, commands: Collection[Command]) -> None:
        """Run these and no others; what waits for one that ends comes back without text."""
        for command in self._running.keys() - set(commands):
            self._end(command)
        for command in commands:
            if command not in self._running:
                scrubber = Scrubber(command, self._log, ends_s=_ENDS_S)
                task = self._loop.create_task(scrubber.run(), name="redact_command")
                task.add_done_callback(self._ended)
                self._running[command] = scrubber, task

    def offer(self, command: Command, texts: Sequence[str], done: Scrubbed) -> None:
        """Have `done` called with what may be kept of each text, on the loop.  Any thread may call this."""
        with suppress(RuntimeError):  # everything has ended meanwhile
            self._loop.call_soon_threadsafe(self._scrub, command, texts, done)

    def _scrub(self, command: Command, texts: Sequence[str], done: Scrubbed) -> None:
        if command not in self._running:  # it has ended since
            done([None] * len(texts))
            return
        scrubber, _ = self._running[command]
        back: dict[int, str | None] = {}

        def take(number: int, text: Text) -> None:
            back[number] = text.answer
            if len(back) == len(texts):
                done([back[n] for n in range(len(texts))])

        for number, text in enumerate(texts):
            scrubber.scrub(Text(answer=text), lambda clean, number=number: take(number, clean))  # type: ignore[misc]

    async def close(self) -> None:
        """End the commands."""
        tasks = [task for _, task in self._running.values()]
        self.keep(())
        await asyncio.gather(*tasks, return_exceptions=True)

    def _end(self, command: Command) -> None:
        scrubber, task = self._running.pop(command)
        task.cancel()
        scrubber.close()
        self._past += scrubber.lost

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._log.error("task failed", task=task.get_name(), error=errors.told(error))
