"""The map from text chains to block chains: what real prompts' token ids teach, and what a prompt then has.

Learned from whole prompts only, never from the engine's output: of a reply re-tokenised in the next turn's
prompt often not one id is the same. What is said of a link is the number of leading blocks that every prompt
with this beginning surely has:

- the end of a learned prompt: its full blocks, less `tail_tokens`, by which a chat template ends a prompt and
  the next turn may go on differently. The same prompt once more has all blocks but that of its last token,
  which an engine always computes anew;
- a link at which two learned prompts part: what their block chains share, the least over such pairs. Only
  prompts that part at this very link count: others also share what comes after it;
- the end of a message, where it can be told (`routing.bridge.anchors`): the full blocks up to there;
- any other link: interpolated by bytes between the nearest known counts, less `DROPPED_TOKENS` that a
  cut within a message may change, less one block.

A prompt that has fewer of the blocks than a link of its own promised lowers that link. One whose first blocks
are others than promised says that the template writes something else now (a date, say): all is forgotten, and
a new epoch begins.
"""

from array import array
from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from routing.bridge.nodes import UNKNOWN, Nodes
from routing.bridge.paths import Path

DROPPED_TOKENS: Final = 4
MARGIN_BLOCKS: Final = 1
DOUBT: Final = 0.4
"""Of the tokens up to the nearest known count, so many may be too many: one part of a prompt may be as much
denser than another."""
EARLY_TOKENS: Final = 64
"""A prompt that differs as early as this differs by what the template writes before all text: Llama 3's date
is about its twentieth token."""
DEFAULT_LINKS: Final = 1 << 17
"""With 256 tokens a link, 33 M tokens: more than most fleets cache. 37 MB when full, at blocks of 16."""


class Found(Struct, frozen=True, gc=False):
    """What is known of a prompt: `blocks` it surely begins with, of `text_bytes` of its text.

    `tokens` is how many the learned text has, exactly or by estimate.
    """

    blocks: "array[int]"
    text_bytes: int
    tokens: int


