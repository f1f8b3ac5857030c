"""Two who know what no router knows: what the caches hold, what waits where, how long answers will be.

`Pooled` is not a router: it tells what share of tokens one cache, as large as all engines' together, would
have held.  Engines that keep a prompt's beginning twice, or apart from what continues it, have less.

`Clairvoyant` sends each request where it does the least harm: its own time to the first token, worked out
from the engine's true state, and the delay that it brings to others.  It is greedy, so a bound only in the
sense that no more can be known of the present.
"""

from collections import Counter, OrderedDict
from collections.abc import Sequence

from bench.routing.asks import Ask
from bench.routing.engine import Answer, Engine
from bench.routing.setting import Setting
from bench.routing.world import Chooser, Sent


class Pooled:
    """Looks on while another chooses: counts what one large least-recently-used cache would have held.

    As in an engine's, a prompt in flight stays: its blocks are most recent when it ends.
    """

    def __init__(self, chooser: Chooser, setting: Setting) -> None:
        self._chooser = chooser
        self._size = setting.block_size
        self._most = setting.engines * ((setting.kv_tokens + setting.host_tokens) // setting.block_size)
        self._idle: OrderedDict[int, None] = OrderedDict()
        self._in_use: Counter[int] = Counter()
        self.held: list[int] = []  # tokens, by request in order of arrival

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> Sent | None:
        if not without:
            self._look(ask)
        sent = self._chooser.choose(ask, now_ns, without)
        if sent is not None:
            for name in self._prompt(ask):
                self._in_use[name] += 1
                self._idle.pop(name, None)
            self._shrink()
        return sent

    def look(self, now_ns: int) -> None:
        pass

    def refused(self, sent: Sent, now_ns: int) -> None:
        self._release(sent.ask, ())
        self._chooser.refused(sent, now_ns)

    def began(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        self._chooser.began(sent, answer, now_ns)

    def ended(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        self._release(sent.ask, sent.ask.blocks[len(self._prompt(sent.ask)) :])
        self._chooser.ended(sent, answer, now_ns)

    def _look(self, ask: Ask) -> None:
        held = 0
        for block in ask.blocks[: (ask.prompt_tokens - 1) // self._size]:
            if block not in self._idle and block not in self._in_use:
                break
            held += 1
        self.held.append(held * self._size)

    def _prompt(self, ask: Ask) -> Sequence[int]:
        return ask.blocks[: ask.prompt_tokens // self._size]

    def _release(self, ask: Ask, answered: Sequence[int]) -> None:
        for name in reversed(answered):
            self._touch(name)
        for name in reversed(self._prompt(ask)):
            if self._in_use[name] > 1:
                self._in_use[name] -= 1
            else:
                del self._in_use[name]
                self._touch(name)
        self._shrink()

    def _touch(self, name: int) -> None:
        if name not in self._in_use:
            self._idle[name] = None
            self._idle.move_to_end(name)

    def _shrink(self) -> None:
        while self._idle and len(self._idle) + len(self._in_use) > self._most:
            self._idle.popitem(last=False)


class Clairvoyant:
    """The least harm by the engines' true state."""

    def __init__(self, setting: Setting, engines: Sequence[Engine]) -> None:
        self._setting = setting
        self._engines = engines
        self._coming: list[Counter[int]] = [Counter() for _ in engines]  # blocks of requests in flight
        self._inflight = [0] * len(engines)

    def choose(self, ask: Ask, now_ns: int, without: frozenset[int]) -> Sent | None:
        costs = [(self._harm_s(n, ask, now_ns), n) for n in range(len(self._engines)) if n not in without]
        if not costs:
            return None
        engine = min(costs)[1]
        self._coming[engine].update(ask.blocks)
        self._inflight[engine] += 1
        return Sent(ask, engine, None, now_ns)

    def look(self, now_ns: int) -> None:
        pass

    def refused(self, sent: Sent, now_ns: int) -> None:
        self._forget(sent)

    def began(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        pass

    def ended(self, sent: Sent, answer: Answer, now_ns: int) -> None:
        self._forget(sent)

    def _forget(self, sent: Sent) -> None:
        coming = self._coming[sent.engine]
        for block in sent.ask.blocks:
            if coming[block] > 1:
                coming[block] -= 1
            else:
                del coming[block]
        self._inflight[sent.engine] -= 1

    def _harm_s(self, n: int, ask: Ask, now_ns: int) -> tuple[bool, float]:
        engine, setting = self._engines[n], self._setting
        params, scheduler = engine.params, engine.scheduler
        load = params.ms_per_loaded_token / params.ms_per_prefill_token  # a token's loading, as computed ones
        ahead, batch, waiters = 0.0, 0, 0
        for one in scheduler.sequences():
            left = one.prompt_tokens - one.computed
            if left > 0:
                waiters += 1
                if one.computed:
                    loads = max(0, one.load_until - one.computed)
                    ahead += left - loads + load * loads
                else:
                    held, loads = self._held(n, one.lease.chain, one.prompt_tokens)
                    ahead += left - held - loads + load * loads
            batch += 1
        held, loads = self._held(n, ask.blocks, ask.prompt_tokens)
        uncached = ask.prompt_tokens - held - loads + load * loads
        per_token_s = params.ms_per_prefill_token / params.speed / 1e3
        step_s = (params.base_ms + params.ms_per_seq * batch) / params.speed / 1e3
        steps = 1 + int(ahead + uncached) // params.max_num_batched_tokens
        begun_s = max(0, engine.due_ns - now_ns) / 1e9 if engine.stepping else 0.0
        first_s = begun_s + (ahead + uncached) * per_token_s + steps * step_s + self._room_s(n, ask, step_s)
        more_s = params.ms_per_seq / params.speed / 1e3 * ask.output_tokens
        # Whoever waits now, and one who comes later, waits for this one's prefill; decoding weighs a tenth.
        harm_s = (waiters + 1) * uncached * per_token_s + 0.1 * (batch * more_s + ask.output_tokens * step_s)
        return first_s > setting.ttft_objective_s(ask.prompt_tokens), first_s + harm_s

    def _held(self, n: int, blocks: Sequence[int], prompt_tokens: int) -> tuple[int, int]:
        """Tokens that will be in the engine's cache once all that is there has been computed, and how many
        behind them can be loaded."""
        cache, coming, count = self._engines[n].cache, self._coming[n], 0
        chain = blocks[: (prompt_tokens - 1) // cache.block_size]
        for block in chain:
            if not cache.has(block) and block not in coming:
                break
            count += 1
        return count * cache.block_size, sum(cache.reach(chain[count:])) * cache.block_size

    def _room_s(self, n: int, ask: Ask, step_s: float) -> float:
        """How long until the engine has blocks for it, while answers end and give theirs back."""
        engine = self._engines[n]
        size, waiting = engine.cache.block_size, engine.scheduler.waiting
        running = engine.scheduler.sequences()[: engine.scheduler.running]
        lacking = ask.prompt_tokens // size - engine.cache.free_blocks
        if waiting:
            lacking += sum(one.prompt_tokens // size for one in engine.scheduler.sequences()[-waiting:])
        if lacking <= 0:
            return 0.0
        for one in sorted(running, key=_left):
            lacking -= len(one.lease.blocks)
            if lacking <= 0:
                return _left(one) * step_s
        return max(map(_left, running), default=0) * 2.0 * step_s


def _left(one: Answer) -> int:
    return one.output_tokens - one.emitted
