"""The phase in which all arms decode the control's tokens: who can, and what they are sent."""

from typing import Any

from mirror import forced
from mirror.frames import Copy
from mirror.sequel import NO_TOKEN_IDS, Following, Sequel
from wire.fetch import fetch

_PROBE_S = 30.0


class Forcing(Sequel):
    """Asks the arms once a phase; until all have shown that they can, nothing is forced."""

    phase = "forced"
    path = forced.PATH
    source = "forced_source"
    stream = True

    async def ask(self) -> None:
        for arm in self.arms:
            found = await fetch(arm.pool, arm.probe(), _PROBE_S, limit_bytes=1 << 20)
            if not forced.can(found.status, found.body):
                told = f"status {found.status}" if found.status else str(found.ending)
                self.why = f"{arm.spec.name} does not decode tokens it is given ({told})"
                return
        self.ready = True

    def after(self, copy: Copy, answer: dict[str, Any], duplicate: int) -> Following | None:
        """All arms decode its tokens; nothing where it tells too little."""
        if not self.ready or self.why is not None or answer["status"] != 200:
            return None
        found = forced.tokens_of(answer)
        if found is None:
            self.unfit(NO_TOKEN_IDS)
            return None
        prompt, tokens = found
        return Following([arm.forced(copy, prompt, tokens, duplicate) for arm in self.arms], tokens)

    def looked_at(self, following: Following, answer: dict[str, Any]) -> dict[str, Any]:
        """Whether it is what was forced."""
        return {**answer, "forced": forced.is_forced(answer, following.tokens)}
