"""What is done once a second goes on whatever fails in it."""

import asyncio
from contextlib import suppress

import uvloop

from gateway.processes.beat import beat


def test_a_step_that_fails_is_told_and_taken_again_and_the_others_are_too() -> None:
    taken: list[str] = []
    failed: list[tuple[str, str]] = []

    def bad(_now_ns: int) -> None:
        taken.append("bad")
        raise KeyError("x")

    async def test() -> None:
        steps = {"first": lambda _: taken.append("first"), "bad": bad, "last": lambda _: taken.append("last")}
        going = asyncio.get_running_loop().create_task(
            beat(steps, lambda name, e: failed.append((name, str(e))), every_s=0.001)
        )
        async with asyncio.timeout(30):
            while len(taken) < 30:
                await asyncio.sleep(0.001)
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going

    uvloop.run(test())
    assert taken[:6] == ["first", "bad", "last"] * 2
    assert failed == [("bad", "'x'")] * taken.count("bad")
