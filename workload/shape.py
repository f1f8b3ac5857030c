"""What do conversations share, and how do they go on?  Their common beginnings, and what later turns add."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from workload.talks import Talk

FEW = 5  # what fewer conversations share is their own


@dataclass(frozen=True, slots=True)
class Fronts:
    """The beginnings that `FEW` conversations or more share, by their blocks, and how many have just them.

    Of each first prompt it is the longest that so many share.  `blocks` is how long each conversation's is.
    """

    named: Counter[tuple[int, ...]]
    blocks: list[int]


@dataclass(frozen=True, slots=True)
class Later:
    """Turns that continue another: what each adds to the prompt and answer before, in tokens, where it does
    go on from them; how long its user thought, in seconds; and how many of `turns` do go on."""

    added: list[float]
    think_s: list[float]
    turns: int
    on: int

    @property
    def kept(self) -> float:
        """The share that goes on from what was said."""
        return self.on / self.turns if self.turns else 1.0


def fronts_of(found: Sequence[Talk], block_tokens: int) -> Fronts:
    """What these conversations' first prompts share."""
    counted: Counter[int] = Counter()
    for talk in found:
        counted.update(set(talk.rows[0].hash_ids))
    lengths: list[int] = []
    named: Counter[tuple[int, ...]] = Counter()
    for talk in found:
        first = talk.rows[0]
        whole = first.hash_ids[: max(0, first.input_length - 1) // block_tokens]
        blocks = 0
        while blocks < len(whole) and counted[whole[blocks]] >= FEW:
            blocks += 1
        lengths.append(blocks)
        named[tuple(whole[:blocks])] += 1
    return Fronts(named, lengths)


def later_of(found: Sequence[Talk], block_tokens: int) -> Later:
    """How these conversations go on."""
    added: list[float] = []
    thinks: list[float] = []
    on = later = 0
    for talk in found:
        by_id = {row.id: row for row in talk.rows}
        for row in talk.rows:
            before = by_id.get(row.parent) if row.parent is not None else None
            if before is None:
                continue
            later += 1
            whole = before.input_length // block_tokens
            goes_on = (
                row.hash_ids[:whole] == before.hash_ids[:whole] and row.input_length > before.input_length
            )
            on += goes_on
            if goes_on:
                added.append(max(1.0, row.input_length - before.input_length - before.output_length))
            if before.e2e_ms is not None:
                thinks.append(max(0.0, (row.timestamp - before.timestamp - before.e2e_ms) / 1e3))
            else:
                thinks.append(max(0.0, (row.timestamp - before.timestamp) / 1e3))
    return Later(added, thinks, later, on)
