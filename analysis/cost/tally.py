"""What did each arm answer, slice of time by slice?  Requests, tokens, and how many kept the SLO."""

from collections import Counter

import numpy as np

from analysis.arm_figures import has_slo, in_slo
from analysis.columns import Columns, Side
from analysis.cost.slices import FIELDS, Ints, Runs, Slices
from analysis.spec import ExperimentSpec

# Windows without one request are time in which the arm was idle, and paid for, but not so many of them: then
# the experiment was paused.
_LONGEST_IDLE_NS = 30_000_000_000
_BEGIN, _END = FIELDS.index("begin_ns"), FIELDS.index("end_ns")


class _Table:
    """The windows of one arm, in the order in which they came; it grows."""

    def __init__(self) -> None:
        self._rows: dict[int, int] = {}
        self._table: Ints = np.zeros((len(FIELDS), 64), dtype=np.int64)

    def add(self, counted: Slices) -> None:
        """Adds to the windows of these numbers what was counted of each."""
        numbers = counted.of("number").tolist()
        fresh = [number for number in numbers if number not in self._rows]
        while len(self._rows) + len(fresh) > self._table.shape[1]:
            self._table = np.concatenate([self._table, np.zeros_like(self._table)], axis=1)
        for number in fresh:
            row = self._rows[number] = len(self._rows)
            self._table[[_BEGIN, _END], row] = np.iinfo(np.int64).max, np.iinfo(np.int64).min
        rows = [self._rows[number] for number in numbers]
        kept = self._table[:, rows]
        more = kept + counted.table
        more[0] = numbers
        more[_BEGIN] = np.minimum(kept[_BEGIN], counted.of("begin_ns"))
        more[_END] = np.maximum(kept[_END], counted.of("end_ns"))
        self._table[:, rows] = more

    def by_time(self) -> Slices:
        table = self._table[:, : len(self._rows)]
        return Slices(table[:, np.argsort(table[0], kind="stable")])


class Tally:
    """Takes the pairs that are judged, in any order."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._has_slo = has_slo(spec)
        self._tables = {name: _Table() for name in ("control", *spec.candidates)}
        self.sources: dict[str, Counter[str]] = {name: Counter() for name in self._tables}

    def add(self, columns: Columns, windows: Ints) -> None:
        """Counts pairs; `windows` are the numbers of their windows."""
        for arm, table in self._tables.items():
            side = columns.side(arm)
            rows = np.flatnonzero(side.present & ~side.cancelled)
            if len(rows):
                table.add(self._counted(side, rows, windows))
                self.sources[arm].update(side.sources)

    def _counted(self, side: Side, rows: Ints, windows: Ints) -> Slices:
        numbers, at = np.unique(windows[rows], return_inverse=True)

        def count(values: np.ndarray) -> Ints:
            return np.bincount(at, values[rows], len(numbers)).astype(np.int64)

        # An answer in one piece has no first token to judge.
        asked, met = side.streamed | side.failed, in_slo(self._spec, side)
        inputs, outputs = side.number("prompt_tokens"), side.number("completion_tokens")
        begins, ends = np.full(len(numbers), np.iinfo(np.int64).max), np.full(len(numbers), 0)
        np.minimum.at(begins, at, side.sent_ns[rows])
        np.maximum.at(ends, at, side.end_ns[rows])
        told = {
            "number": numbers,
            "begin_ns": begins,
            "end_ns": ends,
            "requests": count(side.present),
            "good": count(met | ~asked),
            "judged": count(asked & self._has_slo),
            "missed": count(asked & ~met & self._has_slo),
            "answered": count(side.ok),
            "input_tokens": count(np.where(side.ok, np.nan_to_num(inputs), 0.0)),
            "output_tokens": count(np.where(side.ok, np.nan_to_num(outputs), 0.0)),
            "no_input": count(side.ok & np.isnan(inputs)),
            "no_output": count(side.ok & np.isnan(outputs)),
        }
        return Slices(np.stack([told[name] for name in FIELDS]))

    def has(self, arm: str) -> bool:
        """Whether it is an arm of the experiment."""
        return arm in self._tables

    def of(self, arm: str) -> Slices:
        """An arm's slices; their instants are those of its answers."""
        return self._tables[arm].by_time()

    def runs(self, arm: str, window_ns: int | None) -> Runs:
        """Slices that follow each other without a pause.

        `window_ns`: windows are of the clock, and as long; the first and the last of a run, which it fills in
        part only, are left out, idle ones filled in.  None: arms take turns, and each of its slots is a run.
        """
        known = self.of(arm)
        if window_ns is None:
            slots = known.pick(np.flatnonzero(known.of("end_ns") > known.of("begin_ns")))
            return Runs(slots, np.arange(len(slots)))
        every = known.of("number")
        is_break = (np.diff(every) - 1) * window_ns > _LONGEST_IDLE_NS
        firsts, lasts = np.append(True, is_break)[: len(known)], np.append(is_break, True)[: len(known)]
        ends = zip(every[firsts].tolist(), every[lasts].tolist(), strict=True)
        inner = [(first + 1, last) for first, last in ends if last - first > 1]
        lengths = np.array([last - first for first, last in inner], dtype=np.int64)
        numbers = [np.arange(first, last) for first, last in inner]
        within = np.concatenate([np.empty(0, dtype=np.int64), *numbers])
        return Runs(known.at(within).timed(window_ns), np.cumsum(lengths) - lengths)
