"""What the analysis process knows at this moment, and the one thread on which experiments move forward."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from typing import Any, TypeVar

import msgpack

from analysis import errors
from analysis.checking import Checking
from analysis.course import Course, MalformedError
from analysis.golden import is_golden
from analysis.inbox import Frame, Inbox, Peer
from analysis.keeping import Keeping
from analysis.likening import Likening
from analysis.phases import UNDONE
from analysis.roster import Roster
from analysis.scrubbing import Scrubbing
from analysis.spec import EmbedderSpec
from analysis.supervision import Supervision

_FRAMES_A_TURN = 16
_RELOAD_S = 60.0
_SWITCH_S = 2.0
_SETTLE_S = 0.2  # the last words about experiments that end are in a socket's buffer by now, and are read
T = TypeVar("T")
B = TypeVar("B")


class Board:
    """Takes frames from the inbox, moves the courses forward in order, answers what the admin server asks.

    Measuring and ranking run on one thread of their own, in order; the event loop only waits for it, so the
    admin server answers meanwhile. `notice(event, **values)` is the log.
    """

    def __init__(
        self,
        version: str,
        courses: Sequence[Course],
        notice: Callable[..., Any],
        *,
        inbox: Inbox | None = None,
        supervision: Supervision | None = None,
        now_ns: Callable[[], int] = time.monotonic_ns,
        embedders: Sequence[EmbedderSpec] = (),
        scrubbing: Scrubbing | None = None,
    ) -> None:
        self.version = version
        self.inbox = inbox or Inbox()
        self.roster = Roster()
        self.supervision = supervision
        self._courses = {course.spec.name: course for course in courses}
        self._notice = notice
        self._now_ns = now_ns
        self._lost: Counter[tuple[str, str]] = Counter()
        self._told: dict[str, tuple[str, int, tuple[str, ...]]] = {}
        self._working = asyncio.Lock()
        self._checking = Checking()
        self._likening = Likening()
        self._embedders = {one.experiment: one for one in embedders}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="analysis")
        self._keeping = Keeping(scrubbing, self._later, self._run, notice)
        self._keeping.renew(self._courses)

    # What peers send

    def greet(self, peer: Peer) -> None:
        """Tell a new peer the phase of every experiment that is loaded."""
        for course in self._courses.values():
            if course.loaded:
                peer.tell(msgpack.packb(_phase(course)))

    def take(self, frame: Frame) -> None:
        """A frame has come. ValueError, KeyError or TypeError when it is malformed."""
        if frame.kind == "status":
            self.roster.take(frame.body, self._now_ns())
        elif frame.kind in ("pair", "books", "load", "late", "gpu", "engine", *UNDONE):
            experiment = frame.body["experiment"]
            if experiment not in self._courses:
                self.inbox.dropped["unknown_experiment"] += 1
            elif not self.inbox.offer(frame) and frame.kind == "pair":
                self._lost[experiment, "analysis_inbox_full"] += 1
        else:
            self.inbox.dropped["unknown_kind"] += 1
            return
        self.inbox.counts[frame.kind] += 1

    # How experiments move

    async def load(self) -> None:
        """Continue all logs; raises LogError when another process writes one."""
        for course in self._courses.values():
            for notice in await self._run(course.load):
                self._notice("log_notice", experiment=course.spec.name, detail=notice)
            self._tell_phase(course)

    async def renew(
        self, courses: Sequence[Course], anew: Sequence[str], embedders: Sequence[EmbedderSpec] = ()
    ) -> None:
        """Keep these experiments from now on; LogError when another process writes the log of a new one.

        `courses` are for those that are new, or not what they were (also those named in `anew`, whose
        settings here are the same); one whose settings are the same goes on as the course it is.
        """
        same = {
            name: course
            for name, course in self._courses.items()
            if name not in anew and any(other.spec == course.spec for other in courses)
        }
        ended = [course for name, course in self._courses.items() if name not in same]
        now = {course.spec.name: same.get(course.spec.name, course) for course in courses}

        def exchange() -> dict[str, tuple[str, ...]]:
            """On the thread, so that every frame belongs to what was before or to what comes after."""
            for course in ended:
                course.close()
            notices = {c.spec.name: c.load(anew=c.spec.name in anew) for c in now.values() if not c.loaded}
            for course in courses:
                now[course.spec.name].texts.renew(course.texts.spec)
                now[course.spec.name].price(course.prices)
            self._courses = now
            self._embedders = {one.experiment: one for one in embedders}
            self._likening.keep(embedders)
            return notices

        if ended:
            await asyncio.sleep(_SETTLE_S)
        async with self._working:
            await self._advance_all(self.inbox.take_now())
            notices = await self._run(exchange)
            self._keeping.renew(now)
        for course in ended:
            self._told.pop(course.spec.name, None)
            self._notice("experiment_ended", experiment=course.spec.name)
        for name, told in notices.items():
            for notice in told:
                self._notice("log_notice", experiment=name, detail=notice)
            self._tell_phase(now[name])

    async def follow(self) -> None:
        """Work on what comes, for ever; while nothing does, on figures that take long."""
        while True:
            while not self.inbox.waiting and await self._prepared():
                pass
            await self._work(await self.inbox.take())

    async def finish(self, within_s: float) -> None:
        """Work on what has come already, for at most `within_s` seconds, and close the logs.

        Whatever the thread is at then is waited for as long again, and left: each record is in its log since
        it was made, and with this process a log is let go of.
        """
        try:
            frames = self.inbox.take_now() if all(c.loaded for c in self._courses.values()) else []
            await asyncio.wait_for(self._work(frames), within_s)
        except TimeoutError:
            self._notice("inbox_left", frames=self.inbox.waiting)
        try:
            async with asyncio.timeout(within_s):
                for course in self._courses.values():
                    await self._run(course.close)
        except TimeoutError:
            self._notice("work_left", waited_s=within_s)
        self._checking.close()
        self._likening.close()
        self._thread.shutdown(wait=False)

    async def _work(self, frames: list[Frame]) -> None:
        async with self._working:
            await self._advance_all(frames)

    async def _advance_all(self, frames: list[Frame]) -> None:
        for start in range(0, len(frames), _FRAMES_A_TURN):
            turn = frames[start : start + _FRAMES_A_TURN]
            malformed = await self._run(lambda turn=turn: self._advance(turn))  # type: ignore[misc]
            for peer in malformed:
                peer.malformed()
            for name in {frame.body["experiment"] for frame in turn} & self._courses.keys():
                self._tell_phase(self._courses[name])
            await self._prepared()

    async def _prepared(self) -> bool:
        """Have one small part of those figures made; False where there was none to make.

        Those of all candidates together may take long: who asks for the ranking does not wait for them.
        """
        try:
            return await self._run(lambda: any(course.prepare() for course in self._courses.values()))
        except Exception as error:
            self.inbox.dropped["ranking_failed"] += 1
            self._notice("ranking_failed", experiment="", error=errors.told(error))
            return False

    def _advance(self, frames: list[Frame]) -> list[Peer]:
        """On the thread: some frames, in order; the peers whose frame turned out to be malformed."""
        malformed: list[Peer] = []
        while self._lost:
            (experiment, reason), n = self._lost.popitem()
            for _ in range(n if experiment in self._courses else 0):
                self._courses[experiment].lost(reason)
        for frame in frames:
            course = self._courses.get(frame.body["experiment"])
            if course is None:  # it has ended since the frame came
                self.inbox.dropped["unknown_experiment"] += 1
                continue
            if 0 < frame.body.get("epoch", 0) < course.epoch:  # of the experiment that had this name before
                self.inbox.dropped["stale_epoch"] += 1
                continue
            try:
                if frame.kind == "pair":
                    course.pair(frame.body)
                    if is_golden(frame.body):
                        self._check(course, frame.body)
                    if (embedder := self._embedders.get(course.spec.name)) is not None:
                        self._likening.offer(embedder, frame.body, self._later(course, course.similarity))
                elif frame.kind == "load":
                    course.carried(frame.body)
                elif frame.kind == "late":
                    course.late(frame.body)
                elif frame.kind == "gpu":
                    course.gpus(frame.body)
                elif frame.kind == "engine":
                    course.engine(frame.body)
                elif frame.kind in UNDONE:
                    course.undone(frame.kind, frame.body)
                else:
                    course.books(frame.body)
            except MalformedError as error:
                malformed.append(frame.peer)
                self._refused(course, frame, "analysis_malformed", error)
            except Exception as error:  # a bug that one pair shows must not end the others
                self.inbox.dropped["analysis_failed"] += 1
                self._refused(course, frame, "analysis_failed", error)
        for name in {frame.body["experiment"] for frame in frames} & self._courses.keys():
            self._race(self._courses[name])
        return malformed

    def _race(self, course: Course) -> None:
        """On the thread: candidates that leave the race now leave it; the next word on the phase says so."""
        try:
            for left in course.race():
                told = {"candidate": left.name, "rung": left.rung, "why": left.why}
                self._notice("left_the_race", experiment=course.spec.name, **told)
        except Exception as error:
            self.inbox.dropped["ranking_failed"] += 1
            self._notice("ranking_failed", experiment=course.spec.name, error=errors.told(error))

    def _check(self, course: Course, pair: Mapping[str, Any]) -> None:
        """Have a golden request's answers checked; the marks are counted on the analysis thread, later."""
        count = self._later(course, course.golden)

        def told(marks: dict[str, Any] | Exception) -> None:
            if isinstance(marks, Exception):
                self.inbox.dropped["golden_failed"] += 1
                self._notice("golden_failed", experiment=course.spec.name, error=errors.told(marks))
            else:
                count(marks)

        if not self._checking.offer(pair, told):
            self.inbox.dropped["golden_busy"] += 1

    def _later(self, course: Course, count: Callable[[B], Any]) -> Callable[[B], None]:
        """What any thread may call, to have `count` called on the analysis thread if the course goes on."""

        def counted(body: B) -> None:
            if self._courses.get(course.spec.name) is course:
                count(body)

        def told(body: B) -> None:
            with suppress(RuntimeError):  # everything has ended meanwhile
                self._thread.submit(counted, body)

        return told

    def _refused(self, course: Course, frame: Frame, reason: str, error: Exception) -> None:
        if frame.kind == "pair":
            course.lost(reason)
        self._notice(reason, experiment=course.spec.name, frame=frame.kind, error=errors.told(error))

    def _tell_phase(self, course: Course) -> None:
        now = (course.phase, course.epoch, course.out)
        if self._told.get(course.spec.name) != now:
            self._told[course.spec.name] = now
            self._notice("phase", experiment=course.spec.name, phase=course.phase, epoch=course.epoch)
            self.inbox.tell(_phase(course))

    async def _run(self, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)

    # What the admin server asks

    async def reload(self) -> dict[str, Any] | None:
        """Have the configuration read again: what came of it; None when nobody says."""
        return None if self.supervision is None else await self.supervision.reload(_RELOAD_S)

    async def switch(
        self, kind: str, names: Sequence[str], why: str, *, stop_engines: bool = False
    ) -> dict[str, Any] | None:
        """Have experiments paused, or go on: what came of it; None when nobody says."""
        if self.supervision is None:
            return None
        return await self.supervision.switches.ask(kind, names, why, _SWITCH_S, stop_engines=stop_engines)

    async def look(self) -> None:
        """What is to be done about once a second: texts that are older than they may get are deleted."""
        await self._keeping.look()

    async def forget(self, names: Sequence[str], requests: Sequence[str]) -> dict[str, int] | None:
        """Forget what was said to these requests, by experiment; None when there is no such experiment."""
        return await self._keeping.forget(names, requests)

    def names(self) -> list[str]:
        """The experiments' names."""
        return list(self._courses)

    def rank_version(self, name: str) -> int:
        """Changes whenever the ranking may have changed."""
        return self._courses[name].version

    async def ranking(self, name: str) -> dict[str, Any] | None:
        """The ranking of an experiment as of all frames worked on; None when there is no such experiment."""
        course = self._courses.get(name)
        if course is None:
            return None
        try:
            return await self._run(lambda: course.ranking(at_hand=True))
        except Exception as error:
            self.inbox.dropped["ranking_failed"] += 1
            self._notice("ranking_failed", experiment=name, error=errors.told(error))
            raise

    def _switch(self, course: Course) -> dict[str, Any]:
        if self.supervision is None:
            return {"paused": None, "trips": {}}
        return self.supervision.switches.of(course.spec.name, self._now_ns())

    def not_ready(self) -> list[str]:
        """Why traffic should not be sent here now."""
        if self.supervision is not None and self.supervision.draining:
            return ["the gateway is draining"]
        return self.roster.not_ready(self._now_ns())

    def status(self) -> dict[str, Any]:
        """Everything but the rankings, JSON-able."""
        reasons, turns = self.not_ready(), self.roster.turns(self._now_ns())
        logs = {name: course.log_state for name, course in self._courses.items()}
        troubles = Counter(self.inbox.dropped)
        for state in logs.values():
            troubles["log_records_waiting"] += state["waiting"]
            troubles["log_records_lost"] += state["lost"]
            troubles["log_full"] += state["not_taken"]
        troubles["texts_lost"] = self._keeping.lost
        return {
            "version": self.version,
            "ready": {"ready": not reasons, "reasons": reasons},
            "config": {} if self.supervision is None else self.supervision.state.get("config", {}),
            "discovery": {} if self.supervision is None else self.supervision.state.get("discovery", {}),
            "kv_events": {} if self.supervision is None else self.supervision.state.get("kv_events", {}),
            "launched": {} if self.supervision is None else self.supervision.state.get("launched", {}),
            "processes": self.roster.processes(self._now_ns()),
            "experiments": [
                {
                    **asdict(course.spec),
                    "phase": course.phase,
                    "epoch": course.epoch,
                    **self._switch(course),
                    "slots": turns.get(name),
                }
                for name, course in self._courses.items()
            ],
            "inbox": {"waiting": self.inbox.waiting, "waiting_bytes": self.inbox.waiting_bytes},
            "frames": dict(sorted(self.inbox.counts.items())),
            "troubles": {what: n for what, n in sorted(troubles.items()) if n},
            "logs": logs,
        }


def _phase(course: Course) -> list[Any]:
    body = {"experiment": course.spec.name, "phase": course.phase, "epoch": course.epoch, **course.reached}
    return ["phase", body]
