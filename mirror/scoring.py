"""The phase in which all arms score the control's tokens: who can, in which way, and what they are sent."""

from collections.abc import Sequence
from typing import Any

from mirror import scored
from mirror.arms import Arm, Prepared
from mirror.forced import tokens_of
from mirror.frames import Copy
from mirror.sequel import NO_TOKEN_IDS, Following, Sequel
from mirror.spec import CONTROL
from wire.fetch import fetch

_PROBE_S = 30.0

BUSY = "busy"
TOO_LONG = "too_long"


class Scoring(Sequel):
    """Asks the arms once a phase; until all have shown that they can, nothing is scored.

    One answer at a time: what the control says meanwhile is left out, and so is what would need more than
    `rows` rows of logits.
    """

    phase = "scored"
    path = scored.PATHS["completions"]
    source = "scored_source"
    stream = False

    def __init__(self, arms: Sequence[Arm], rows: int) -> None:
        super().__init__(arms)
        self._rows = rows
        self._ways: dict[str, scored.Way] = {}
        self._top = 0

    async def ask(self) -> None:
        missing = None
        for top in scored.TOPS:
            missing = await self._cannot(top)
            if missing is None:
                self._top, self.ready = top, True
                return
        self.why = f"{missing} does not score tokens it is given, neither as vLLM does nor as SGLang"

    async def _cannot(self, top: int) -> str | None:
        """The first arm that does not tell so many alternatives; None where all do, in the ways found."""
        for arm in self.arms:
            for way in scored.WAYS:
                found = await fetch(arm.pool, arm.scoring_probe(way, top), _PROBE_S, limit_bytes=1 << 20)
                if scored.can(found.status, found.body):
                    self._ways[arm.spec.name] = way
                    break
            else:
                return arm.spec.name
        return None

    def after(self, copy: Copy, answer: dict[str, Any], duplicate: int) -> Following | None:
        """The control scores its own tokens twice, and every candidate once."""
        if not self.ready or self.why is not None or answer["status"] != 200:
            return None
        if self.under_way:
            self.left[BUSY] += 1
            return None
        found = tokens_of(answer)
        if found is None:
            self.unfit(NO_TOKEN_IDS)
            return None
        prompt = found[0]
        tokens = scored.fitting(tuple(self._ways.values()), prompt, found[1], self._rows)
        if not tokens:
            self.unfit(TOO_LONG)
            return None
        prepared = [self._prepared(copy, arm, prompt, tokens, duplicate) for arm in self.arms]
        control = next(arm for arm in self.arms if arm.spec.name == CONTROL)
        prepared.append(self._prepared(copy, control, prompt, tokens, duplicate, twin=1))
        return Following(prepared, tokens, {"scored": tokens})

    def _prepared(
        self, copy: Copy, arm: Arm, prompt: list[int], tokens: list[int], duplicate: int, twin: int = 0
    ) -> Prepared:
        way = self._ways[arm.spec.name]
        return arm.scoring(copy, way, prompt, tokens, self._top, duplicate=duplicate, twin=twin)
