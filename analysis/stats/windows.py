"""Which pairs make one unit?  Windows of time, closed in turn, with the mean of each series in each.

A value may be infinite: a failure, of the candidate where it is positive (`analysis.stats.contrast`).
"""

from array import array
from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, inf, isfinite, isnan

import numpy as np
from numpy.typing import NDArray

from analysis.stats.contrast import PENALTY

FEWEST_PAIRS = 5  # a window with fewer is dropped, whatever they say


@dataclass(slots=True)
class _Open:
    pairs: int = 0
    values: dict[str, list[float]] = field(default_factory=dict)


class _Column:
    """One series in every closed window: sum, number and extremes of its values, failures on either side."""

    __slots__ = ("bottoms", "counts", "failed", "sums", "tops")

    def __init__(self, rows: int) -> None:
        self.sums = array("d", bytes(8 * rows))
        self.counts = array("q", bytes(8 * rows))
        self.tops = array("d", [-inf]) * rows
        self.bottoms = array("d", [inf]) * rows
        self.failed = (array("q", bytes(8 * rows)), array("q", bytes(8 * rows)))  # control, candidate

    def insert(self, row: int) -> None:
        self.sums.insert(row, 0.0)
        self.counts.insert(row, 0)
        self.tops.insert(row, -inf)
        self.bottoms.insert(row, inf)
        for side in self.failed:
            side.insert(row, 0)

    def add(self, row: int, values: list[float]) -> None:
        finite, top, bottom = values, max(values), min(values)
        if top == inf or bottom == -inf:
            finite = [value for value in values if isfinite(value)]
            self.failed[1][row] += sum(value == inf for value in values)
            self.failed[0][row] += sum(value == -inf for value in values)
            top, bottom = max(finite, default=-inf), min(finite, default=inf)
        self.sums[row] += fsum(finite)  # exact, so that the order of arrival leaves no trace
        self.counts[row] += len(values)
        self.tops[row] = max(self.tops[row], top)
        self.bottoms[row] = min(self.bottoms[row], bottom)

    def means(self) -> NDArray[np.float64]:
        """Of every window with a value; a failure counts as the worst rank among the window's answers."""
        worse = np.maximum(np.array(self.tops), PENALTY)
        better = np.minimum(np.array(self.bottoms), -PENALTY)
        ours, theirs = (np.array(side) for side in self.failed)
        total = np.array(self.sums) + (theirs * worse + ours * better)
        means: NDArray[np.float64] = total / np.maximum(np.array(self.counts), 1)
        return means


