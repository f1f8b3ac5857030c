"""What do the records of an experiment say?  `Trial` takes records and gives the ranking."""

from collections.abc import Callable, Mapping
from math import exp
from typing import Any, Literal

import numpy as np

from analysis import checks
from analysis.arm_figures import ArmFigures
from analysis.bursts import Bursts
from analysis.calibration import Calibrating, Calibration
from analysis.checks import Check, Fairness, Lag
from analysis.columns import Columns, Gathering
from analysis.cost.prices import Prices
from analysis.counts import Counts
from analysis.diffs.figures import DiffFigures
from analysis.hardware import Hardware
from analysis.horizons import Horizons
from analysis.instruments import Clock, Harness, gpu_clocks, missing
from analysis.labels import Labels
from analysis.loads import Loads
from analysis.measure import LATENCIES, PairRecord
from analysis.naive import Naive
from analysis.outputs import floor_shown, outputs_shown
from analysis.phases import Between, Phases
from analysis.quality import Quality
from analysis.race import Left, Race
from analysis.rates import Rates
from analysis.resources import Resources
from analysis.series import series
from analysis.several import beaten, discoveries
from analysis.similarity import Similarity
from analysis.spec import ExperimentSpec
from analysis.standing import candidate_order, flags, main_verdict, summary, verdict_shown
from analysis.stats.windows import Windows
from analysis.verdict import log_margin
from analysis.why.engines import read_engine

Phase = Literal["calibration", "live"] | Between

_POINTS = 240  # of each series shown
_TOGETHER = 2048  # pairs that are counted at once, at most


