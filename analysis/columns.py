"""What do many pairs say, value by value?  Columns, so that counting a pair costs next to nothing.

Of each arm every column has a row for every pair; where the arm has no answer, or the answer no such value,
there is nothing: NaN, None or False.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from math import log
from operator import attrgetter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from analysis.measure import LATENCIES, AnswerMeasure, Latency, PairRecord
from analysis.stats.contrast import NOT_A_FAULT

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]

_NUMBERS: Final = (
    *(f"{latency}_ms" for latency in LATENCIES),
    "streamed",
    "order",
    "prompt_tokens",
    "completion_tokens",
    "cached_tokens",
    "arrival_tokens",
)
_numbers = attrgetter(*_NUMBERS)
_instants = attrgetter("sent_ns", "end_ns")


class _Answers:
    """What is taken from the answers of one arm, before it becomes columns: values only, no objects."""

    __slots__ = ("faults", "instants", "more_reasons", "numbers", "reasons", "rows", "sources")

    def __init__(self) -> None:
        self.rows: list[int] = []
        self.numbers: list[float | None] = []  # so many of each answer, one after the other
        self.instants: list[int] = []
        self.faults: dict[int, str] = {}
        self.reasons: list[str | None] = []
        self.sources: list[str | None] = []
        self.more_reasons: dict[int, tuple[str | None, ...]] = {}

    def add(self, row: int, answer: AnswerMeasure) -> None:
        self.rows.append(row)
        self.numbers.extend(_numbers(answer))
        self.instants.extend(_instants(answer))
        self.reasons.append(answer.finish_reason)
        self.sources.append(answer.token_source)
        if answer.fault is not None:
            self.faults[row] = answer.fault
        if answer.more_reasons:
            self.more_reasons[row] = answer.more_reasons


class Side:
    """The answers of one arm to so many pairs.

    `present`: the arm has one; `failed`: it failed; `cancelled`: the shadow itself ended it; `ok`: it is
    there and did not fail.  `faults`: of those that failed.  `more_reasons`: the finish reasons of the
    choices after the first, by the number of their pair.
    """

    def __init__(self, taken: _Answers, pairs: int) -> None:
        self._taken = taken
        rows = np.array(taken.rows, dtype=np.intp)
        self.faults = list(taken.faults.values())
        self.more_reasons = taken.more_reasons
        self.present, self.failed, self.cancelled = np.zeros((3, pairs), dtype=bool)
        self.present[rows] = True
        for row, fault in taken.faults.items():
            self.failed[row] = True
            self.cancelled[row] = fault == NOT_A_FAULT
        self.ok = self.present & ~self.failed
        numbers = np.full((len(_NUMBERS), pairs), np.nan)
        numbers[:, rows] = np.array(taken.numbers, dtype=np.float64).reshape(-1, len(_NUMBERS)).T
        instants = np.zeros((2, pairs), dtype=np.int64)
        instants[:, rows] = np.array(taken.instants, dtype=np.int64).reshape(-1, 2).T
        self._numbers = dict(zip(_NUMBERS, numbers, strict=True))
        self.sent_ns, self.end_ns = instants
        self._logs: dict[Latency, Floats] = {}
        self._counted_by: np.ndarray | None = None

    def number(self, name: str) -> Floats:
        """One of the numbers of an answer, by its name; NaN where there is none."""
        return self._numbers[name]

    def latency_ms(self, latency: Latency) -> Floats:
        """One of the latencies, by its name."""
        return self._numbers[f"{latency}_ms"]

    def missed(self, latency: Latency) -> Bools:
        """Where an answer failed, or is of reasoning alone and never came to what is `visible`."""
        if latency != "visible":
            return self.failed
        hidden = self.ok & ~np.isnan(self.latency_ms("ttft")) & np.isnan(self.latency_ms("visible"))
        found: Bools = self.failed | hidden
        return found

    def log_latency(self, latency: Latency) -> Floats:
        """Its logarithm; NaN where it is not positive, too."""
        if (found := self._logs.get(latency)) is None:
            found = self._logs[latency] = logs(self.latency_ms(latency))
        return found

    @property
    def streamed(self) -> Bools:
        """Whether the answer came in pieces."""
        found: Bools = self._numbers["streamed"] == 1.0
        return found

    @property
    def reasons(self) -> dict[int, str | None]:
        """Why each answer, or its first choice, ended, by the number of its pair."""
        return dict(zip(self._taken.rows, self._taken.reasons, strict=True))

    def counted(self, source: str) -> Bools:
        """Whose token counts are from this source."""
        if self._counted_by is None:
            self._counted_by = np.full(len(self.present), None, dtype=object)
            self._counted_by[self._taken.rows] = self._taken.sources
        found: Bools = self._counted_by == source
        return found

    @property
    def sources(self) -> Counter[str]:
        """Where the token counts of answers that did not fail are from, and of how many; "none": nowhere."""
        if not self._taken.faults:
            return Counter(source or "none" for source in self._taken.sources)
        both = zip(self._taken.rows, self._taken.sources, strict=True)
        return Counter(source or "none" for row, source in both if row not in self._taken.faults)


class Gathering:
    """Takes pairs one by one, until they are counted together."""

    def __init__(self) -> None:
        self.at_ns: list[int] = []
        self.blocks: list[int | None] = []
        self.production_sent_ns: list[int | None] = []
        self.shifts: dict[int, dict[str, int]] = {}
        self.answers: dict[tuple[str, int], _Answers] = {}
        self.production = _Answers()
        # By arm; by the names of the scores that a pair has: its number, and as many values.
        self.scores: dict[str, dict[tuple[str, ...], tuple[list[int], list[float]]]] = {}
        self.compared: dict[str, dict[int, float]] = {}

    def __len__(self) -> int:
        return len(self.at_ns)

    def add(self, record: PairRecord) -> None:
        """Takes one pair.  Of two answers of the same arm and twin the first counts."""
        row = len(self.at_ns)
        self.at_ns.append(record.at_ns)
        self.blocks.append(record.block)
        self.production_sent_ns.append(record.production_sent_ns)
        if record.shifts:
            self.shifts[row] = record.shifts
        for answer in record.answers:
            key = answer.arm, answer.twin
            if (known := self.answers.get(key)) is None:
                known = self.answers[key] = _Answers()
            if not known.rows or known.rows[-1] != row:
                known.add(row, answer)
        if record.production is not None:
            self.production.add(row, record.production)
        for arm, scores in record.outputs.items():
            by_names = self.scores.setdefault(arm, {})
            names = tuple(scores)
            if (group := by_names.get(names)) is None:
                group = by_names[names] = ([], [])
            group[0].append(row)
            group[1].extend(scores.values())
        for arm, tokens in record.compared_tokens.items():
            self.compared.setdefault(arm, {})[row] = tokens


class Columns:
    """So many pairs in the order in which they came, at least one."""

    def __init__(self, taken: Gathering) -> None:
        pairs = len(taken)
        self.at_ns = np.array(taken.at_ns, dtype=np.int64)
        self.in_turn = np.array([block is not None for block in taken.blocks])
        self.blocks = np.array([block or 0 for block in taken.blocks], dtype=np.int64)
        self.production_sent_ns = np.array([at or 0 for at in taken.production_sent_ns], dtype=np.int64)
        self.knows_production = np.array([at is not None for at in taken.production_sent_ns])
        self.sides: Mapping[tuple[str, int], Side] = {k: Side(v, pairs) for k, v in taken.answers.items()}
        self.production = Side(taken.production, pairs)
        self._none = Side(_Answers(), pairs)
        self._taken = taken
        self._outputs: dict[str, Mapping[str, Floats]] = {}

    @classmethod
    def of(cls, records: Iterable[PairRecord]) -> "Columns":
        """Of these pairs."""
        taken = Gathering()
        for record in records:
            taken.add(record)
        return cls(taken)

    def __len__(self) -> int:
        return len(self.at_ns)

    def side(self, arm: str, twin: int = 0) -> Side:
        """The answers of one arm, none of them where it has none."""
        return self.sides.get((arm, twin), self._none)

    def shifts_ns(self, arm: str) -> Ints:
        """By how much an arm's slot was later than the control's."""
        found = np.zeros(len(self), dtype=np.int64)
        for row, shifts in self._taken.shifts.items():
            found[row] = shifts.get(arm, 0)
        return found

    def scored(self, arm: str) -> Bools:
        """Which pairs compare an arm's answer with the control's."""
        found = np.zeros(len(self), dtype=bool)
        for rows, _ in self._taken.scores.get(arm, {}).values():
            found[rows] = True
        return found

    def output(self, arm: str, metric: str) -> Floats:
        """One score of one arm; NaN where a pair has no such score."""
        found = self.outputs(arm).get(metric)
        return np.full(len(self), np.nan) if found is None else found

    def outputs(self, arm: str) -> Mapping[str, Floats]:
        """The scores of one arm, by metric; NaN where a pair has no such score."""
        if (columns := self._outputs.get(arm)) is None:
            columns = {}
            for names, (rows, values) in self._taken.scores.get(arm, {}).items():
                table = np.array(values, dtype=np.float64).reshape(len(rows), len(names))
                for name, column in zip(names, table.T, strict=True):
                    columns.setdefault(name, np.full(len(self), np.nan))[rows] = column
            self._outputs[arm] = columns
        return columns

    def compared_tokens(self, arm: str) -> Floats:
        """How many tokens of a choice could have been the first to differ from the control's."""
        found = np.full(len(self), np.nan)
        known = self._taken.compared.get(arm, {})
        found[list(known)] = list(known.values())
        return found


def logs(values: Floats) -> Floats:
    """Natural logarithms, NaN where there is none.

    Python's own, one by one: numpy's may differ in the last bit with where in memory a value lies, and the
    same pairs must give the same verdict however they were taken together.
    """
    found = np.full(len(values), np.nan)
    positive = values > 0.0
    found[positive] = np.fromiter(map(log, values[positive].tolist()), np.float64)
    return found


def added(total: float, values: Floats) -> float:
    """`total` and each of the values after it, one by one: the same however they were taken together."""
    return float(np.cumsum(np.concatenate(((total,), values)))[-1])
