"""TensorRT-LLM's events are read by one, and told by it to others."""

import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from aiohttp import web

from routing.events.board import State
from tests.gateway.kv.staging import engine, feeding, neighbours, run, until
from tests.routing.events.test_trtllm import CREATED, block, chain


class TrtLlm:
    """An engine that keeps its events until somebody takes them away."""

    def __init__(self) -> None:
        self.number = 0
        self.waiting: list[dict[str, Any]] = []
        self.status = 200
        self.url = ""

    def say(self, *data: dict[str, Any], **more: Any) -> None:
        for one in data:
            self.waiting.append({"event_id": self.number, "data": one, **more})
            self.number += 1

    async def answer(self, _request: web.BaseRequest) -> web.Response:
        if self.status != 200:
            return web.Response(status=self.status)
        said, self.waiting = self.waiting, []
        return web.Response(body=json.dumps(said).encode(), content_type="application/json")


async def started(stack: AsyncExitStack) -> TrtLlm:
    one = TrtLlm()
    runner = web.ServerRunner(web.Server(one.answer))
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    one.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    return one


TOKENS = [*range(16)]


def test_one_reads_and_others_hear_it_from_there(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine_ = await started(stack)
        engine_.say(CREATED, chain(None, block(1, range(16))))
        port = neighbours()
        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        second.mkdir()
        reads = engine(engine_.url, kind="trtllm", drain=True, publish_drained=f"tcp://127.0.0.1:{port}")
        hears = engine(
            engine_.url,
            kind="trtllm",
            publish="tcp://{host}:" + str(port),
            replay="tcp://{host}:" + str(port + 1),
        )
        async with feeding(first, reads) as one:
            await until(lambda: one.match(TOKENS) == {0: 1})
            async with feeding(second, hears) as two:
                await two.exact()
                assert two.match(TOKENS) == {0: 1}  # what was read before it came
                engine_.say({"type": "removed", "block_hashes": [1]})
                await until(lambda: one.match(TOKENS) == two.match(TOKENS) == {0: 0})
            engine_.number += 5  # a buffer that was full has dropped some
            engine_.say(chain(None, block(7, range(16))))
            await until(lambda: one.state() is State.DEGRADED)
            assert one.match(TOKENS) == {}

    run(test)


def test_each_rank_and_each_engine_of_a_fleet_is_told_again_on_ports_of_its_own(tmp_path: Path) -> None:
    """Two engines of two ranks: eight ports in a row, two to publish and two to replay for each engine."""

    async def test(stack: AsyncExitStack) -> None:
        engines = [await started(stack), await started(stack)]
        port = neighbours(8)
        first, second = tmp_path / "first", tmp_path / "second"
        first.mkdir()
        second.mkdir()
        reads, hears = [], []
        for n, one in enumerate(engines):
            for rank, words in ((0, 2), (1, 1)):  # what one rank alone holds is half of it in the mean
                one.number = 0
                blocks = [block(own, range(16 * own - 16, 16 * own)) for own in range(1, words + 1 + n)]
                one.say(CREATED, chain(None, *blocks), attention_dp_rank=rank)
            again = f"tcp://127.0.0.1:{port}"
            reads.append(engine(one.url, n, "trtllm", drain=True, publish_drained=again, ranks=2))
            at = {
                "publish": f"tcp://127.0.0.1:{port + 4 * n}",
                "replay": f"tcp://127.0.0.1:{port + 4 * n + 2}",
            }
            hears.append(engine(one.url, n, "trtllm", ranks=2, **at))
        tokens = [*range(64)]
        async with feeding(first, *reads) as there:
            await until(lambda: there.match(tokens) == {0: 1, 1: 2})
            async with feeding(second, *hears) as here:
                await until(lambda: here.match(tokens) == {0: 1, 1: 2})
                for rank in (0, 1):
                    assert there.heard(1, rank) is not None and here.state(1, rank) is State.EXACT

    run(test)


def test_an_engine_that_answers_otherwise_is_said_to_and_is_read_when_it_does(tmp_path: Path) -> None:
    async def test(stack: AsyncExitStack) -> None:
        engine_ = await started(stack)
        engine_.status = 404
        async with feeding(tmp_path, engine(engine_.url, kind="trtllm", drain=True)) as fed:
            await until(lambda: "/kv_cache_events is answered with 404" in str(fed.feed.status()))
            assert fed.match(TOKENS) == {}
            engine_.say(CREATED, chain(None, block(1, range(16))))
            engine_.status = 200
            await until(lambda: fed.match(TOKENS) == {0: 1}, 20)
            assert fed.feed.status()["engines"][0]["error"] is None

    run(test)
