"""What is known of one arm in many windows?  Columns, so that thousands are reckoned with at once."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

FIELDS: Final = (
    "number", "begin_ns", "end_ns", "requests", "good", "judged", "missed", "answered", "input_tokens",
    "output_tokens", "no_input", "no_output",
)  # fmt: skip


class Slices:
    """One arm in windows, by time: a row for each of `FIELDS`, a column for each window.

    A window is that of `number`, from `begin_ns` to `end_ns` by the readings' clock.  `requests` are those
    sent in it; `good` were answered within the SLO, where there is none without a fault.  Of `judged` answers
    `missed` did not keep the SLO.  Tokens are those of `answered` ones, which are without a fault;
    `no_input` and `no_output` the number of these that do not say theirs.
    """

    __slots__ = ("table",)

    def __init__(self, table: Ints) -> None:
        self.table = table

    def __len__(self) -> int:
        return int(self.table.shape[1])

    def of(self, name: str) -> Ints:
        """One field of all windows."""
        found: Ints = self.table[FIELDS.index(name)]
        return found

    @property
    def seconds(self) -> Floats:
        """How long each lasted."""
        found: Floats = (self.of("end_ns") - self.of("begin_ns")) / 1e9
        return found

    def pick(self, columns: Ints) -> "Slices":
        """These of them."""
        return self if len(columns) == len(self) else Slices(self.table[:, columns])

    def at(self, numbers: Ints) -> "Slices":
        """Those of windows of these numbers, in order; zeros where there is none."""
        known = np.flatnonzero(np.isin(numbers, self.of("number"), assume_unique=True))
        table = np.zeros((len(FIELDS), len(numbers)), dtype=np.int64)
        table[:, known] = self.table[:, np.searchsorted(self.of("number"), numbers[known])]
        table[0] = numbers
        return Slices(table)

    def timed(self, window_ns: int) -> "Slices":
        """With the instants of their windows, where windows are of the clock, and as long."""
        table = self.table.copy()
        table[1], table[2] = table[0] * window_ns, (table[0] + 1) * window_ns
        return Slices(table)

    def joined(self, starts: Ints) -> "Slices":
        """Each of these and those after it, up to the next, as one: their numbers are the first's."""
        if len(starts) == len(self):
            return self
        table = np.add.reduceat(self.table, starts, axis=1)
        table[:2] = self.table[:2, starts]
        table[2] = self.table[2, np.append(starts[1:], len(self)) - 1]
        return Slices(table)


@dataclass(frozen=True, slots=True)
class Runs:
    """Slices that follow each other; each run without a pause begins at one of `starts`."""

    slices: Slices
    starts: Ints

    def spans(self) -> list[tuple[int, int]]:
        """The first slice, and the one after the last, of each run."""
        return list(pairwise([*self.starts.tolist(), len(self.slices)]))

    def and_those(self, others: Sequence["Runs"]) -> "Runs":
        """These and then others'."""
        every = [self, *others]
        before = np.cumsum([0, *(len(runs.slices) for runs in every[:-1])])
        starts = [runs.starts + offset for runs, offset in zip(every, before, strict=True)]
        return Runs(
            Slices(np.concatenate([runs.slices.table for runs in every], axis=1)),
            np.concatenate(starts).astype(np.int64),
        )

    def joined(self, count: int) -> "Runs":
        """With so many slices of a run joined to one, fewer at its end."""
        if count == 1 or not len(self.slices):
            return self
        lengths = [-(-(end - begin) // count) for begin, end in self.spans()]
        each = [np.arange(begin, end, count) for begin, end in self.spans()]
        return Runs(self.slices.joined(np.concatenate(each)), np.cumsum([0, *lengths[:-1]]))
