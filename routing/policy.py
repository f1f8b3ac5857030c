"""What a routing policy is."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import Final, NamedTuple, Protocol

from routing.types import Choice, EngineLoad, Prompt


class Lasting(NamedTuple):
    """Of an engine at which prompts wait to be computed.

    `memory_bytes`: of this prompt, what will not be evicted for them by what was sent there, and in which
    order; `waiting_bytes`: what they need, and can take at most; `coming_bytes`: of this prompt, what they
    or those that run there have, too, and will have had computed before its turn.
    """

    memory_bytes: int
    waiting_bytes: int
    coming_bytes: int = 0


NO_LIMIT_BYTES: Final = 1 << 62
NOTHING_WAITS: Final[Mapping[int, Lasting]] = {}


class Residency(Protocol):
    """What engines are known, not only believed, to hold: from their own KV events."""

    def rename(self, prompt: Prompt) -> None:
        """Name the prompt as the engines' chat template writes it, where that rewrites what stood before
        (`routing.loops`). Said of one with an `open_at`, before anything else is asked of it."""
        ...

    def held(self, prompt: Prompt, lasting: Mapping[int, Lasting] = NOTHING_WAITS) -> Mapping[int, int]:
        """Bytes of this prompt that each engine will have when its turn comes. 0 is a statement; of one left
        out nothing is known. `lasting` is of engines at which prompts wait; at the others all that is held
        now will be there."""
        ...

    def share(self, engine: int) -> float:
        """What share of its KV cache the engine has for prompts, by what its answers found (`Lasting`)."""
        ...

    def below(self) -> Mapping[int, tuple[int, int]]:
        """Of the prompt that `held` was last asked about: bytes beyond those that each engine can load from
        its host's memory, and beyond these from its stores. Engines that have none are left out."""
        ...


class Explains(Protocol):
    """A policy whose choice rests on a figure for each engine may have this beside `choose`."""

    def costs(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int]
    ) -> Mapping[int, float]:
        """The figure of each engine, least is best, as `choose` reckons it from the same arguments."""
        ...


class InFlight(Protocol):
    """The prompts that this worker sent and whose requests have not ended, in whatever order they end."""

    def in_use(self, engine: int, chain: Sequence[int], ends: Sequence[int]) -> int:
        """Bytes of the longest beginning of `chain` that one of those at `engine` has, too. `EngineLoad` has
        the bytes of all of them, over all workers, in `context_bytes`."""
        ...


class Watches(Protocol):
    """A policy whose choice rests on which prompts are in flight may have this beside `choose`."""

    def watch(self, flying: InFlight) -> None:
        """Look here from now on. Said before it is first asked, to this policy and to no other kind."""
        ...


class Policy(Protocol):
    """May say `idle_are_alike = True`: among engines without load that hold nothing of the prompt it makes no
    difference, so that one of them, drawn by lot, may stand for all."""

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        """Pick one of `engines`, which is never empty and in no particular order.

        `cached` maps an engine's id to the bytes of this prompt it is believed to hold; an engine that is not
        in it holds none. Must not wait, read a clock, or keep `engines` or `cached` after returning.
        """
        ...


def watch(policy: Policy, flying: InFlight) -> None:
    """Tell the policy where to look for what is in flight, if it asks for that."""
    told = getattr(policy, "watch", None)
    if told is not None:
        told(flying)


def chosen(
    engine: EngineLoad,
    prompt: Prompt,
    cached: Mapping[int, int],
    why: str,
    cost_s: float = 0.0,
    equals: int = 1,
) -> Choice:
    """The `Choice` of `engine`, with the prompt's bytes split into cached and uncached.

    `why` is one of a few constant phrases: the numbers stand beside it. `equals`: among how many, this one
    included, the lot decided.
    """
    total = prompt.ends[-1] if prompt.ends else 0
    return chosen_of(engine, total, cached.get(engine.id, 0), why, cost_s, equals)


def chosen_of(
    engine: EngineLoad, total: int, held: int, why: str, cost_s: float = 0.0, equals: int = 1
) -> Choice:
    """As `chosen`, where the prompt's bytes and those held are at hand."""
    if held > total:
        held = total
    return Choice(
        engine.id, why, held, total - held, engine.inflight, engine.pending_bytes, cost_s, 1.0 / equals
    )
