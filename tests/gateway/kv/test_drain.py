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

    def say(self, *data: dict[str, Any]) -> None:
        for one in data:
            self.waiting.append({"event_id": self.number, "data": one})
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
