"""What engines are known to hold of a prompt: which blocks its text becomes, and who has those by its events.

Only of engines whose events are complete (`routing.events.known`), and of prompts of which something was
learned (`routing.bridge`). Beyond what was learned nothing is claimed, and while too much was foretold too
high (`routing.bridge.accuracy`) nothing is at all: then the memory of what was sent speaks.
"""

from array import array
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from routing.bridge.accuracy import Accuracy
from routing.bridge.learner import DEFAULT_LINKS, Bridge, Found
from routing.events.known import KnownBlocks
from routing.events.trust import Trust
from routing.lasting import Shares
from routing.loops import set_apart
from routing.policy import NOTHING_WAITS, Lasting
from routing.types import Prompt

_MOST_PENDING: Final = 1 << 14
_MOST_SIZES: Final = 4
_USUAL_BLOCK: Final = 16
_RESTLESS: Final = 3
"""So many new epochs within `_RESTLESS_PROMPTS` prompts: this is no date that changed."""
_RESTLESS_PROMPTS: Final = 256
_NOTHING: Final[Mapping[int, int]] = {}


class _Foretold(NamedTuple):
    """Tokens that are held, in blocks of `size`, and that is all; `below`: more of them in the host's memory,
    and beyond these in stores.

    `now`: those held when it was asked, where some of them may not last; else None. `apart`: those that each
    rank holds, where there are several and `tokens` is their mean.
    """

    tokens: int
    size: int
    is_all: bool
    below: tuple[int, int]
    now: int | None
    apart: tuple[int, ...] = ()

    @property
    def surely(self) -> int:
        """What every rank holds, whichever the engine chooses."""
        return min(self.tokens, *self.apart) if self.apart else self.tokens

    def nearest(self, cached_tokens: int) -> int:
        """What was foretold of the rank that answered: the engine chose it, and does not say which it was."""
        if not self.apart:
            return self.tokens
        there = self.apart
        if self.now is not None:
            there = (self.tokens, *(held for held in there if held < self.tokens))
        return min(there, key=lambda held: abs(held - cached_tokens))


