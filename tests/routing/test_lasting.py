"""What is foretold where prompts wait: an emulated engine in virtual time, whose cache is asked itself."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

from bench.routing.asks import Ask
from bench.routing.engine import Answer, Engine
from emulator.params import EngineParams
from routing.index import PrefixIndex
from routing.lasting import Shares
from routing.policies import least_load
from routing.precise import Precise
from routing.router import Router
from routing.types import Choice, EngineLoad, Prompt
from tests.routing.bridge.model import Said, blocks_of, encode, prompt_of, tokens_of

BLOCK = 16
ENGINE = 1
BYTES_PER_TOKEN = 2  # of the made-up tokenizer


@dataclass
class Told:
    """Tokens of one prompt: foretold, held at the moment of the choice, found in the end."""

    foretold: int
    held: int
    cached: int


class Cache:
    """`KnownBlocks`: what the engine holds at this very moment, as if events took no time."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def match(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        return {ENGINE: self._engine.cache.reach(blocks)[0]}

    def apart(self, blocks: Sequence[int], block_size: int) -> Mapping[int, Sequence[int]]:
        return {}

    def at_least(self, blocks: Sequence[int], block_size: int) -> Mapping[int, int]:
        return {}

    def below(self, blocks: Sequence[int], block_size: int) -> Mapping[int, tuple[int, int]]:
        return {}

    def judged(self, engine: int, foretold_tokens: int, cached_tokens: int, block_size: int) -> None:
        raise AssertionError("nothing was said of such an engine")

    def block_sizes(self) -> Mapping[int, int]:
        return {ENGINE: BLOCK}


