"""A sweep's loads are what they say, and the largest that holds has all below it holding, too."""

import asyncio
import time
from itertools import count
from random import Random

import pytest

from workload.asks import Ask
from workload.reply import Reply
from workload.results import Slo, results
from workload.sweep import Lengths, Load, Point, largest, point, table


class Server:
    """Serves four at a time, 20 ms each; keeps how many were there at once."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(4)
        self.there = self.most = 0
        self.asked: list[Ask] = []

    async def send(self, ask: Ask, scheduled_s: float, _earlier: Reply | None) -> Reply:
        self.asked.append(ask)
        self.there += 1
        self.most = max(self.most, self.there)
        sent_s = time.monotonic()
        async with self.room:
            await asyncio.sleep(0.02)
        self.there -= 1
        now_s = time.monotonic()
        return Reply(scheduled_s, sent_s, now_s, 200, None, "x", (now_s,), now_s, 1, ask.prompt_tokens, 0)


def ran(kind: Load, load: float) -> tuple[Point, Server]:
    async def scene() -> tuple[Point, Server]:
        server = Server()
        made = await point(
            kind,
            load,
            Lengths(64, 8, shared=16),
            server.send,
            seconds=0.5,
            slo=Slo(ttft_ms=10_000),
            share=0.99,
            rng=Random(1),
            clock=time.monotonic,
            names=count(1),
        )
        return made, server

    return asyncio.run(scene())


@pytest.mark.parametrize("users", [1, 3])
def test_so_many_users_are_there_at_once_and_never_more(users: int) -> None:
    found, server = ran("concurrency", users)
    assert server.most == users and found.held and found.found.ok == len(server.asked) >= users


def test_a_depth_is_there_at_one_instant() -> None:
    found, server = ran("depth", 24)
    assert server.most == 24 and found.found.ok == 24


def test_a_rate_comes_whether_or_not_answers_do() -> None:
    found, server = ran("rate", 100)
    assert 25 <= len(server.asked) <= 80 and found.found.requests == len(server.asked)


def test_requests_of_a_sweep_share_their_beginning_and_nothing_else() -> None:
    _, server = ran("depth", 5)
    assert len({ask.id for ask in server.asked}) == 5
    assert all(ask.blocks == (1,) and ask.block_tokens == 16 for ask in server.asked)


def test_the_largest_load_is_the_last_before_the_first_that_broke() -> None:
    empty = results([], Slo())
    points = [Point(load, empty, held) for load, held in ((8, False), (1, True), (16, True), (4, True))]
    best = largest(points)
    assert best is not None and best.load == 4
    assert largest([Point(1, empty, False), Point(2, empty, True)]) is None
    assert "16" in table("rate", points)