class Precise:
    """`routing.policy.Residency` for one fleet. One `Bridge` for each block size among its engines."""

    def __init__(self, known: KnownBlocks, most_links: int = DEFAULT_LINKS) -> None:
        self._known = known
        self._most_links = most_links
        self._bridges: dict[int, Bridge] = {}
        self._tail_tokens = 0
        self._are_loops_apart = False
        self._epochs_at: list[int] = []  # by `learned`, when new epochs began
        self.accuracy = Accuracy()
        self.trust = Trust()
        self.shares = Shares()
        self.unlearned = 0
        """Answers to prompts of which nothing was known."""
        self.below_tokens = [0, 0]
        """Tokens foretold in hosts' memory, and beyond these in stores, where answers say what was cached."""
        self.below_found = 0
        """Those of them that were cached: loaded, or not gone to there yet."""
        # What was foretold of prompts that run, by (last link, engine).
        self._pending: OrderedDict[tuple[int, int], _Foretold] = OrderedDict()
        self._asked: Prompt | None = None
        self._foretold: dict[int, tuple[int, int]] = {}
        self._unsure: dict[int, tuple[int, int]] = {}  # of engines that may hold more
        self._below: dict[int, tuple[int, int]] = {}
        self._below_tokens: dict[int, tuple[int, int]] = {}
        self._now: dict[int, int] = {}  # tokens held at this moment by engines at which prompts wait
        self._apart: dict[int, tuple[int, ...]] = {}
        self._known_bytes = 0

    @property
    def block_sizes(self) -> tuple[int, ...]:
        """The sizes for which prompts are to be learned."""
        return tuple(self._bridges)

    @property
    def bridges(self) -> Mapping[int, Bridge]:
        """What was learned, by block size."""
        return self._bridges

    @property
    def is_restless(self) -> bool:
        """New epochs came so often that what is learned is not to be believed."""
        at = self._epochs_at
        return len(at) >= _RESTLESS and self._learned - at[-_RESTLESS] <= _RESTLESS_PROMPTS

    @property
    def _learned(self) -> int:
        return max((bridge.learned for bridge in self._bridges.values()), default=0)

    def look(self) -> None:
        """See which block sizes there are; about once a second."""
        sizes = set(self._known.block_sizes().values())
        for size in sorted(sizes - self._bridges.keys()):
            if len(self._bridges) < _MOST_SIZES:
                # Small blocks are many: memory is bounded whatever their size.
                most = max(1024, self._most_links * min(size, _USUAL_BLOCK) // _USUAL_BLOCK)
                self._bridges[size] = Bridge(size, self._tail_tokens, most)

    def share(self, engine: int) -> float:
        """As `Residency.share`."""
        return self.shares.of(engine)

    def rename(self, prompt: Prompt) -> None:
        """As `Residency.rename`."""
        if self._are_loops_apart:
            set_apart(prompt)

    def held(self, prompt: Prompt, lasting: Mapping[int, Lasting] = NOTHING_WAITS) -> Mapping[int, int]:
        """As `Residency.held`."""
        self._asked, self._foretold, self._unsure = prompt, {}, {}
        if self._now:
            self._now = {}
        if self._apart:
            self._apart = {}
        if self._below:
            self._below, self._below_tokens = {}, {}
        chain, ends = prompt.chain, prompt.ends
        if not chain:
            return _NOTHING
        held: dict[int, int] = {}
        least = ends[-1]
        for size, bridge in self._bridges.items():
            found = bridge.find(chain, ends)
            if found is None:
                least = 0
                continue
            least = min(least, found.text_bytes)
            here = self._known.match(found.blocks, size)
            below = self._known.below(found.blocks, size)
            for engine, count in here.items():
                if engine in lasting:
                    self._now[engine] = count * size
                    count = _lasts(bridge, prompt, found, count, lasting[engine])
                tokens = count * size
                self._foretold[engine] = tokens, size
                if engine not in self.trust.distrusted:
                    held[engine] = tokens * found.text_bytes // max(1, found.tokens)
                    if engine in below:
                        host, store = (
                            max(0, (more - count) * size * found.text_bytes // max(1, found.tokens))
                            for more in below[engine]
                        )
                        if store or host:
                            self._below[engine] = host, max(0, store - host)
                            in_host, in_either = (max(0, more - count) * size for more in below[engine])
                            self._below_tokens[engine] = in_host, max(0, in_either - in_host)
            for engine, ranks in self._known.apart(found.blocks, size).items():
                self._apart[engine] = tuple(count * size for count in ranks)
            for engine, count in self._known.at_least(found.blocks, size).items():
                self._unsure[engine] = count * size, size
        self._known_bytes = least
        if self.accuracy.is_trusted and not self.is_restless:
            return held
        self._below = {}
        return _NOTHING

    def below(self) -> Mapping[int, tuple[int, int]]:
        """As `Residency.below`."""
        return self._below

    def foretold(self, engine: int) -> int | None:
        """Tokens of the prompt that was last asked about that `engine` will have cached, whichever of its
        ranks it chooses; None: not known."""
        found = self._foretold.get(engine)
        return None if found is None else min(found[0], *self._apart.get(engine, (found[0],)))

    def unlearned_bytes(self, prompt: Prompt) -> int:
        """Bytes of the prompt last asked about that can be learned and were not yet; 0 of another."""
        if prompt is not self._asked or not prompt.chain or not self._bridges or prompt.is_raw:
            return 0
        return prompt.ends[-1] - self._known_bytes

    def sent(self, prompt: Prompt, engine: int) -> int:
        """The prompt that was last asked about goes to `engine`: bytes of it that were not learned yet.

        To be called once `held` was, with nothing in between; else it says 0.
        """
        unlearned = self.unlearned_bytes(prompt)
        if prompt is not self._asked or not prompt.chain or not self._bridges:
            return 0
        foretold = self._foretold.get(engine) or self._unsure.get(engine)
        if foretold is not None:
            pending = self._pending
            more = self._below_tokens.get(engine, (0, 0))
            pending[prompt.chain[-1], engine] = _Foretold(
                *foretold, engine in self._foretold, more, self._now.get(engine), self._apart.get(engine, ())
            )
            if len(pending) > _MOST_PENDING:
                pending.popitem(last=False)
        self._asked = None
        return unlearned

    def answered(
        self, prompt: Prompt, engine: int, prompt_tokens: int | None, cached_tokens: int | None
    ) -> None:
        """What the engine says of the prompt in its answer."""
        if not prompt.chain or not self._bridges:
            return
        foretold = self._pending.pop((prompt.chain[-1], engine), None)
        if foretold is None:
            self.unlearned += 1
        elif cached_tokens is not None:
            # What was loaded from below counts as cached with most engines, and may be too long gone.
            more, said = sum(foretold.below), foretold.nearest(cached_tokens)
            tokens = min(max(said, cached_tokens), said + more)
            if more:
                for tier, tokens_there in enumerate(foretold.below):
                    self.below_tokens[tier] += tokens_there
                self.below_found += tokens - said
            was_believed = engine not in self.trust.distrusted
            if foretold.now is not None and foretold.is_all:
                self.shares.told(engine, tokens, foretold.now, cached_tokens, foretold.size)
            if not foretold.is_all:
                self._known.judged(engine, tokens, cached_tokens, foretold.size)
            elif self.trust.told(engine, tokens, cached_tokens, foretold.size):
                surely = foretold.surely
                claimed = min(max(surely, cached_tokens), surely + more)
                self.accuracy.told(claimed, cached_tokens, foretold.size, tokens)
            elif was_believed:
                self.accuracy.forgive()  # what it said too much is its own fault
        if prompt_tokens is not None:
            for bridge in self._bridges.values():
                learned = bridge.tokens_of(prompt.chain)
                if learned is not None:
                    self.accuracy.measured(learned, prompt_tokens)

    def learn(
        self,
        chain: Sequence[int],
        ends: Sequence[int],
        tokens: int,
        blocks: Mapping[int, "array[int]"],
        front_bytes: int,
        message_ends: Sequence[tuple[int, int]] = (),
    ) -> None:
        """Take in a prompt: its text chain, how many tokens it has, and their block chain by block size."""
        for size, bridge in self._bridges.items():
            if size not in blocks:
                continue
            if not bridge.learn(chain, ends, tokens, blocks[size], front_bytes, message_ends):
                self._epochs_at = [*self._epochs_at[1 - _RESTLESS :], self._learned]

    def keep(self, engines: Collection[int]) -> None:
        """These are the engines now: another may have the number of one that left."""
        self.trust.keep(engines)
        self.shares.keep(engines)

    def renew(self, tail_tokens: int, are_loops_apart: bool = False) -> None:
        """The probe found another template than before: all is learned anew."""
        self._tail_tokens = tail_tokens
        self._are_loops_apart = are_loops_apart
        self.forget()

    def forget(self) -> None:
        """Learn anew, and judge nothing by what was foretold before."""
        self._asked, self._foretold, self._known_bytes = None, {}, 0
        self._below, self._below_tokens = {}, {}
        self._pending.clear()
        for bridge in self._bridges.values():
            bridge.tail_tokens = self._tail_tokens
            bridge.forget()


def _lasts(bridge: Bridge, prompt: Prompt, found: Found, count: int, lasting: Lasting) -> int:
    """Leading blocks that are there when what waits was computed, of which `count` are held now.

    Some of those will have gone, and some come: those of a beginning that what waits there has, too.
    """
    lasts = count
    if lasting.memory_bytes < found.text_bytes:
        stays = _leading(bridge, prompt, lasting.memory_bytes)
        # No more can go than what waits needs: that may itself find less than is thought, and its answers
        # come.
        tokens = 2 * lasting.waiting_bytes * found.tokens // max(1, found.text_bytes)
        lasts = min(count, max(stays, count - tokens // bridge.block_tokens - 1))
    if lasts >= len(found.blocks):
        return lasts
    coming = min(lasting.coming_bytes, lasting.memory_bytes, found.text_bytes)
    return max(lasts, min(_leading(bridge, prompt, coming), len(found.blocks)))


def _leading(bridge: Bridge, prompt: Prompt, text_bytes: int) -> int:
    """Blocks that so much of the prompt's beginning surely becomes."""
    links = bisect_right(prompt.ends, text_bytes)
    return bridge.promised(prompt.chain[links - 1]) if links else 0
