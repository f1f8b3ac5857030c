"""All users share a long prompt: one engine queues, others idle; or one busy one stops all prefix routing.

How the policy decides is tested, on simulated engines, in `tests/routing/test_hot_prefix.py`; here a whole
gateway decides, and engines over sockets count what they get.
"""

import asyncio
import json
from collections import Counter
from dataclasses import dataclass, field

from tests.failures.support import at_once
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Engine,
    Gateway,
    Peer,
    ask,
    event,
    post,
    running,
    until,
)
from tests.support_shared import run

BEGINNING_BYTES = 32_000  # 8,000 tokens


def question(beginning: int, n: int) -> bytes:
    rules = f"These are the rules of house {beginning}. ".ljust(BEGINNING_BYTES, ".")
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": f"Question {n}?"}]
    return post(json.dumps({"model": "m", "stream": True, "messages": messages}).encode())


@dataclass
class Fleet:
    """Four engines that hold every answer until told to go on, and what they were asked by beginning."""

    go_on: asyncio.Event = field(default_factory=asyncio.Event)
    engines: list[Engine] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.engines = [Engine(self.serve) for _ in range(4)]

    async def serve(self, peer: Peer) -> None:
        await peer.send(SSE_HEAD, event(TOKEN))
        await self.go_on.wait()
        await peer.send(event(FINISH), LAST)

    @property
    def shares(self) -> list[int]:
        return [len(engine.asked) for engine in self.engines]

    def holders(self) -> dict[str, set[int]]:
        """Which engines had to compute each beginning."""
        found: dict[str, set[int]] = {}
        for n, engine in enumerate(self.engines):
            for peer in engine.asked:
                found.setdefault(json.loads(peer.body)["messages"][0]["content"][:40], set()).add(n)
        return found

    async def asked(self, gateway: Gateway, requests: list[bytes]) -> None:
        """All of them at once; they are let go when the last has come to an engine."""
        before = sum(self.shares)
        asking = asyncio.get_running_loop().create_task(
            at_once((ask(gateway.port, one) for one in requests), 1_000)
        )
        await until(lambda: sum(self.shares) == before + len(requests), 30)
        self.go_on.set()
        assert {got.status for got in await asking} == {200}


def over_mean(shares: list[int]) -> float:
    return max(shares) / (sum(shares) / len(shares))


def test_h28_hot_prefix_of_a_burst_spreads_over_the_engines() -> None:
    async def test() -> None:
        fleet = Fleet()
        async with running(*fleet.engines, policy="prefix_cost") as gateway:
            await fleet.asked(gateway, [question(0, n) for n in range(200)])
            assert all(gateway.loads.totals(n) == (0, 0, 0, 0) for n in range(4))
        assert over_mean(fleet.shares) < 1.5, fleet.shares

    run(test())


def test_h28_hot_prefix_and_a_busy_engine_do_not_stop_the_affinity_of_others() -> None:
    """Twenty beginnings, one engine full with work from elsewhere: each beginning is computed seldom."""

    async def test() -> None:
        fleet = Fleet()
        async with running(*fleet.engines, policy="prefix_cost") as gateway:
            row = gateway.loads.row(0)
            row.add(0, 60, 0)  # what another worker has sent it
            for turn in range(10):  # so that later turns find what earlier ones left
                fleet.go_on.clear()
                await fleet.asked(gateway, [question(n, turn) for n in range(20)])
            row.add(0, -60, 0)
        shares = fleet.shares
        assert over_mean([shares[0] + 60, *shares[1:]]) < 1.5, shares
        computed = Counter(len(engines) for engines in fleet.holders().values())
        assert sum(n * times for n, times in computed.items()) <= 40, computed  # of 200 with none cached

    run(test())


def test_h28_hot_prefix_alone_and_one_after_the_other_stays_where_it_is_held() -> None:
    """No load, no reason to compute it again: the other side of spreading."""

    async def test() -> None:
        fleet = Fleet()
        fleet.go_on.set()
        async with running(*fleet.engines, policy="prefix_cost") as gateway:
            for n in range(40):
                assert (await ask(gateway.port, question(0, n))).status == 200
        assert sorted(fleet.shares) == [0, 0, 0, 40]

    run(test())
