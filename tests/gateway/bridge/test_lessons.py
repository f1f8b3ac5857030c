"""Nothing about what is known of engines fails a request, and what is learned is worth it."""

import json
from array import array
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gateway.bridge.frames import Asked, Copied, Learned, Template
from gateway.bridge.lessons import Lessons
from gateway.usage import Usage
from routing.bridge.fit import CHAT
from routing.bridge.novelty import Budget
from routing.precise import Precise
from routing.prompt import read
from routing.types import Prompt
from tests.routing.bridge.model import BLOCK, Said, blocks_of, prompt_of, tokens_of

SAID: list[Said] = [("system", "Be brief. " * 40), ("user", "What is a block?")]
BODY = b"{}" * 500


@dataclass
class Events:
    """One engine that holds nothing; or one of which it is an error to ask."""

    is_broken: bool = False
    asked: int = 0

    def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
        return {}

    def apart(self, blocks: Sequence[int], block_size: int) -> Mapping[int, Sequence[int]]:
        return {}

    def at_least(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        return {}

    def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
        raise AssertionError("nothing was said of such an engine")

    def match(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        self.asked += 1
        if self.is_broken:
            raise RuntimeError("a fault of ours")
        return {1: 0}

    def block_sizes(self) -> Mapping[int, int]:
        return {1: BLOCK}


@dataclass
class Taught:
    lessons: Lessons
    events: Events
    told: list[Any]
    counts: dict[tuple[str, ...], int]

    def sent(self, said: list[Said], copy: str | None = None, at_s: float = 0.0) -> None:
        prompt = prompt_of(said)
        self.lessons.held(prompt)
        self.lessons.sent_prompt(prompt, 1, CHAT, BODY, at_s, copy)


def taught(*, bytes_per_s: float = 1e6, **settled: bool) -> Taught:
    events, counts = Events(), defaultdict[tuple[str, ...], int](int)
    told: list[Any] = []

    def tell(frame: Any) -> bool:
        told.append(frame)
        return True

    precise = Precise(events)
    precise.look()
    budget = Budget(bytes_per_s, 0.0)
    lessons = Lessons("f", precise, tell, budget, counts)
    lessons.settle(budget, **{"asks": True, "copies": True, **settled})
    return Taught(lessons, events, told, counts)


def learned(said: list[Said]) -> Learned:
    prompt, ids = prompt_of(said), tokens_of(said)

    chain, ends = array("Q", prompt.chain).tobytes(), array("I", prompt.ends).tobytes()
    return Learned("f", chain, ends, len(ids), 0, {BLOCK: blocks_of(ids).tobytes()})


def test_a_new_prompt_is_asked_about_and_a_known_one_is_not() -> None:
    one = taught()
    one.sent(SAID)
    assert [type(frame) for frame in one.told] == [Asked]
    assert one.told[0].sizes == (BLOCK,)
    one.lessons.heard(learned(SAID))
    one.sent(SAID)
    assert len(one.told) == 1


def test_a_copy_teaches_where_engines_are_not_asked_or_the_budget_is_short() -> None:
    shy, poor = taught(asks=False), taught(bytes_per_s=1.0)
    shy.sent(SAID, copy="id-1")
    assert [type(frame) for frame in shy.told] == [Copied]
    for number in range(200):
        poor.sent([("system", f"{number} " * 200), ("user", "x")], copy=f"id-{number}")
    kinds = [type(frame) for frame in poor.told]
    assert kinds[0] is Asked and kinds[-1] is Copied
    assert not poor.counts


def test_what_finds_no_budget_is_counted() -> None:
    poor = taught(bytes_per_s=1.0)
    for number in range(200):
        poor.sent([("system", f"{number} " * 200), ("user", "x")])
    assert poor.counts["bridge_skipped", "f", "budget"] > 0


def test_nothing_is_learned_of_a_body_that_was_taken_as_it_is() -> None:
    """Where its text begins and ends is not known, so it would teach wrong blocks of it."""
    one = taught()
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": "{" * 80_000}]}).encode()
    prompt = read(CHAT, body, b"key")
    one.lessons.held(prompt)
    assert one.lessons.precise.unlearned_bytes(prompt) == 0  # so production is not asked along either
    one.lessons.sent_prompt(prompt, 1, CHAT, body, 0.0, "id-1")
    assert not one.told
    assert one.counts == {("bridge_skipped", "f", "raw"): 1}


def test_the_same_template_again_forgets_nothing_and_another_one_everything() -> None:
    one = taught()
    one.lessons.heard(Template("f", 1, 3, (0,)))
    one.lessons.heard(learned(SAID))
    one.lessons.heard(Template("f", 1, 3, (0,)))
    assert one.lessons.held(prompt_of(SAID)) == {1: 0}
    one.lessons.heard(Template("f", 2, 3, (0,)))
    assert one.lessons.held(prompt_of(SAID)) == {}


def test_a_workers_open_loops_are_set_apart_where_the_template_rewrites_them() -> None:
    one = taught()
    said = [("user", "Is berth four free?"), ("assistant", "<think>I look.</think>"), ("tool", "It is.")]
    open_loop = prompt_of(said)
    one.lessons.heard(Template("f", 1, 3, (0, 1, 2, 3)))
    one.lessons.rename(open_loop)
    assert list(open_loop.chain) == list(prompt_of(said).chain)
    one.lessons.heard(Template("f", 2, 3, (0, 1, 2, 3), are_loops_apart=True))
    one.lessons.rename(open_loop)
    assert open_loop.chain[0] == prompt_of(said).chain[0] and open_loop.chain[1] != prompt_of(said).chain[1]


def test_a_fault_of_ours_costs_knowledge_and_no_request() -> None:
    one = taught()
    one.lessons.heard(learned(SAID))
    assert one.lessons.held(prompt_of(SAID)) == {1: 0}
    one.events.is_broken = True
    assert one.lessons.held(prompt_of(SAID)) == {}
    assert one.counts == {("bridge_dropped", "failed"): 1}
    before = one.events.asked
    assert one.lessons.held(prompt_of(SAID)) == {} and one.events.asked == before  # all was forgotten
    broken: Any = Prompt("m", [1], [], 1, 0, stream=False, max_tokens=None)
    one.lessons.sent(broken, 1)  # no request at all
    one.lessons.answered(prompt_of(SAID), 1, Usage(1, 1, 1))
    assert one.counts["bridge_dropped", "failed"] == 2
