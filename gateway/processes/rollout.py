"""In which order does a new configuration reach the processes?  Decided here, without a process or a clock.

A step is told to some children at once, and the next one follows when all of them have answered, died (who is
started again begins with the newest) or had their time.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from analysis.spec import AnalysisSpec
from gateway.launch.spec import LaunchSpec
from gateway.processes.compose import Told
from gateway.recording.spec import RecordSpec
from gateway.spec import WorkerSpec
from mirror.spec import ShadowSpec

Step = Mapping[str, bytes]  # child to what it is told
Spec = WorkerSpec | ShadowSpec | AnalysisSpec | LaunchSpec | RecordSpec

SHADOW = "shadow"
ANALYSIS = "analysis"
LAUNCH = "launch"
RECORDING = "recording"


@dataclass(frozen=True, slots=True)
class Changes:
    """What becomes of experiments from one configuration to the next.

    `same` go on as they are; `ending` are gone or not what they were; `anew` are those of them whose past
    says nothing about what they are now, for other engines are compared, or otherwise judged.
    """

    ending: frozenset[str] = frozenset()
    anew: tuple[str, ...] = ()
    same: frozenset[str] = frozenset()


@dataclass(slots=True)
class Rollout:
    """The steps of one configuration on its way."""

    generation: int
    steps: Sequence[Step]
    patience_ns: int
    at: int = -1
    waiting: set[str] = field(default_factory=set)
    late: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)
    deadline_ns: int = 0

    def due(self, now_ns: int) -> Step | None:
        """The step to tell now: None while answers are waited for, and once all was told."""
        if self.waiting and now_ns >= self.deadline_ns:
            self.late += sorted(self.waiting)
            self.waiting.clear()
        if self.waiting or self.done:
            return None
        self.at += 1
        if self.done:
            return None
        step = self.steps[self.at]
        self.waiting = set(step)
        self.deadline_ns = now_ns + self.patience_ns
        return step

    @property
    def done(self) -> bool:
        """Whether every step was told and answered for."""
        return self.at >= len(self.steps)

    def answered(self, child: str, generation: int, error: str | None) -> None:
        """A child has applied what it was told, or could not."""
        if generation == self.generation:
            self.waiting.discard(child)
            if error is not None:
                self.errors[child] = error

    def lost(self, child: str) -> None:
        """A child has died, or cannot be told."""
        self.waiting.discard(child)


def changes(old: Told, new: Told) -> Changes:
    """Which experiments end with `old`."""
    before = old.shadow.experiments if old.shadow is not None else ()
    after = {one.name: one for one in (new.shadow.experiments if new.shadow is not None else ())}
    judged = {one.name: one for one in old.analysis.experiments}
    judged_now = {one.name: one for one in new.analysis.experiments}
    ending, anew = set[str](), list[str]()
    for one in before:
        other = after.get(one.name)
        arms = [(arm.name, arm.url) for arm in one.engines]
        compared_anew = (
            other is None
            or judged[one.name] != judged_now[one.name]
            or arms != [(arm.name, arm.url) for arm in other.engines]
            or one.fleet != other.fleet
        )
        if compared_anew or other != one:
            ending.add(one.name)
        if compared_anew:
            anew.append(one.name)
    same = {one.name for one in before} - ending
    return Changes(frozenset(ending), tuple(anew), frozenset(same))


def steps(old: Told, told: Told, body: Callable[[Spec], bytes]) -> list[Step]:
    """What to tell whom, in order.

    Production first, for it waits for nobody.  Experiments that end are sampled no more, then their copies
    come to an end and their books are told, and only then are their launched engines ended and others
    started; then the analysis begins anew, and after it the shadow.
    """
    workers = {name_of(worker): body(worker) for worker in told.workers}
    also: list[Step] = []
    if told.launch is not None and told.launch != old.launch:
        also.append({LAUNCH: body(told.launch)})
    if told.record is not None and old.record is not None and told.record != old.record:
        also.append({RECORDING: body(told.record)})
    if (old.shadow, old.analysis) == (told.shadow, told.analysis):
        return [workers, *also]
    found, shadow = changes(old, told), told.shadow
    fewer = [
        replace(worker, experiments=tuple(s for s in worker.experiments if s.experiment in found.same))
        for worker in told.workers
    ]
    planned: list[Step] = [{name_of(worker): body(worker) for worker in fewer}]
    if shadow is not None and found.ending:
        kept = tuple(one for one in shadow.experiments if one.name in found.same)
        planned.append({SHADOW: body(replace(shadow, experiments=kept))})
    planned += also
    planned.append({ANALYSIS: body(replace(told.analysis, anew=found.anew))})
    if shadow is not None:
        planned.append({SHADOW: body(replace(shadow, anew=found.anew))})
    planned.append(workers)
    return planned


def name_of(worker: WorkerSpec) -> str:
    """What the worker's process is called."""
    return f"worker-{worker.index}"
