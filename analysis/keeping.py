"""How are the texts of all experiments kept, looked after and forgotten?"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

from analysis.course import Course
from analysis.scrubbing import Scrubbing
from analysis.texts import Scrubbed

T = TypeVar("T")


class Run(Protocol):
    """Has work done on the thread on which experiments move."""

    def __call__(self, work: Callable[[], T], /) -> Awaitable[T]:
        """What the work gave."""


class Keeping:
    """The texts of the experiments that there are.

    `later(course, write)` makes what any thread may call of what is to be called on the experiments' thread;
    `run` has work done there; `notice(event, **values)` is the log.  Without `scrubbing` no text is kept that
    is to go through a command.
    """

    def __init__(
        self,
        scrubbing: Scrubbing | None,
        later: Callable[[Course, Scrubbed], Scrubbed],
        run: Run,
        notice: Callable[..., Any],
    ) -> None:
        self._scrubbing = scrubbing
        self._later = later
        self._run = run
        self._notice = notice
        self._courses: Mapping[str, Course] = {}
        self._stuck: dict[str, str | None] = {}

    @property
    def lost(self) -> int:
        """Texts that could not be kept."""
        scrubbed = 0 if self._scrubbing is None else self._scrubbing.lost.total()
        return scrubbed + sum(course.texts.lost for course in self._courses.values())

    def renew(self, courses: Mapping[str, Course]) -> None:
        """These there are from now on: their commands run, and no others.  To be called on the loop."""
        self._courses = courses
        if self._scrubbing is not None:
            self._scrubbing.keep({one.texts.spec.redact_command for one in courses.values()} - {()})
            for course in courses.values():
                course.texts.scrub = partial(self._scrub, self._scrubbing, course)

    def _scrub(
        self,
        scrubbing: Scrubbing,
        course: Course,
        command: tuple[str, ...],
        texts: Sequence[str],
        write: Scrubbed,
    ) -> None:
        scrubbing.offer(command, texts, self._later(course, write))

    async def look(self) -> None:
        """Delete what is older than it may get; say it once where that cannot be done."""
        courses = self._courses

        def looked() -> dict[str, str | None]:
            for course in courses.values():
                course.texts.look()
            return {name: course.texts.stuck for name, course in courses.items()}

        before, self._stuck = self._stuck, await self._run(looked)
        for name, why in self._stuck.items():
            if why is not None and before.get(name) != why:
                self._notice("texts_not_forgotten", experiment=name, error=why)

    async def forget(self, names: Sequence[str], requests: Sequence[str]) -> dict[str, int] | None:
        """Take what was said to these requests out of the texts that are kept, and keep none that comes yet.

        Of all experiments, where none is named; of how many pairs it was, by experiment, or None where there
        is no such one.  Raises OSError.
        """
        if not set(names) <= self._courses.keys():
            return None
        courses = {name: self._courses[name] for name in names or self._courses}
        found = await self._run(lambda: {n: one.texts.forget(requests) for n, one in courses.items()})
        self._notice("texts_forgotten", requests=len(requests), pairs=sum(found.values()))
        return found
