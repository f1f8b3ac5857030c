"""What the supervisor knows of launched engines: what they are, which may have copies, how all fare.

Pure: what came in from the launching process, turned into what others are told.
"""

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import msgspec

from config.schema import Arm, Config
from gateway.launch.composed import PLAIN, mark
from gateway.launch.life import State
from gateway.launch.spec import LaunchTold, told_from_json
from gateway.processes.compose import Told
from mirror.spec import CONTROL, TWIN

_BOTH = (CONTROL, TWIN)  # without either the control is compared with nothing
_LOST = "the launching process was lost"


class Launched:
    """The last word on every launched engine."""

    def __init__(self) -> None:
        self._told = LaunchTold()
        self._kinds: dict[tuple[str, str, str], str] = {}
        self._said: bytes | None = None  # what the shadow process has heard of them
        self._saying: bytes = b""
        self._turns: dict[str, str | None] = {}  # whose turn it is, where engines take turns
        self._turned = True  # that it was told
        self._losses = 0  # how often the launching process died

    def told(self, body: bytes, config: Config) -> bool:
        """Take what the launching process says; whether an engine is of another kind than was known."""
        before = self.kinds(config)
        self._told = told_from_json(body)
        for one in self._told.engines:
            key = one.experiment, one.arm, one.mark
            if one.kind is not None:
                self._kinds[key] = one.kind
            elif one.state == State.READY:
                self._kinds.setdefault(key, PLAIN)  # it does not tell
        return self.kinds(config) != before

    def kinds(self, config: Config) -> dict[str, str]:
        """What the launched arms of this configuration are, by URL, as far as they were asked."""
        return {
            arm.engine: kind
            for experiment, name, arm in _arms(config)
            if (kind := self._kinds.get((experiment, name, mark(arm)))) is not None
        }

    def ready(self, told: Told, *, settled: bool) -> bytes | None:
        """What the shadow process is to hear now; None where that is what it has heard.

        An engine is ready for it when it is told of as what it is.  A candidate that was given up holds no
        other up: it fails its copies, without being asked, as long as there is another one and a control.  Of
        those that take turns it hears how each fares.  It hears how often the launching process died, for an
        engine that ends with it has not failed.  While specs are on their way (not `settled`) none becomes
        ready, for the shadow process may have the old ones; any may cease to be.
        """
        arms = {
            (one.name, arm.name): arm
            for one in (told.shadow.experiments if told.shadow is not None else ())
            for arm in one.engines
        }
        given_up = {(one.experiment, one.arm) for one in self._told.engines if one.state == State.FAILED}
        alive = {one for one, arm in arms if arm not in _BOTH and (one, arm) not in given_up}
        in_turn = {one.name for one in told.shadow.experiments if one.slots} if told.shadow else set()
        alive -= in_turn  # there no arm waits for another
        forgone = [
            [one.experiment, one.arm, one.mark]
            for one in self._told.engines
            if one.state == State.FAILED and one.arm not in _BOTH and one.experiment in alive
        ]
        ready = [
            [one.experiment, one.arm, one.mark]
            for one in self._told.engines
            if one.state == State.READY
            and (arm := arms.get((one.experiment, one.arm))) is not None
            and arm.mark == one.mark
            and arm.kind == self._kinds.get((one.experiment, one.arm, one.mark), arm.kind)
        ]
        if not settled:
            heard = [] if self._said is None else json.loads(self._said)["ready"]
            ready = [one for one in ready if one in heard]
        fares = [
            [one.experiment, one.arm, one.mark, one.state, one.why]
            for one in self._told.engines
            if one.experiment in in_turn
        ]
        said = {"ready": sorted(ready), "forgone": sorted(forgone), "fares": fares, "losses": self._losses}
        self._saying = json.dumps(said).encode()
        return None if self._saying == self._said else self._saying

    def heard(self) -> None:
        """The shadow process has what `ready` gave last."""
        self._said = self._saying

    def forgotten(self) -> None:
        """The shadow process is a new one."""
        self._said = None

    def turn(self, body: bytes) -> None:
        """Take what the shadow process says: of an experiment, whose turn it is; None: nobody's."""
        experiment, arm = json.loads(body)
        if self._turns.get(experiment, "") != arm:
            self._turns[experiment] = arm
            self._turned = False

    def turns(self) -> bytes | None:
        """What the launching process is to hear of turns; None where it has heard it."""
        return None if self._turned else json.dumps(self._turns).encode()

    def turned(self) -> None:
        """The launching process has what `turns` gave."""
        self._turned = True

    def ended(self) -> None:
        """The launching process is a new one."""
        self._turned = not self._turns

    def lost(self) -> None:
        """The launching process has died: its engines end with it, and none is ready."""
        self._losses += 1
        self._told = LaunchTold(
            tuple(
                replace(one, state=str(State.WAITING), why=_LOST, pid=None, gpus=())
                for one in self._told.engines
            ),
            self._told.hardware,
        )

    def shown(self) -> dict[str, Any]:
        """For the admin server."""
        shown: dict[str, Any] = msgspec.to_builtins(self._told)
        return shown


def _arms(config: Config) -> Iterator[tuple[str, str, Arm]]:
    for experiment in config.experiments:
        for name, _place, arm in experiment.arms:
            yield experiment.name, name, arm
