"""The phase in which all arms decode the control's tokens: who can, and what they are sent."""

from collections.abc import Callable, Sequence
from typing import Any

from mirror import forced
from mirror.arms import Arm, Prepared
from mirror.frames import Copy
from wire.fetch import fetch

_PROBE_S = 30.0


class Forcing:
    """Asks the arms once a phase; until all have shown that they can, nothing is forced.

    `why` is None while they are asked and when all can; else which arm cannot.
    """

    def __init__(self, arms: Sequence[Arm]) -> None:
        self._arms = arms
        self.ready = False
        self.why: str | None = None

    async def ask(self) -> None:
        """Find out who can."""
        for arm in self._arms:
            found = await fetch(arm.pool, arm.probe(), _PROBE_S, limit_bytes=1 << 20)
            if not forced.can(found.status, found.body):
                told = f"status {found.status}" if found.status else str(found.ending)
                self.why = f"{arm.spec.name} does not decode tokens it is given ({told})"
                return
        self.ready = True

    def prepared(
        self, copy: Copy, answer: dict[str, Any], duplicate: int
    ) -> tuple[list[Prepared], list[int]]:
        """The requests to all arms, and the tokens; none where the control's answer tells too little."""
        found = forced.tokens_of(answer) if self.ready and answer["status"] == 200 else None
        if found is None:
            return [], []
        prompt, tokens = found
        return [arm.forced(copy, prompt, tokens, duplicate) for arm in self._arms], tokens


def looked_at(
    tokens: Sequence[int], done: Callable[[dict[str, Any]], None]
) -> Callable[[dict[str, Any]], None]:
    """`done`, told of each answer whether it is what was forced."""

    def seen(answer: dict[str, Any]) -> None:
        done({**answer, "forced": forced.is_forced(answer, tokens)})

    return seen