class Bridge:
    """One model's map. `tail_tokens` is what the probe found (`routing.bridge.probe`)."""

    def __init__(self, block_tokens: int, tail_tokens: int = 0, most_links: int = DEFAULT_LINKS) -> None:
        if block_tokens < 1:
            raise ValueError(f"a block has at least one token, not {block_tokens}")
        self.block_tokens = block_tokens
        self.tail_tokens = tail_tokens
        self.epoch = 0
        self.learned = 0
        self.lowered = 0
        self._nodes = Nodes(most_links)

    def __len__(self) -> int:
        return len(self._nodes)

    def forget(self) -> None:
        """Begin a new epoch, if there is anything to forget."""
        if len(self._nodes):
            self._nodes.clear()
            self.epoch += 1

    def known_bytes(self, chain: Sequence[int], ends: Sequence[int]) -> int:
        """How much of a prompt's beginning has been learned."""
        known = self._nodes.known(chain)
        return ends[known - 1] if known else 0

    def tokens_of(self, chain: Sequence[int]) -> int | None:
        """How many tokens a prompt has that was learned; None of any other."""
        if not chain or self._nodes.known(chain) < len(chain):
            return None
        table = self._nodes.young
        slot = table.find(chain[-1])
        return table.tokens[slot] if table.exact[slot] else None

    def find(self, chain: Sequence[int], ends: Sequence[int]) -> Found | None:
        """What a prompt surely begins with; None when nothing of it was learned."""
        known = self._nodes.known(chain)
        if not known:
            return None
        table = self._nodes.young
        slot = table.find(chain[known - 1])
        tokens, parted = table.tokens[slot], table.parted[slot]
        if table.exact[slot]:
            if known == len(chain):
                count = (tokens - 1) // self.block_tokens
            else:
                count = min(max(0, tokens - self.tail_tokens) // self.block_tokens, parted)
        else:
            count = table.held[slot] if parted == UNKNOWN else parted
        return Found(table.path(slot).leading(count), ends[known - 1], tokens)

    def promised(self, link: int) -> int:
        """Leading blocks that a prompt which goes on from a link that `find` has passed surely has."""
        slot = self._nodes.young.find(link)
        return self._promised(slot) if slot >= 0 else 0

    def learn(
        self,
        chain: Sequence[int],
        ends: Sequence[int],
        tokens: int,
        blocks: "array[int]",
        front_bytes: int = 0,
        message_ends: Sequence[tuple[int, int]] = (),
    ) -> bool:
        """Take in a real prompt: its text chain, how many `tokens` it has, their block chain.

        `front_bytes` of its text are tools and documents, which stand first in the text chain, while a
        template may write the system message before them: nothing is promised of their links alone.
        `message_ends` are (bytes, tokens) of messages before the last, rising.
        False when it began a new epoch, in which it is the first that is known.
        """
        if not chain or tokens < 1:
            return True
        self._nodes.room()
        known = self._nodes.known(chain)
        path, is_same_epoch = Path(None, 0, blocks), True
        if known and self._is_rewritten(chain, bisect_right(ends, front_bytes), known, blocks):
            self.forget()
            known, is_same_epoch = 0, False
        table = self._nodes.young
        if known:
            slot = table.find(chain[known - 1])
            there = table.path(slot)
            path = there.grown(blocks, there.shared(blocks))
        anchor = self._check(chain, ends, known, blocks)
        told = {end: count for end, count in message_ends if count <= tokens}
        self._add(chain, ends, known, tokens, path, anchor, front_bytes, told)
        self.learned += 1
        return is_same_epoch

    def _is_rewritten(self, chain: Sequence[int], front: int, known: int, blocks: "array[int]") -> bool:
        """Whether it begins otherwise than was promised, by a whole prompt or surely enough by a part.

        The first `front` links are tools: what was promised of them only holds until it is seen otherwise.
        """
        table = self._nodes.young
        early = max(1, EARLY_TOKENS // self.block_tokens)
        for at in range(front, known):
            slot = table.find(chain[at])
            promised = self._promised(slot)
            promised = min(promised, early) if table.exact[slot] else min(promised - MARGIN_BLOCKS, 1)
            if promised > 0 and table.path(slot).shared(blocks[:promised]) < promised:
                return True
        return False

    def _promised(self, slot: int) -> int:
        """Leading blocks that a prompt going on from here is said to have."""
        table = self._nodes.young
        parted = table.parted[slot]
        if table.exact[slot]:
            return min(max(0, table.tokens[slot] - self.tail_tokens) // self.block_tokens, parted)
        return table.held[slot] if parted == UNKNOWN else parted

    def _check(
        self, chain: Sequence[int], ends: Sequence[int], known: int, blocks: "array[int]"
    ) -> tuple[int, int, int]:
        """Hold what is known against the new prompt; its last exact (bytes, tokens, promised blocks)."""
        table, anchor = self._nodes.young, (0, 0, 0)
        last: tuple[Path, int] | None = None
        for at in range(known):
            slot = table.find(chain[at])
            path = table.path(slot)
            if last is None or last[0] is not path:
                last = path, path.shared(blocks)
            shared, promised = last[1], self._promised(slot)
            if at == len(chain) - 1:
                break  # it ends here: written anew
            if shared < promised:
                table.parted[slot] = shared
                self.lowered += 1
            elif at == known - 1 and not table.exact[slot]:
                table.parted[slot] = min(table.parted[slot], shared)
            if table.exact[slot]:
                anchor = ends[at], max(0, table.tokens[slot] - self.tail_tokens), self._promised(slot)
        return anchor

    def _add(
        self,
        chain: Sequence[int],
        ends: Sequence[int],
        known: int,
        tokens: int,
        path: Path,
        anchor: tuple[int, int, int],
        front_bytes: int,
        told: dict[int, int],
    ) -> None:
        table, width = self._nodes.young, self.block_tokens
        number = table.keep(path)
        low_bytes, low_tokens, sure = anchor
        highs = [(end, count) for end, count in told.items() if end > low_bytes]
        highs.append((ends[-1], tokens))
        high = 0
        for at in range(known, len(chain) - 1):
            end = ends[at]
            while highs[high][0] < end:
                low_bytes, low_tokens = highs[high]
                high += 1
            high_bytes, high_tokens = highs[high]
            if high_bytes == end:
                there = high_tokens
                held = there // width
            else:
                step = max(0, high_tokens - low_tokens) / max(1, high_bytes - low_bytes)
                there = low_tokens + int((end - low_bytes) * step)
                # How far off it may be: texts differ in how many bytes a token has, most at the middle.
                doubt = int(min(end - low_bytes, high_bytes - end) * step * DOUBT)
                held = max(0, there - doubt - DROPPED_TOKENS) // width - MARGIN_BLOCKS
            held = 0 if end <= front_bytes else max(sure, held, 0)
            table.put(chain[at], number, min(held, len(path)), UNKNOWN, there, 0)
        parted, last = UNKNOWN, table.find(chain[-1])
        if last >= 0 and table.exact[last] and table.tokens[last] == tokens:
            parted = table.parted[last]  # once more: what parted from it counts on
        table.put(chain[-1], number, 0, parted, tokens, 1)
