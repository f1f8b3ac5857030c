"""A candidate whose engine was given up fails its copies without being asked, and holds nobody up."""

from time import monotonic_ns
from typing import Any

import pytest

from mirror.brakes import ArmBrake
from mirror.readiness import NOT_READY
from mirror.spec import ArmSpec
from tests.mirror.scripted import engine, tokens
from tests.mirror.staging import experiment, play, until
from tests.mirror.test_pause import comparison, copy


@pytest.mark.parametrize("lacking", [[], ["c1"]])
def test_one_that_was_given_up_is_not_asked_and_fails_each_copy_and_trips_no_brake(
    lacking: list[str],
) -> None:
    """What listens at its address may be anybody: here it is an engine that would answer."""

    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as c1, engine(tokens) as another:
            arms = ArmSpec("control", control.url), ArmSpec("c1", c1.url), ArmSpec("c2", another.url)
            told, pairs = experiment(*arms), list[dict[str, Any]]()
            one = comparison(told, pairs, forgone=lambda: ["c2"], lacking=lambda: lacking)
            brake = ArmBrake(told.brakes)
            brake.look(0, {})
            for number in range(told.brakes.least):
                one.take(copy(f"copy {number}", number))
                await until(lambda: not one.joiner.inflight)
            one.joiner.expire(monotonic_ns() + 10**12)  # production's answer is not waited for
            dropped = {} if not lacking else {NOT_READY: told.brakes.least}
            assert {why: n for why, n in one.books()["dropped"].items() if n} == dropped
            endings = {(answer["arm"], answer["ending"]) for pair in pairs for answer in pair["answers"]}
            assert endings == (
                set() if lacking else {("control", "complete"), ("c1", "complete"), ("c2", NOT_READY)}
            )
            assert not another.requests
            totals = {arm.spec.name: (arm.answers, arm.failures) for arm in one.engines}
            assert brake.look(monotonic_ns(), totals) is None
            one.close()

    play(run)
