"""What engines are known to hold stands in place of what is believed; what is remembered breaks ties."""

from collections.abc import Mapping, Sequence
from random import Random

from routing.index import PrefixIndex
from routing.policy import NO_LIMIT_BYTES, NOTHING_WAITS, Lasting
from routing.router import Crowd, Router
from routing.types import Choice, EngineLoad, Prompt

PROMPT = Prompt("m", [11, 12], [1000, 2000], 11, 0, stream=False, max_tokens=None)
OTHER = Prompt("m", [21], [1000], 21, 0, stream=False, max_tokens=None)


class Seen:
    """A policy that takes the first engine, and shows what it was told."""

    def __init__(self) -> None:
        self.cached: dict[int, int] = {}

    def choose(
        self, prompt: Prompt, engines: Sequence[EngineLoad], cached: Mapping[int, int], rng: Random
    ) -> Choice:
        self.cached = dict(cached)
        return Choice(engines[0].id, "first", 0, prompt.ends[-1])


class Known:
    """What engines are known to hold."""

    def __init__(self, **held: int) -> None:
        self._held = {int(name[1:]): bytes for name, bytes in held.items()}
        self.lasting: Mapping[int, Lasting] = {}

    def below(self) -> Mapping[int, tuple[int, int]]:
        return {}

    def share(self, engine: int) -> float:
        return 1.0

    def rename(self, prompt: Prompt) -> None:
        pass

    def held(self, prompt: Prompt, lasting: Mapping[int, Lasting] = NOTHING_WAITS) -> Mapping[int, int]:
        self.lasting = lasting
        return self._held


def told(known: Known, *, later_s: float = 60.0) -> dict[int, int]:
    """What the policy is told of engines 1 to 3 when the prompt was sent to engine 1 a while before."""
    policy, engines = Seen(), [EngineLoad(id, 0, 0) for id in (1, 2, 3)]
    router = Router(policy, PrefixIndex(), Random(1))
    router.know(known)
    router.choose(PROMPT, engines, 0.0)
    router.choose(OTHER, engines, later_s)  # where nothing was sent since, nothing was evicted either
    router.choose(PROMPT, engines, later_s)
    return policy.cached


def test_what_is_known_stands_in_place_of_what_is_believed() -> None:
    assert told(Known(e1=500, e2=700)) == {1: 501, 2: 700}


def test_what_is_remembered_beyond_what_is_known_breaks_ties_and_no_more() -> None:
    cached = told(Known(e1=700, e2=700, e3=702))
    assert cached[2] < cached[1] < cached[3]


def test_what_was_sent_a_moment_ago_counts_though_its_events_have_not_come() -> None:
    assert told(Known(e1=0), later_s=1.0)[1] == 2000
    assert told(Known(e1=0), later_s=60.0)[1] == 1


def test_where_prompts_wait_the_memory_says_what_of_a_prompt_will_last_or_come() -> None:
    waits, decodes, idle = EngineLoad(1, 2, 700, 1), EngineLoad(2, 1, 0), EngineLoad(3, 0, 0)
    long = Prompt("m", list(range(1, 21)), list(range(100, 2001, 100)), 1, 0, stream=False, max_tokens=None)
    for crowd in (None, Crowd({1: waits, 2: decodes, 3: idle}, {1, 2})):
        known, router = Known(), Router(Seen(), PrefixIndex(), Random(1))
        router.know(known)
        for engine in (1, 2, 3):
            router.holds(engine, 2400)
        router.choose(long, [waits], 0.0)
        router.choose(long, [waits, decodes, idle], 60.0, crowd)
        assert known.lasting == {1: Lasting(NO_LIMIT_BYTES, 700, 2000)}  # there is room for more
        for _ in range(2):
            router.ended(1, long)
        router.choose(OTHER, [waits], 60.0)
        router.choose(long, [waits, decodes, idle], 60.0, crowd)
        assert known.lasting == {1: Lasting(1400, 700)}
