"""What the admin server shows: the questions it asks of the process it runs in."""

from collections.abc import Sequence
from typing import Any, Protocol

from aiohttp import web


class Source(Protocol):
    """Answers from the present state; `board.Board` is the one in production."""

    def status(self) -> dict[str, Any]:
        """Processes, experiments, inbox, logs, troubles: JSON-able."""

    def not_ready(self) -> list[str]:
        """Why traffic should not be sent here; empty when it may be."""

    async def reload(self) -> dict[str, Any] | None:
        """Have the configuration read again: what came of it; None when nobody says."""

    async def switch(
        self, kind: str, names: Sequence[str], why: str, *, stop_engines: bool = False
    ) -> dict[str, Any] | None:
        """Have experiments (all, where none is named) paused or, by "resume", go on: what came of it."""

    async def forget(self, names: Sequence[str], requests: Sequence[str]) -> dict[str, int] | None:
        """Forget what was said to these requests, by experiment; None when there is no such experiment."""

    def names(self) -> list[str]:
        """The experiments' names."""

    def rank_version(self, name: str) -> int:
        """Changes whenever the ranking may have changed."""

    async def ranking(self, name: str) -> dict[str, Any] | None:
        """An experiment's ranking now; None when there is no such experiment."""


SOURCE: web.AppKey[Source] = web.AppKey("source", Source)
