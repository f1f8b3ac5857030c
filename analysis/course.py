"""How one running experiment is kept: each pair measured, logged, counted, and the ranking made when asked.

Nothing here awaits; `board` runs all of it on one worker thread, so nothing here needs a lock either.
"""

import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from msgspec.structs import replace

from analysis import errors
from analysis.cost.prices import Prices
from analysis.ledger import Ledger
from analysis.measure import AnswerMeasure, PairRecord, measure
from analysis.packed import packed, unpacked
from analysis.phases import UNDONE
from analysis.race import Left
from analysis.ranking import Trial
from analysis.replay import replay
from analysis.retention import prune
from analysis.spec import ExperimentSpec, Retention, TextSpec
from analysis.store import NAME, Header, LogError, LogReader, LogWriter, Opened, open_log, put_aside
from analysis.texts import Texts

_REBOOT_GAP_NS = 1_000_000_000
_KEEP = Retention()
_NO_TEXT = TextSpec()


def _wall_s() -> float:
    """As files' instants are: how old a log is outlasts a restart of the machine."""
    return datetime.now(UTC).timestamp()


class MalformedError(Exception):
    """A frame is not what its kind says it is."""


class Course:
    """One experiment from its log on: `load` first, then pairs and books as they come.

    When the log is as long as `keep` lets it be, nothing more is taken: what is judged is what the log says.
    `texts` says how what arms said is kept word for word.  `prices`: what GPUs and arms cost.
    `measured` is `analysis.measure.measure`; it is an argument so that the order of things can be tested.
    """

    def __init__(
        self,
        spec: ExperimentSpec,
        state_dir: Path,
        *,
        measured: Callable[[Mapping[str, Any]], PairRecord] = measure,
        now_ns: Callable[[], int] = time.monotonic_ns,
        keep: Retention = _KEEP,
        now_s: Callable[[], float] = _wall_s,
        texts: TextSpec = _NO_TEXT,
        prices: Prices | None = None,
    ) -> None:
        self.spec = spec
        self.version = 0  # grows with every record: a ranking made at the same version is the same ranking
        self.loaded = False
        self._path = state_dir / spec.name / NAME
        self._measured = measured
        self._now_ns = now_ns
        self._keep = keep
        self._now_s = now_s
        self.texts = Texts(state_dir / spec.name, texts, now_s)
        self._not_taken = 0
        self._shift_ns = 0
        self._trial = Trial(spec, prices=prices)
        self._ledger = Ledger()
        self._replayed: Any = None  # how much of a replay is done, as it was told last
        self._log: LogWriter | None = None
        self._ranking: tuple[int, bool, dict[str, Any]] | None = None

    @property
    def prices(self) -> Prices | None:
        """What GPUs and arms cost."""
        return self._trial.prices

    def price(self, prices: Prices | None) -> None:
        """They cost this from now on, also for what was recorded before."""
        if prices != self.prices:
            self._trial.prices = prices
            self.version += 1

    @property
    def phase(self) -> str:
        """calibration or live."""
        return self._trial.phase

    @property
    def epoch(self) -> int:
        """Counts changes of the experiment's settings."""
        return self._trial.epoch

    @property
    def reached(self) -> dict[str, Any]:
        """Where arms take turns: the number of the next block, and how many blocks candidates have had, or
        would have had, were they not `out` of the race."""
        turns = max(self._trial.turns, self._trial.replayed_turns)
        return {"blocks": self._trial.blocks, "turns": turns, "out": self.out}

    @property
    def out(self) -> tuple[str, ...]:
        """The candidates that left the race: they get no more copies."""
        return self._trial.race.out

    @property
    def log_state(self) -> dict[str, Any]:
        """How the log fares: records written, waiting for disk space, lost; pairs not taken, for it is full;
        the last error."""
        log = self._log
        if log is None:
            return {"written": 0, "waiting": 0, "lost": 0, "not_taken": 0, "error": None}
        return {
            "written": log.written,
            "waiting": log.waiting,
            "lost": log.lost,
            "not_taken": self._not_taken,
            "error": log.error,
        }

    def load(self, *, anew: bool = False) -> tuple[str, ...]:
        """Continue the log, or start one; notices of what was cut off or put aside.

        `anew`: put a log aside although its settings are these, for its engines are others now.  Raises
        LogError when another process writes it.
        """
        notices: list[str] = []
        keep_bytes = 0
        try:
            opened = open_log(self._path, self.spec)
            if anew and opened.past is not None:
                opened.past.close()
                why = "the experiment's engines have changed"
                opened = Opened(*put_aside(self._path, f"epoch-{opened.epoch}", why))
            epoch = opened.epoch
            notices += opened.notices
            self._trial = Trial(self.spec, epoch, prices=self.prices)
            if opened.past is not None:
                keep_bytes, epoch = self._continue(opened.past, epoch, notices)
        except OSError as error:
            epoch = 1
            notices.append(f"the log of {self.spec.name} cannot be read or put aside: {error}")
        notices += self._prune()
        self._log = LogWriter(self._path, Header(epoch, self.spec))
        self._log.open(keep_bytes)
        self.texts.begin(anew=not keep_bytes)
        self.loaded = True
        self.version += 1
        return tuple(notices)

    def _prune(self) -> tuple[str, ...]:
        try:
            return prune(self._path.parent, self._keep, self._now_s())
        except OSError as error:
            return (f"old logs of {self.spec.name} cannot be deleted: {error}",)

    @property
    def is_full(self) -> bool:
        """Whether the log is as long as it may get."""
        return self._log is not None and self._log.size >= self._keep.log_bytes

    def _continue(self, past: LogReader, epoch: int, notices: list[str]) -> tuple[int, int]:
        """Replay `past`; how many bytes of it to keep, and the epoch that goes on."""
        try:
            self._ledger, last_ns = replay(past, self._trial)
        except LogError as error:
            past.close()
            epoch, _, more = put_aside(self._path, "unreadable", str(error))
            notices.extend(more)
            self._trial, self._ledger = Trial(self.spec, epoch, prices=self.prices), Ledger()
            return 0, epoch
        now_ns = self._now_ns()
        if last_ns > now_ns:  # the machine was restarted, and its clock with it: go on after the last record
            self._shift_ns = last_ns - now_ns + _REBOOT_GAP_NS
        notices.extend(
            f"left out {gap.length} damaged bytes at byte {gap.at} of the log of {self.spec.name}"
            for gap in past.damage
        )
        if past.torn_bytes:
            notices.append(
                f"cut {past.torn_bytes} bytes of an unfinished record off the log of {self.spec.name}"
            )
        return past.end, epoch

    def pair(self, frame: Mapping[str, Any]) -> None:
        """Measure, log and count one pair. MalformedError when the frame is not a pair."""
        if self.is_full:
            self._not_taken += 1
            return
        try:
            # What a replay will see: no log holds what it cannot read.
            record = unpacked(packed(_shifted(self._measured(frame), self._shift_ns)))
        except (KeyError, TypeError, ValueError, AttributeError, msgspec.ValidationError) as error:
            raise MalformedError(errors.told(error)) from error
        calibrated = self._trial.calibration is not None
        self._trial.add(record)
        self._append("pair", record)
        self.texts.keep(frame)
        if not calibrated and (calibration := self._trial.calibration) is not None:
            self._append("calibrated", calibration)
        self.version += 1

    def lost(self, reason: str) -> None:
        """A pair of this experiment could not be used."""
        self._ledger.lost_here(reason)

    def books(self, frame: Mapping[str, Any]) -> None:
        """Take the shadow's cumulative books. MalformedError when the frame is not that."""
        if self.is_full:
            return
        before, replayed = self._ledger.books(), frame.get("replay")
        try:
            dropped = {str(reason): int(n) for reason, n in dict(frame["dropped"]).items()}
            self._ledger.take(int(frame["admitted"]), int(frame["paired"]), dropped)
            if replayed is not None and replayed != self._replayed:
                self._trial.replayed(replayed)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(errors.told(error)) from error
        books = self._ledger.books()
        if books == before and replayed == self._replayed:
            if self._log is not None and self._log.waiting:
                self._log.flush()
            return
        self._replayed = replayed
        self._append("books", {"books": books, "ledger": self._ledger.to_map(), "replay": replayed})
        self._trial.books(**books)
        self.version += 1

    def undone(self, kind: str, frame: Mapping[str, Any]) -> None:
        """A phase cannot be (`analysis.phases.UNDONE`), and why; MalformedError where that is not said."""
        if self.is_full:
            return
        if not isinstance(why := frame.get("why"), str):
            raise MalformedError(f"an {kind} frame says why")
        if self.phase != UNDONE[kind]:
            return  # it was said before
        self._trial.undone(UNDONE[kind], why)
        self._append(kind, {"why": why})
        self.version += 1

    def carried(self, frame: Mapping[str, Any]) -> None:
        """Take the load of a span of time. MalformedError when the frame is not that."""
        if self.is_full:
            return
        body = {name: frame.get(name) for name in ("span_s", "production", "arms", "rate", "matched")}
        try:
            self._trial.load(body)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("load", body)
        self.version += 1

    def late(self, frame: Mapping[str, Any]) -> None:
        """Take how late the shadow process was. MalformedError when the frame is not that."""
        if self.is_full:
            return
        body = {name: frame.get(name) for name in ("timers", "late", "worst_ms")}
        try:
            self._trial.late(body)
        except (KeyError, TypeError, ValueError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("late", body)
        self.version += 1

    def golden(self, body: Mapping[str, Any]) -> None:
        """Take the marks of a golden request. MalformedError when the body is not that."""
        if self.is_full:
            return
        try:
            self._trial.golden(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("golden", body)
        self.version += 1

    def similarity(self, body: Mapping[str, Any]) -> None:
        """Take how alike a pair's answers are in meaning. MalformedError when the body is not that."""
        if self.is_full:
            return
        body = {**body, "at_ns": body["at_ns"] + self._shift_ns} if "at_ns" in body else dict(body)
        try:
            self._trial.similarity(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("similarity", body)
        self.version += 1

    def gpus(self, frame: Mapping[str, Any]) -> None:
        """Take a reading of an arm's GPUs. MalformedError when the frame is not that."""
        if self.is_full:
            return
        body = {name: frame.get(name) for name in ("arm", "at_ns", "source", "gpus")}
        if isinstance(body["at_ns"], int):
            body["at_ns"] += self._shift_ns
        try:
            self._trial.gpus(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("gpu", body)
        self.version += 1

    def engine(self, frame: Mapping[str, Any]) -> None:
        """Take what an arm's engine counts. MalformedError when the frame is not that."""
        if self.is_full:
            return
        names = ("arm", "at_ns", "late_ms", "busy_ns", "said", "why")
        body = {name: frame[name] for name in names if name in frame}
        try:
            body["at_ns"] = int(frame["at_ns"]) + self._shift_ns
            self._trial.engine(body)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise MalformedError(errors.told(error)) from error
        self._append("engine", body)
        self.version += 1

    def race(self) -> list[Left]:
        """Who leaves the race now; it is logged, and they are out."""
        if self.is_full:
            return []
        leaving = self._trial.leaving()
        for left in leaving:
            self._trial.leave(left)
            self._append("left", msgspec.to_builtins(left))
            self.version += 1
        return leaving

    def prepare(self) -> bool:
        """Makes a few of the figures that take long; False where all of them are made."""
        made = self._trial.prepare()
        self.version += made
        return made

    def ranking(self, *, at_hand: bool = False) -> dict[str, Any]:
        """The ranking over all records so far. Do not change it.

        `at_hand`: with those percentiles that were made, if need be of fewer pairs: it takes no longer.
        """
        if self._ranking is None or self._ranking[:2] != (self.version, at_hand):
            self._ranking = (self.version, at_hand, self._trial.ranking(at_hand=at_hand))
        return self._ranking[2]

    def close(self) -> None:
        """Write what waits and let go of the log."""
        if self._log is not None:
            self._log.close()

    def _append(self, kind: str, body: Any) -> None:
        if self._log is not None:
            self._log.append(kind, body)


def _shifted(record: PairRecord, by_ns: int) -> PairRecord:
    """The record on a clock that runs `by_ns` ahead."""
    if by_ns == 0:
        return record

    def moved(answer: AnswerMeasure) -> AnswerMeasure:
        return replace(answer, sent_ns=answer.sent_ns + by_ns, end_ns=answer.end_ns + by_ns)

    return replace(
        record,
        at_ns=record.at_ns + by_ns,
        received_ns=record.received_ns + by_ns,
        answers=tuple(moved(answer) for answer in record.answers),
        production=None if record.production is None else moved(record.production),
    )
