"""What did each arm answer, slice of time by slice?  Requests, tokens, and how many kept the SLO."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from analysis.arm_figures import has_slo, meets_slo
from analysis.measure import AnswerMeasure, PairRecord
from analysis.spec import ExperimentSpec
from analysis.stats.contrast import NOT_A_FAULT

# Windows without one request are time in which the arm was idle, and paid for, but not so many of them: then
# the experiment was paused.
_LONGEST_IDLE_NS = 30_000_000_000


@dataclass(slots=True)
class Slice:
    """One arm in one window: from `begin_ns` to `end_ns` by the readings' clock.

    `requests` are those sent in it; `good` were answered within the SLO, where there is none without a fault.
    Of `judged` answers `missed` did not keep the SLO.  Tokens are those of answers without a fault,
    `no_input` and `no_output` the number of these that do not say theirs.
    """

    number: int
    begin_ns: int = 0
    end_ns: int = 0
    requests: int = 0
    good: int = 0
    judged: int = 0
    missed: int = 0
    answered: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    no_input: int = 0
    no_output: int = 0

    @property
    def seconds(self) -> float:
        return (self.end_ns - self.begin_ns) / 1e9


class Tally:
    """Takes the pairs that a trial judges (`Trial(watch=...)`), in any order."""

    def __init__(self, spec: ExperimentSpec) -> None:
        self._spec = spec
        self._has_slo = has_slo(spec)
        self._slices: dict[str, dict[int, Slice]] = {name: {} for name in ("control", *spec.candidates)}
        self.sources: dict[str, Counter[str]] = {name: Counter() for name in self._slices}

    def add(self, record: PairRecord, window: int) -> None:
        """Counts one pair; `window` is the number of its window."""
        for answer in record.answers:
            slices = self._slices.get(answer.arm)
            if slices is None or answer.twin or answer.fault == NOT_A_FAULT:
                continue
            one = slices.get(window)
            if one is None:
                one = slices[window] = Slice(window, answer.sent_ns, answer.end_ns)
            one.begin_ns = min(one.begin_ns, answer.sent_ns)
            one.end_ns = max(one.end_ns, answer.end_ns)
            self._count(one, answer)

    def _count(self, one: Slice, answer: AnswerMeasure) -> None:
        one.requests += 1
        if answer.streamed or answer.fault is not None:
            is_met = meets_slo(self._spec, answer)
            one.judged += self._has_slo
            one.missed += self._has_slo and not is_met
            one.good += is_met
        else:
            one.good += 1  # an answer in one piece has no first token to judge
        if answer.fault is not None:
            return
        one.answered += 1
        one.input_tokens += answer.prompt_tokens or 0
        one.output_tokens += answer.completion_tokens or 0
        one.no_input += answer.prompt_tokens is None
        one.no_output += answer.completion_tokens is None
        self.sources[answer.arm][answer.token_source or "none"] += 1

    def by_window(self, arm: str) -> dict[int, Slice]:
        """An arm's slices by the numbers of their windows; their instants are those of its answers."""
        return self._slices[arm]

    def runs(self, arm: str, window_ns: int | None) -> list[list[Slice]]:
        """Slices that follow each other without a pause.

        `window_ns`: windows are of the clock, and as long; the first and the last of a run, which it fills in
        part only, are left out, idle ones filled in.  None: arms take turns, and each of its slots is a run.
        """
        known = [self._slices[arm][number] for number in sorted(self._slices[arm])]
        if window_ns is None:
            return [[one] for one in known if one.end_ns > one.begin_ns]
        runs: list[list[Slice]] = []
        for one in known:
            idle = one.number - runs[-1][-1].number - 1 if runs else 0
            if not runs or idle * window_ns > _LONGEST_IDLE_NS:
                runs.append([])
            else:
                runs[-1].extend(Slice(one.number - n) for n in range(idle, 0, -1))
            runs[-1].append(one)
        return [list(_timed(run[1:-1], window_ns)) for run in runs if len(run) > 2]


def _timed(run: Sequence[Slice], window_ns: int) -> Iterator[Slice]:
    for one in run:
        yield replace(one, begin_ns=one.number * window_ns, end_ns=(one.number + 1) * window_ns)