class Trial:
    """One experiment: records in, ranking out. No clock, no I/O; the same calls give the same ranking.

    The phase changes from calibration to live inside `add` (or by `calibrate`), judged by the records' own
    instants. Calibration records that come after that, and live ones before, are counted and not used.
    `watch` is told each pair that is judged and the number of its window.  `prices`, what arms cost an hour,
    may change at any time.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        epoch: int = 0,
        *,
        watch: Callable[[PairRecord, int], None] | None = None,
        prices: Prices | None = None,
    ) -> None:
        self.spec = spec
        self.epoch = epoch
        self.prices = prices
        self.resources = Resources(spec)
        self._watch = watch
        # Every look at every candidate counts, so each gets its share of the chance to be wrong.
        self._alpha = spec.alpha / max(1, len(spec.candidates))
        self._margin = log_margin(spec.margin)
        self._calibrating = Calibrating(spec)
        self._calibration: Calibration | None = None
        self._windows: Windows | None = None
        self._blocks_ns = 0
        self._between: Phases | None = None  # what comes after the calibration, once that is over
        self._labels = Labels(spec.candidates, self._alpha, self._margin)
        self.race = Race(spec)
        self._waiting = Gathering()  # pairs of this phase, not yet counted
        self._pairs = 0
        self._unused = 0
        self._marked: dict[str, int] = {}
        self._first_ns: int | None = None
        self._last_ns = 0
        self.blocks = 0  # where arms take turns: the number of the next block
        self.turns = 0  # blocks that candidates have had
        self._books: tuple[int, int, dict[str, int]] = (0, 0, {})
        self._replay: dict[str, Any] | None = None
        self._hardware = Hardware()
        self._harness = Harness()
        self._floor_diffs = DiffFigures("control", twin=1)
        self._quality = {name: Quality(name, is_awaited=spec.golden) for name in spec.candidates}
        self._similarity = Similarity(spec.similarity, spec.candidates, spec.alpha)
        self._begin_figures()

    def _begin_figures(self) -> None:
        spec = self.spec
        self._production = ArmFigures(spec)
        self._control = ArmFigures(spec)
        self._candidates = {name: ArmFigures(spec) for name in spec.candidates}
        self._fairness = {name: Fairness(name) for name in spec.candidates}
        self._diffs = {name: DiffFigures(name) for name in spec.candidates}
        self._bursts = {name: Bursts(name) for name in spec.candidates}
        self._counts = {name: Counts(name) for name in spec.candidates}
        slow_ms = {} if self._calibration is None else self._calibration.slow_ms
        self._rates = {name: Rates(name, spec, slow_ms) for name in spec.candidates}
        self._horizons = {name: Horizons(name) for name in spec.candidates}
        self._lag = Lag()
        self._clock = Clock()
        self._loads = Loads()
        self._naive = Naive()

    @property
    def phase(self) -> Phase:
        """ "calibration" until the window length is fixed, "forced" or "scored" in between, then "live"."""
        if self._between is None:
            return "calibration"
        return self._between.now or "live"

    @property
    def windows(self) -> Windows | None:
        """The windows of all judged pairs, None while there are none."""
        self._count()
        return self._windows

    @property
    def calibration(self) -> dict[str, Any] | None:
        """What the calibration fixed (for the log's ["calibrated", ...]), or None while it lasts."""
        return None if self._calibration is None else self._calibration.to_map()

    def add(self, record: PairRecord) -> None:
        """Counts one pair."""
        self._first_ns = record.at_ns if self._first_ns is None else min(self._first_ns, record.at_ns)
        self._last_ns = max(self._last_ns, record.at_ns)
        self._pairs += 1
        if record.block is not None and record.block >= self.blocks:
            self.blocks = record.block + 1
            self.turns += record.phase == "live"
        if record.mark is not None:
            self._marked[record.mark] = self._marked.get(record.mark, 0) + 1
            return
        if record.phase != self.phase:
            self._unused += 1
            return
        if self._between is not None and self._between.add(record):
            return
        self._waiting.add(record)
        if self._windows is None:
            self._calibrating.add(record)
            if self._calibrating.enough():
                self.calibrate()
            return
        if self._watch is not None:
            self._watch(record, self._window_ns(record) // self._windows.window_ns)
        if len(self._waiting) >= _TOGETHER:
            self._count()

    def _count(self) -> None:
        """Counts the pairs that wait to be; how many are counted together changes nothing."""
        if not len(self._waiting):
            return
        columns, windows = Columns(self._waiting), self._windows
        self._waiting = Gathering()
        self._production.add(columns.production)
        self._control.add(columns.side("control"))
        for name, figures in self._candidates.items():
            figures.add(columns.side(name))
        if windows is None:
            self._floor_diffs.add(columns)
            return
        self._lag.add(columns)
        self._clock.add(columns)
        self._naive.add(columns)
        for name, fairness in self._fairness.items():
            if name not in self.race.left:  # it gets no more copies than it was sent
                fairness.add(columns)
            self._bursts[name].add(columns)
            self._counts[name].add(columns)
        at_block_ns = self._blocks_ns + columns.blocks * windows.window_ns
        at_ns = np.where(columns.in_turn, at_block_ns, columns.at_ns)
        self.resources.add(columns, at_ns // windows.window_ns)
        for horizons in self._horizons.values():
            horizons.add(columns, at_ns // windows.window_ns)
        values = series(columns, self.spec.candidates)
        for rates, diffs in zip(self._rates.values(), self._diffs.values(), strict=True):
            values |= rates.add(columns) | diffs.add(columns)
        windows.add_many(at_ns, values, lambda: self._labels.closed(windows))

    def _window_ns(self, record: PairRecord) -> int:
        """The instant that says which window a pair is of."""
        if record.block is None or self._windows is None:
            return record.at_ns
        return self._blocks_ns + record.block * self._windows.window_ns

    def calibrate(self, calibration: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """Ends the calibration now, from what was seen, or with what a log's ["calibrated", ...] says.

        A calibration that is over stays as it is.
        """
        if self._calibration is None:
            self._count()
            found = self._calibrating.finish() if calibration is None else Calibration.from_map(calibration)
            self._calibration = found
            # Where arms take turns a block is a window, however long, and has settled once the next has.
            turns = self.spec.mode != "live"
            self._windows = Windows(found.window_ns, found.window_ns if turns else found.settle_ns)
            self._blocks_ns = (self._first_ns or 0) // found.window_ns * found.window_ns
            self._similarity.begin(Windows(found.window_ns, found.settle_ns), self._blocks_ns)
            self._between = Phases(self.spec, found, alpha=self._alpha, margin=self._margin)
            self._begin_figures()  # doubled requests are not what a verdict is about
        return self._calibration.to_map()

    def undone(self, phase: Between, why: str) -> None:
        """No token can be forced, or scored: there is no such phase."""
        if self._between is not None:
            self._between.give_up(phase, why)

    def leaving(self) -> list[Left]:
        """Who leaves the race now: whoever asks logs it, and then says so (`leave`)."""
        windows = self._windows
        if windows is None or self.phase != "live":
            return []
        if not self.race.in_new_window(self._last_ns // windows.window_ns):
            return []
        self._count()
        return self.race.look(lambda: self.ranking(at_hand=True), windows)

    def leave(self, left: Left) -> None:
        """A candidate gets no more copies from now on.  ValueError where it cannot be."""
        self._count()
        self.race.leave(left)

    def books(self, admitted: int, paired: int, dropped: Mapping[str, int]) -> None:
        """Takes the shadow's cumulative books (the last call counts)."""
        self._books = (admitted, paired, dict(sorted(dropped.items())))

    def replayed(self, body: Mapping[str, Any]) -> None:
        """Takes how much of a replay candidates have had; KeyError, TypeError or ValueError: it is not that.

        After the last of it no pair comes: its last blocks are whole, although none comes after them.
        """
        turns, of = int(body["turns"]), int(body["of"])
        self._replay = {"turns": min(turns, of), "of": of, "over": turns >= of}
        self._count()
        if turns >= of and self._windows is not None and self._windows.finish():
            self._labels.look(self._windows)
        if turns >= of:
            self._similarity.finish()

    @property
    def replayed_turns(self) -> int:
        """How many of a replay's blocks are over, those that were left out with a candidate among them."""
        return 0 if self._replay is None else int(self._replay["turns"])

    def golden(self, body: Mapping[str, Any]) -> None:
        """Takes the marks of a golden request; KeyError, TypeError or AttributeError when it is none."""
        for quality in self._quality.values():
            quality.add(str(body["id"]), body["passed"])

    def similarity(self, body: Mapping[str, Any]) -> None:
        """Takes how alike answers are in meaning; KeyError, TypeError or ValueError when it is not that."""
        self._similarity.add(body)

    def gpus(self, body: Mapping[str, Any]) -> None:
        """Takes a reading of an arm's GPUs. ValueError, KeyError, TypeError, AttributeError: it is none."""
        self._hardware.add(body)
        self.resources.gpus(body)

    def engine(self, body: Mapping[str, Any]) -> None:
        """Takes what an arm's engine counts. ValueError, KeyError, TypeError, AttributeError: it is none."""
        self.resources.engine(read_engine(body))

    def late(self, body: Mapping[str, Any]) -> None:
        """Takes how late the shadow process was; KeyError, TypeError or ValueError when it is not that."""
        self._harness.add(body)

    def load(self, body: Mapping[str, Any]) -> None:
        """Takes the load of a span of time; KeyError, TypeError or ValueError when it is none."""
        self._loads.add(body)

    def prepare(self) -> bool:
        """Makes a few of the figures that take long, of the pairs counted; False where all are made."""
        return any(horizons.prepare(self._alpha) for horizons in self._horizons.values())

    def ranking(self, *, at_hand: bool = False) -> dict[str, Any]:
        """The ranking, JSON-able: where the experiment stands, checks, every arm's figures, verdicts.

        Ratios are geometric means of candidate / control (0.75: a quarter faster), None where there is none.
        `at_hand`: with the percentiles that were made (`prepare`), if need be of an earlier horizon.
        """
        self._count()
        every_check = self._checks()
        candidates = [self._candidate(name, every_check, at_hand) for name in self.spec.candidates]
        candidates.sort(key=candidate_order)
        ranked = [{"name": c["name"], "rank": rank, **c} for rank, c in enumerate(candidates, start=1)]
        calibration, calibrating = self._calibration, self._calibrating
        admitted, paired, dropped = self._books
        floor = floor_shown({} if calibration is None else calibration.floor)
        between: Mapping[str, Any] = {} if self._between is None else self._between.show()
        return {
            "experiment": self.spec.name,
            "fleet": self.spec.fleet,
            "mode": self.spec.mode,
            "phase": self.phase,
            "epoch": self.epoch,
            "pairs": self._pairs,
            "unused_pairs": self._unused,
            "marked_pairs": dict(sorted(self._marked.items())),
            "windows": self._windows.units if self._windows is not None else 0,
            "window_s": calibration.window_ns / 1e9 if calibration is not None else None,
            "tau_pairs": calibration.tau_pairs if calibration is not None else None,
            "alpha": self.spec.alpha,
            "margin": self.spec.margin,
            "elapsed_s": 0.0 if self._first_ns is None else (self._last_ns - self._first_ns) / 1e9,
            "calibration": {
                "progress": 1.0 if calibration is not None else calibrating.progress,
                "pairs": calibration.pairs if calibration is not None else calibrating.pairs,
                "wanted_pairs": calibrating.wanted_pairs,
                "wanted_s": self.spec.calibration_s,
                "by": None if calibration is None else calibration.by,
            },
            "forced": between.get("forced"),
            "scored": between.get("scored"),
            "replay": self._replay,
            "books": {"admitted": admitted, "paired": paired, "dropped": dropped},
            "checks": [check.show(self.spec.mode) for check in every_check["all"]],
            "load": self._loads.show(),
            "hardware": self._hardware.show(),
            "similarity": self._similarity.show(),
            **self.resources.show(self._windows, self.prices),
            "dispatch": self._lag.show(),
            "production": {
                "observed_only": True,  # nothing is judged by it
                **self._production.show(),
                "beside": self._naive.show(
                    {c["name"]: main_verdict(c)["label"] for c in ranked}, self._loads, self.spec.mode
                ),
            },
            "control": {"name": "control", **self._control.show(), "floor": floor},
            "candidates": ranked,
            "discoveries": discoveries(ranked, self.spec.alpha),
            "beaten": beaten(self._windows, ranked, self.spec.alpha, self._margin),
            "race": self.race.show(ranked),
            "decided": bool(ranked) and all(c["decided"] or c["left"] for c in ranked),
            "summary": summary(self.phase, calibrating.told, ranked, self.spec.mode, self._replay),
        }

    def _checks(self) -> dict[str, list[Check]]:
        """Every check under "all", and under each candidate's name those that concern it."""
        units = self._windows.units if self._windows is not None else 0
        shared = [
            checks.calibrated(self._calibration),
            checks.warm(self._calibration, self.spec.calibration_pairs),
            self._lag.check(self.spec.mode),
            self._loads.check(self.spec.mode),
            checks.books(*self._books),
            missing(self._books[1], self._books[2]),
            self._clock.check(),
            self._harness.check(),
            gpu_clocks(self._hardware.show()),
        ]
        own = {name: [f.load(), f.order(), f.cache(), f.errors()] for name, f in self._fairness.items()}
        for name, bursts in self._bursts.items():
            own[name] += [bursts.check(), self._counts[name].check()]
        merged = [checks.worst(list(same)) for same in zip(*own.values(), strict=True)]
        every = {name: [*shared, *mine] for name, mine in own.items()}
        every["all"] = [checks.enough_units(units, self.spec.mode), *shared, *merged]
        return every

    def _candidate(self, name: str, every_check: Mapping[str, list[Check]], at_hand: bool) -> dict[str, Any]:
        windows, begin_ns, mode = self._windows, self._first_ns or 0, self.spec.mode
        verdicts, series = {}, {}
        # Where an arm mostly fails, the "ratios" are penalties: a number would be an invention.
        is_untimed = any(c.name == "errors" and c.ok is False and c.withholds for c in every_check[name])
        for latency in LATENCIES:
            found = None if windows is None or is_untimed else windows.means(f"{latency} {name}")
            failed = [c.reason(mode) for c in every_check[name] if c.ok is False and latency in c.withholds]
            verdicts[latency] = verdict_shown(
                found, self._alpha, self._margin, self._labels.of(name, latency), failed, mode
            )
            course = [] if windows is None or is_untimed else windows.course(f"{latency} {name}", _POINTS)
            series[latency] = [[(end_ns - begin_ns) / 1e9, exp(mean)] for end_ns, mean in course]
        withheld = [latency for latency in LATENCIES if verdicts[latency]["withheld"]]
        floor = self._calibration.floor if self._calibration is not None else {}
        outputs = outputs_shown(windows, name, self._alpha, floor, mode) | self._similarity.shown(name, mode)
        main = verdicts["tpot"] if verdicts["tpot"]["units"] else verdicts["e2e"]
        candidate = {
            "name": name,
            **self._candidates[name].show(),
            "verdicts": verdicts,
            "outputs": outputs,
            "diffs": self._diffs[name].show(self._floor_diffs, floor, windows, self._alpha, mode),
            "quality": self._quality[name].show(self._alpha),
            "rates": self._rates[name].show(windows, self._alpha),
            "percentiles": self._horizons[name].show(self._alpha, withheld, at_hand=at_hand),
            "decided": main["label"] != "UNDECIDED",
            "series": series,
            "left": self.race.how_left(name),
        }
        return {**candidate, "flags": flags(candidate)}
