"""Launched engines that take turns: who is told what, and the GPUs that stay with their experiment."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from config.load import ConfigError, load
from gateway.launch.gpus import Gpu, NoRoom, Wanted
from gateway.launch.launched import Launched
from gateway.launch.places import Places
from gateway.launch.reading import Reading
from mirror.arms import Arm
from mirror.calling import Calling
from mirror.readiness import Readiness
from mirror.spec import ArmSpec, MirrorExperiment, SlotSpec
from tests.launch.test_launched import composed, told
from tests.launch.test_launched import config as launched_config

CONTROL = ArmSpec("control", "http://127.0.0.1:9", mark="a")
CANDIDATE = ArmSpec("c0", "http://127.0.0.1:9", mark="b")
SLOTS = SlotSpec(1.0, ready_s=0.5)


def heard(*ready: ArmSpec, **fares: tuple[str, str | None]) -> bytes:
    marks = {"control": "a", "c0": "b"}
    return json.dumps(
        {
            "ready": [["t", arm.name, arm.mark] for arm in ready],
            "forgone": [],
            "fares": [["t", name, marks[name], *fare] for name, fare in fares.items()],
            "losses": 0,
        }
    ).encode()


def brought(readiness: Readiness, then: bytes | None = None) -> tuple[str | None, list[str | None]]:
    """What comes of bringing the candidate, and whose turn was called; `then` is heard meanwhile."""
    called: list[str | None] = []

    async def run() -> str | None:
        loop = asyncio.get_running_loop()
        experiment = MirrorExperiment("t", None, (CONTROL, CANDIDATE), slots=SLOTS)
        arm = Arm(CANDIDATE, experiment, loop=loop, answer_bytes=1)

        def call(experiment: str, name: str | None) -> bool:
            called.append(name)
            return len(called) > 1  # the first time it cannot be taken

        if then is not None:
            loop.call_later(0.05, readiness.told, then)
        try:
            return await Calling("t", SLOTS, readiness, call).bring(arm)
        finally:
            arm.close()

    return asyncio.run(run()), called


def test_an_arm_stands_once_its_engine_is_ready_and_what_was_not_taken_is_said_again() -> None:
    assert brought(Readiness(), heard(CANDIDATE)) == (None, ["c0", "c0"])


def test_one_that_was_given_up_or_is_not_ready_in_time_does_not_stand_and_says_why() -> None:
    why, _ = brought(Readiness(), heard(c0=("failed", "it exited with status 2")))
    assert why == "given up: it exited with status 2"
    why, _ = brought(Readiness(), heard(CONTROL, c0=("waiting", "port 1 is in use by another program")))
    assert why == "not ready after 0.5 s: waiting, port 1 is in use by another program"
    assert brought(Readiness())[0] == "not ready after 0.5 s: not started"


def test_the_launching_process_hears_whose_turn_it_is_at_a_change_and_a_new_one_hears_it_anew() -> None:
    launched = Launched()
    assert launched.turns() is None
    launched.turn(b'["t", "control"]')
    assert json.loads(launched.turns() or b"") == {"t": "control"}
    launched.turned()
    launched.turn(b'["t", "control"]')
    assert launched.turns() is None
    launched.ended()
    assert json.loads(launched.turns() or b"") == {"t": "control"}
    launched.turned()
    launched.turn(b'["t", null]')
    assert json.loads(launched.turns() or b"") == {"t": None}


def test_where_arms_take_turns_the_shadow_hears_how_each_fares_and_none_is_ready_that_was_given_up() -> None:
    side_by_side = launched_config("a", "b")
    now = side_by_side.model_copy(
        update={"experiments": (side_by_side.experiments[0].model_copy(update={"mode": "switchback"}),)}
    )
    launched = Launched()
    launched.told(told(now, control="resting", c0="failed", c1="ready"), now)
    said = json.loads(launched.ready(composed(now, launched), settled=True) or b"")
    assert [arm for _, arm, _ in said["ready"]] == ["c1"]
    assert [(arm, state) for _, arm, _, state, _ in said["fares"]] == [
        ("control", "resting"),
        ("c0", "failed"),
        ("c1", "ready"),
    ]


class Machine:
    """GPUs as a test has them; none is read."""

    def __init__(self, *gpus: Gpu) -> None:
        self.gpus = gpus

    def look(self) -> tuple[Gpu, ...]:
        return self.gpus

    def read(self, uuids: Any) -> list[Reading]:
        return []

    def close(self) -> None:
        pass


def gpu(number: int, **more: Any) -> Gpu:
    return Gpu(number, f"turns-{number}", "H100", 0, 80 << 30, **more)


def test_the_next_arm_gets_the_gpu_of_the_one_before_and_meanwhile_nobody_does() -> None:
    there = Machine(gpu(0), gpu(1))

    async def run() -> None:
        places = Places(lambda: there)
        assert await places.take(("other", "control"), Wanted(1)) == (gpu(0),)
        assert await places.take(("t", "control"), Wanted(1)) == (gpu(1),)
        places.give_back(("other", "control"))
        places.give_back(("t", "control"), keep=True)
        assert isinstance(await places.take(("other", "c0"), Wanted(2)), NoRoom)
        there.gpus = gpu(0), gpu(1, processes=(7,))  # its engine is still going
        assert isinstance(await places.take(("t", "c0"), Wanted(1)), NoRoom)
        there.gpus = gpu(0), gpu(1)
        assert isinstance(await places.take(("other", "c0"), Wanted(2)), NoRoom)
        assert await places.take(("t", "c0"), Wanted(1)) == (gpu(1),)
        places.give_back(("t", "c0"), keep=True)
        places.give_up("t")
        assert await places.take(("other", "c0"), Wanted(2)) == (gpu(0), gpu(1))
        places.close()

    asyncio.run(run())


@pytest.mark.parametrize("gone", [(gpu(0),), (gpu(0), gpu(1, unusable="it fell off the bus"))])
def test_a_gpu_that_is_lost_between_turns_is_not_waited_for(gone: tuple[Gpu, ...]) -> None:
    there = Machine(gpu(0), gpu(1))

    async def run() -> None:
        places = Places(lambda: there)
        assert await places.take(("t", "control"), Wanted(1, ("1",))) == (gpu(1),)
        places.give_back(("t", "control"), keep=True)
        there.gpus = gone
        assert await places.take(("t", "c0"), Wanted(1)) == (gpu(0),)
        places.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("mode", "turns", "remedy"),
    [
        ("live", {}, "GPUs that nobody else has"),
        ("switchback", {}, None),
        ("switchback", {"switch": "/opt/stand.sh"}, "Shadowlane itself starts and ends"),
    ],
)
def test_arms_that_take_turns_may_have_the_same_gpu_and_need_no_command_of_the_operators(
    tmp_path: Path, mode: str, turns: dict[str, Any], remedy: str | None
) -> None:
    arm = {"launch": "serve {port}", "gpus": [0]}
    told = {"name": "t", "mode": mode, "turns": turns, "control": arm, "candidates": [{"name": "c", **arm}]}
    settings = {"fleets": [{"model": "m", "engines": ["http://e:1"]}], "experiments": [told]}
    if remedy is None:
        assert load(None, {}, settings).experiments[0].mode == mode
        return
    with pytest.raises(ConfigError) as refused:
        load(None, {}, settings)
    assert remedy in str(refused.value)
