"""Who of a fleet computes prompts, who continues them, and who takes a request whole."""

from collections.abc import Collection, Sequence
from typing import Final

from gateway.fleets.fleet import Engine, Fleet
from gateway.spec import SplitSpec
from routing.index import PrefixIndex
from routing.router import Crowd, Router
from routing.types import Prompt

VLLM, SGLANG = "vllm", "sglang"
UNHEARD: Final = "auto"  # the kind of an engine as long as nobody knows better
_NOBODY: Final = 0


class Side(Fleet):
    """Some of a fleet's engines, as a fleet of their own to choose from; their loads are the fleet's."""

    def __init__(self, fleet: Fleet, router: Router) -> None:
        super().__init__(fleet.spec, (), router)
        self._of = fleet

    def ready(self) -> Crowd:
        ready = self._ready
        if ready is None:
            loads = {one.id: one.load for one in self._engines if one.up}
            ready = self._ready = Crowd(loads, self._of.ready().busy)
            self.loads = list(loads.values())
        return ready


class Roles:
    """The sides of one fleet, always those of the engines it has now.

    `prefill` is chosen from by the fleet's own policy; so is `whole`, for requests that are not split.
    `decode` is chosen from as if every engine held the prompt (`routing.handed`).  One memory, `index`, knows
    for all of them who was sent what, and what was handed over.
    """

    def __init__(self, fleet: Fleet, spec: SplitSpec, decode: Router, index: PrefixIndex) -> None:
        self.spec = spec
        self._fleet = fleet
        self._index = index
        self._style = spec.style if spec.style != "auto" else None
        self.prefill = Side(fleet, fleet.router)
        self.decode = Side(fleet, decode)
        self.whole = Side(fleet, fleet.router)
        self.changed()

    @property
    def style(self) -> str:
        """vLLM's way or SGLang's, as the config says or the engines turn out to be; empty until then."""
        if self._style is None:
            kinds = {engine.kind for engine in self._fleet.engines}
            if SGLANG in kinds:
                self._style = SGLANG
            elif VLLM in kinds or UNHEARD not in kinds:
                self._style = VLLM
            else:
                return ""
            self.changed()
        return self._style

    def changed(self) -> None:
        """The fleet's engines are others, or others of them may be chosen."""
        engines = self._fleet.engines
        prefill, decode = _with(engines, "prefill"), _with(engines, "decode")
        both = _with(engines, "both")
        if self._style == SGLANG:  # what each does was settled when it started: one without a role is no half
            self.prefill.engines, self.decode.engines = prefill, decode
            self.whole.engines = both or decode
        else:
            self.prefill.engines, self.decode.engines = (*prefill, *both), (*decode, *both)
            self.whole.engines = self.decode.engines

    @property
    def kinds(self) -> tuple[tuple[Engine, ...], ...]:
        """The engines, those together that do the same work: one that prefills decodes a token a request."""
        engines = self._fleet.engines
        first = _with(engines, "prefill")
        return first, tuple(engine for engine in engines if engine not in first)

    def has_other(self, without: Collection[int]) -> bool:
        """Whether a request may yet be served by engines that are not among `without`."""
        whole = self.whole.has_other(without)
        if self._style != SGLANG:
            return whole  # who continues a prompt can compute it too
        pair = self.prefill.has_other(without) and self.decode.has_other(without)
        return pair or (whole and self.whole.engines != self.decode.engines)

    def is_short(self, prompt: Prompt) -> bool:
        """Whether an engine that decodes would have too little of it to compute for a split to pay."""
        least = self.spec.min_bytes
        if not least or not prompt.ends:
            return False
        total = prompt.ends[-1]
        if total < least:
            return True
        self._fleet.router.rename(prompt)
        held = self._index.match(prompt.chain, prompt.ends)
        up = [engine.id for engine in self.whole.engines if engine.up]
        return total - max((held.get(id, _NOBODY) for id in up), default=_NOBODY) < least


def _with(engines: Sequence[Engine], role: str) -> tuple[Engine, ...]:
    return tuple(engine for engine in engines if engine.spec.role == role)
