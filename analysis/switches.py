"""How the admin server shows which experiments are paused, and has them paused or go on."""

import asyncio
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

# The closed set of reasons, as `mirror.switch` and `mirror.brakes` have them (a test compares).
BY_HAND: Final = "by_hand"
CONFIG: Final = "config"
BRAKES: Final = ("production_errors", "production_latency", "lane_pressure", "memory", "arm_errors")


class Switches:
    """The supervisor's last word on pauses.  `say(kind, body)` tells it more; False: it does not hear."""

    def __init__(self, say: Callable[[str, bytes], bool]) -> None:
        self._say = say
        self._changed = asyncio.Event()
        self._state: dict[str, Any] = {}

    def told(self, body: bytes) -> None:
        """The supervisor's word has changed."""
        self._state = json.loads(body)
        self._changed.set()

    def of(self, experiment: str, now_ns: int) -> dict[str, Any]:
        """`paused`: why, for how long; None while it is copied.  `trips`: how often its brakes paused it."""
        trips: Mapping[str, int] = self._state.get("trips", {}).get(experiment, {})
        return {"paused": self._pause(experiment, now_ns), "trips": dict(trips)}

    def _pause(self, experiment: str, now_ns: int) -> dict[str, Any] | None:
        pause = self._state.get("paused", {}).get(experiment)
        if pause is None:
            return None
        until_ns = pause["until_ns"]
        return {
            "reason": pause["reason"],
            "detail": pause["detail"],
            "remedy": pause["remedy"],
            "for_s": max(0, (now_ns - pause["since_ns"]) // 1_000_000_000),
            "stops_engines": bool(pause.get("halts")),
            "resumes_in_s": None if until_ns is None else max(0, (until_ns - now_ns) // 1_000_000_000),
        }

    async def ask(
        self, kind: str, names: Sequence[str], why: str, within_s: float, *, stop_engines: bool = False
    ) -> dict[str, Any] | None:
        """Have experiments (all, where none is named) paused, or with `kind` "resume" go on.  `stop_engines`:
        those launched for them are ended for as long.

        What came of it: `names`, `error` and `code`, and `behind`, the processes that had not said in time
        that they obey.  None when the supervisor says nothing.
        """
        token = secrets.token_hex(8)
        said = {"token": token, "names": list(names), "why": why, "stop_engines": stop_engines}
        if not self._say(kind, json.dumps(said).encode()):
            return None
        await self._until(lambda: self._answer(token) is not None and not self.behind, within_s)
        answer = self._answer(token)
        return None if answer is None else {**answer, "behind": self.behind}

    @property
    def behind(self) -> list[str]:
        """The processes that have not said yet that they obey the last word."""
        found: list[str] = self._state.get("behind", [])
        return found

    async def obeyed(self, within_s: float) -> None:
        """Until all obey the last word, or the time is over."""
        await self._until(lambda: not self.behind, within_s)

    async def _until(self, true: Callable[[], bool], within_s: float) -> None:
        try:
            async with asyncio.timeout(within_s):
                while not true():
                    self._changed.clear()
                    await self._changed.wait()
        except TimeoutError:
            pass

    def _answer(self, token: str) -> dict[str, Any] | None:
        answers: Mapping[str, dict[str, Any]] = self._state.get("answers", {})
        return answers.get(token)
