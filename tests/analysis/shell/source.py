"""A source whose status and ranking never change: the web layer without an experiment behind it."""

from collections.abc import Sequence
from typing import Any


class Still:
    """One experiment's ranking, or none."""

    def __init__(self, status: dict[str, Any], ranking: dict[str, Any] | None) -> None:
        self._status = status
        self._ranking = ranking

    def status(self) -> dict[str, Any]:
        return self._status

    def not_ready(self) -> list[str]:
        reasons: list[str] = self._status["ready"]["reasons"]
        return reasons

    async def reload(self) -> dict[str, Any] | None:
        return {"generation": 2, "reloads": {"applied": 1}, "error": None, "trouble": {}}

    async def switch(
        self, kind: str, names: Sequence[str], why: str, *, stop_engines: bool = False
    ) -> dict[str, Any] | None:
        return {"kind": kind, "experiments": list(names) or self.names(), "why": why}

    async def forget(self, names: Sequence[str], requests: Sequence[str]) -> dict[str, int] | None:
        return dict.fromkeys(names or self.names(), len(requests))

    def names(self) -> list[str]:
        return [spec["name"] for spec in self._status["experiments"]]

    def rank_version(self, name: str) -> int:
        return 1

    async def ranking(self, name: str) -> dict[str, Any] | None:
        return self._ranking if name in self.names() else None
