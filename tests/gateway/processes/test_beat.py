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


def test_between_two_steps_what_else_is_due_has_its_turn() -> None:
    order: list[str] = []

    async def test() -> None:
        loop = asyncio.get_running_loop()

        def first(_now_ns: int) -> None:
            order.append("first")
            loop.call_soon(order.append, "a request")

        steps = {"first": first, "last": lambda _: order.append("last")}
        going = loop.create_task(beat(steps, lambda _name, _e: None, every_s=0.001))
        async with asyncio.timeout(30):
            while "last" not in order:
                await asyncio.sleep(0.001)
        going.cancel()
        with suppress(asyncio.CancelledError):
            await going

    uvloop.run(test())
    assert order[:3] == ["first", "a request", "last"]