class World:
    """Conversations of four turns, `alive` at a time, at one engine; learned when they are answered."""

    def __init__(self, params: EngineParams, alive: int, seed: int) -> None:
        self.rng = Random(seed)
        self.engine = Engine(params, self.rng, self.wake, self.began, self.ended)
        self.precise = Precise(Cache(self.engine))
        self.precise.look()
        self.router = Router(least_load.build(least_load.Params()), PrefixIndex(), self.rng)
        self.router.know(self.precise)
        self.router.holds(ENGINE, params.num_blocks * BLOCK * BYTES_PER_TOKEN)
        self.load = EngineLoad(ENGINE, 0, 0)
        self.told: list[Told] = []
        self.running: dict[int, tuple[Prompt, list[int], Choice, int, int, list[Said]]] = {}
        self.systems = [self.words(1500) for _ in range(3)]
        self.queue: list[tuple[int, int, object]] = []
        self.order = 0
        for _ in range(alive):
            self.at(self.rng.randrange(10**9), [])

    def words(self, most: int) -> str:
        return "".join(self.rng.choices("abcdefgh ", k=self.rng.randrange(40, most)))

    def at(self, at_ns: int, what: object) -> None:
        self.order += 1
        heapq.heappush(self.queue, (at_ns, self.order, what))

    def wake(self, at_ns: int, engine: Engine) -> None:
        self.at(at_ns, engine)

    def run(self, answers: int) -> list[Told]:
        while len(self.told) < answers:
            at_ns, _, what = heapq.heappop(self.queue)
            if isinstance(what, list):
                self.ask(at_ns, what)
            elif self.engine.due_ns == at_ns:
                self.engine.work(at_ns)
        return self.told

    def ask(self, at_ns: int, said: list[Said]) -> None:
        if len(said) >= 8:
            said = []
        said = said or [("system", self.rng.choice(self.systems))]
        said = [*said, ("user", self.words(1200))]
        prompt, ids = prompt_of(said), tokens_of(said)
        choice = self.router.choose(prompt, [self.load], at_ns / 1e9)
        self.precise.sent(prompt, ENGINE)
        foretold = self.precise.foretold(ENGINE)
        reply = self.words(120)
        blocks = list(blocks_of([*ids, *encode(reply)], BLOCK))
        held = self.engine.cache.reach(blocks[: (len(ids) - 1) // BLOCK])[0] * BLOCK
        self.load.inflight += 1
        self.load.awaiting += 1
        self.load.pending_bytes += choice.uncached_bytes
        answer = Answer(Ask(prompt, len(ids), len(encode(reply)), blocks, (), 0), at_ns)
        self.running[id(answer)] = (prompt, ids, choice, foretold or 0, held, [*said, ("assistant", reply)])
        assert self.engine.submit(answer, at_ns)

    def began(self, answer: Answer, now_ns: int) -> None:
        prompt, _, choice, *_ = self.running[id(answer)]
        self.load.awaiting -= 1
        self.load.pending_bytes -= choice.uncached_bytes
        self.router.answered(ENGINE, prompt)

    def ended(self, answer: Answer, now_ns: int) -> None:
        prompt, ids, _, foretold, held, said = self.running.pop(id(answer))
        self.load.inflight -= 1
        self.router.ended(ENGINE, prompt)
        self.precise.answered(prompt, ENGINE, len(ids), answer.cached_tokens)
        self.precise.learn(prompt.chain, prompt.ends, len(ids), {BLOCK: blocks_of(ids, BLOCK)}, 0)
        self.told.append(Told(foretold, held, answer.cached_tokens))
        self.at(now_ns + self.rng.randrange(600_000_000), said)


def params(num_blocks: int) -> EngineParams:
    """Two sequences at a time: the others wait."""
    return EngineParams(
        num_blocks=num_blocks, block_size=BLOCK, max_num_seqs=2, ms_per_prefill_token=0.5, hiccup_rate=0.0
    )


def too_high(errors: Sequence[int]) -> float:
    return sum(error > 2 * BLOCK for error in errors) / len(errors)


def test_what_is_evicted_while_a_request_waits_is_not_foretold() -> None:
    for seed in (1, 2):
        world = World(params(1200), alive=40, seed=seed)
        told = world.run(600)
        assert too_high([one.held - one.cached for one in told]) > 0.15  # what is held is not what will be
        assert too_high([one.foretold - one.cached for one in told]) <= 0.03
        assert sum(min(one.foretold, one.cached) for one in told) > 0.7 * sum(one.cached for one in told)
        assert world.precise.accuracy.is_trusted


def test_where_nothing_has_to_go_waiting_takes_nothing_from_what_is_held() -> None:
    world = World(params(40_000), alive=20, seed=1)
    for one in world.run(300):
        assert one.foretold <= one.held <= one.cached
    told = world.told[100:]
    assert sum(one.foretold for one in told) > 0.9 * sum(one.held for one in told)


def test_the_share_goes_down_by_what_was_promised_and_not_found_and_up_by_what_was_not_promised() -> None:
    shares = Shares()
    first = shares.of(ENGINE)
    shares.told(ENGINE, promised=640, held=640, cached=320, block_tokens=BLOCK)
    less = shares.of(ENGINE)
    assert less < first
    shares.told(ENGINE, promised=320, held=640, cached=640, block_tokens=BLOCK)
    assert less < shares.of(ENGINE) < first


def test_the_share_stays_where_all_that_was_promised_was_found_and_no_more_was_held() -> None:
    shares = Shares()
    first = shares.of(ENGINE)
    shares.told(ENGINE, promised=640, held=640, cached=640, block_tokens=BLOCK)
    shares.told(ENGINE, promised=320, held=320, cached=640, block_tokens=BLOCK)
    assert shares.of(ENGINE) == first and shares.of(2) == first


def test_the_share_stays_within_bounds_whatever_answers_say() -> None:
    shares = Shares()
    for _ in range(5000):
        shares.told(1, promised=640, held=640, cached=0, block_tokens=BLOCK)
        shares.told(2, promised=0, held=640, cached=640, block_tokens=BLOCK)
    assert 0 < shares.of(1) < shares.of(2) < 2
    shares.keep({2})
    assert shares.of(1) == Shares().of(1) and shares.of(2) > 1