class Windows:
    """Windows of `window_ns`, keyed by `at_ns // window_ns`, so that the order of arrival does not matter.

    A window closes once a pair came that began `settle_ns` (at least a window) after its end: by then the
    pairs that began in it are answered. A pair that comes later still joins its closed window, never lost.
    """

    def __init__(self, window_ns: int, settle_ns: int) -> None:
        self.window_ns = window_ns
        self._settle_ns = max(settle_ns, window_ns)
        self._open: dict[int, _Open] = {}
        self._keys = array("q")
        self._pairs = array("q")
        self._columns: dict[str, _Column] = {}
        self._closed_before: int | None = None  # every window of a lower key is closed

    def add(self, at_ns: int, values: Mapping[str, float]) -> bool:
        """Counts a pair. True when it closed a window, so that there is something new to look at."""
        key = at_ns // self.window_ns
        if self._closed_before is not None and key < self._closed_before:
            self._add_late(key, values)
            return False
        window = self._open.setdefault(key, _Open())
        window.pairs += 1
        held = window.values
        for name, value in values.items():
            if (column := held.get(name)) is None:
                column = held[name] = []
            column.append(value)
        before = (at_ns - self._settle_ns) // self.window_ns
        if self._closed_before is not None and before <= self._closed_before:
            return False
        self._closed_before = before
        return self._close_before(before)

    def finish(self) -> bool:
        """Closes the windows that are open: what they are to hold has come.  Whether there were any."""
        ready = sorted(self._open)
        for key in ready:
            self._close(key, self._open.pop(key))
        if ready:
            self._closed_before = ready[-1] + 1
        return bool(ready)

    def add_many(
        self, at_ns: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]], closed: Callable[[], None]
    ) -> None:
        """`add` of many pairs in turn, NaN where a series has no value; calls `closed` where that is True."""
        keys, before = (at_ns // self.window_ns), (at_ns - self._settle_ns) // self.window_ns
        reached = np.maximum.accumulate(before)  # every window of a lower key is closed, after each pair
        first = reached[:1] - 1
        if self._closed_before is not None:
            reached = np.maximum(reached, self._closed_before)
            first = np.array([self._closed_before])
        held = np.concatenate((first, reached[:-1]))  # and before it
        late = keys < held
        self._add_open(keys, values, np.flatnonzero(~late))
        moves = reached > held
        for row in np.flatnonzero(late | moves).tolist():
            if late[row]:
                told = {name: float(column[row]) for name, column in values.items()}
                self._add_late(int(keys[row]), {name: v for name, v in told.items() if not isnan(v)})
            else:
                self._closed_before = int(reached[row])
                if self._close_before(self._closed_before):
                    closed()

    def _add_open(
        self, keys: NDArray[np.int64], values: Mapping[str, NDArray[np.float64]], rows: NDArray[np.intp]
    ) -> None:
        """Adds these rows, whose windows are open when their turn is, to what those windows hold."""
        order = rows[np.argsort(keys[rows], kind="stable")]
        found, begins, counts = np.unique(keys[order], return_index=True, return_counts=True)
        spans = list(zip(found.tolist(), begins.tolist(), (begins + counts).tolist(), strict=True))
        windows = [self._open.setdefault(key, _Open()) for key, _, _ in spans]
        for window, (_, begin, end) in zip(windows, spans, strict=True):
            window.pairs += end - begin
        for name, column in values.items():
            ordered = column[order]
            known = ~np.isnan(ordered)
            ends = np.concatenate(([0], np.cumsum(known)))  # how many values come before each row
            kept = ordered[known].tolist()
            for window, (_, begin, end) in zip(windows, spans, strict=True):
                if part := kept[ends[begin] : ends[end]]:
                    window.values.setdefault(name, []).extend(part)

    def _close_before(self, before: int) -> bool:
        """Closes every window of a lower key; whether there was one."""
        ready = sorted(key for key in self._open if key < before)
        for key in ready:
            self._close(key, self._open.pop(key))
        return bool(ready)

    def _close(self, key: int, window: _Open) -> None:
        self._append_row(len(self._keys), key)
        self._pairs[-1] = window.pairs
        for name, values in window.values.items():
            self._column(name).add(-1, values)

    def _add_late(self, key: int, values: Mapping[str, float]) -> None:
        row = bisect_left(self._keys, key)
        if row == len(self._keys) or self._keys[row] != key:
            self._append_row(row, key)
        self._pairs[row] += 1
        for name, value in values.items():
            self._column(name).add(row, [value])

    def _append_row(self, row: int, key: int) -> None:
        self._keys.insert(row, key)
        self._pairs.insert(row, 0)
        for column in self._columns.values():
            column.insert(row)

    def _column(self, name: str) -> _Column:
        column = self._columns.get(name)
        if column is None:
            column = self._columns[name] = _Column(len(self._keys))
        return column

    @property
    def closed(self) -> int:
        """How many windows are closed, with enough pairs or without."""
        return len(self._keys)

    @property
    def units(self) -> int:
        """How many closed windows have enough pairs."""
        return int(np.count_nonzero(np.array(self._pairs) >= FEWEST_PAIRS))

    def means(self, name: str) -> NDArray[np.float64]:
        """The mean of a series in every closed window that has enough pairs and a value of it, by time."""
        return self._select(name)[1]

    def table(self, names: Sequence[str]) -> NDArray[np.float64]:
        """The means of several series, a column each, in every closed window that has enough pairs, by time.

        NaN where a series has no value in a window.
        """
        kept = np.array(self._pairs) >= FEWEST_PAIRS
        columns = [np.full(int(kept.sum()), np.nan) for _ in names]
        for column, name in zip(columns, names, strict=True):
            if (known := self._columns.get(name)) is not None:
                column[:] = np.where(np.array(known.counts)[kept] > 0, known.means()[kept], np.nan)
        return np.column_stack(columns) if columns else np.empty((int(kept.sum()), 0))

    def numbers(self) -> list[int]:
        """The numbers of the closed windows that have enough pairs, by time: of the rows of `table`."""
        kept = np.array(self._pairs) >= FEWEST_PAIRS
        found: list[int] = np.array(self._keys)[kept].tolist()
        return found

    def course(self, name: str, last: int) -> list[tuple[int, float]]:
        """(end of window in ns, mean) of the last few of them."""
        keys, means = self._select(name)
        ends = (keys[-last:] + 1) * self.window_ns
        return list(zip(ends.tolist(), means[-last:].tolist(), strict=True))

    def pairs_per_unit(self, name: str) -> float:
        """How many values of a series a window holds, on average; 0 without any."""
        column = self._columns.get(name)
        if column is None:
            return 0.0
        counts = np.array(column.counts)
        kept = (np.array(self._pairs) >= FEWEST_PAIRS) & (counts > 0)
        return float(counts[kept].mean()) if kept.any() else 0.0

    def _select(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        column = self._columns.get(name)
        if column is None:
            return np.empty(0, dtype=np.int64), np.empty(0)
        counts = np.array(column.counts)
        kept = (np.array(self._pairs) >= FEWEST_PAIRS) & (counts > 0)
        return np.array(self._keys)[kept], column.means()[kept]
