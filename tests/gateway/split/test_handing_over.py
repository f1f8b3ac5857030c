"""Split requests over real sockets and emulated engines: KV is handed over, and the answer is the same."""

import json
from typing import Any

import pytest

from emulator.server import start
from gateway.spec import EngineSpec, FleetSpec
from routing.rates import ENOUGH
from tests.gateway.split.staging import ASKED, CHAT, COMPLETIONS, FAST, emulated, idle, run
from tests.support import Answered, ask, post, running, until

STYLES = ("vllm", "sglang")


def payloads(answer: Answered) -> list[Any]:
    lines = answer.text.decode().splitlines()
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def text(answer: Answered, *, stream: bool) -> str:
    parts = payloads(answer) if stream else [json.loads(answer.text)]
    choices = [choice for part in parts for choice in part["choices"]]
    return "".join(
        one.get("text") or (one.get("delta") or one.get("message") or {}).get("content") or ""
        for one in choices
    )


def usage(answer: Answered, *, stream: bool) -> dict[str, Any]:
    found: dict[str, Any] = (payloads(answer)[-1] if stream else json.loads(answer.text))["usage"]
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", [CHAT, COMPLETIONS])
@pytest.mark.parametrize("style", STYLES)
def test_one_engine_computes_the_prompt_and_another_answers_as_one_alone_would(
    style: str, path: str, stream: bool
) -> None:
    body = {**ASKED[path], "stream": stream}
    if stream:
        body["stream_options"] = {"include_usage": True}

    async def test() -> None:
        alone = await start(FAST)
        spec = FleetSpec(None, (), True, (EngineSpec(0, alone.url, kind="vllm"),))
        async with running(fleets=(spec,)) as gateway:
            wanted = await ask(gateway.port, post(json.dumps(body).encode(), path))
        await alone.close()
        async with emulated(style) as stage:
            got = await stage.ask(path, body)
            assert (got.status, got.is_whole) == (200, True)
            assert text(got, stream=stream) == text(wanted, stream=stream) != ""
            told = usage(got, stream=stream)
            assert told["prompt_tokens_details"]["cached_tokens"] == told["prompt_tokens"] - 1
            assert usage(wanted, stream=stream)["prompt_tokens_details"]["cached_tokens"] == 0
            p, d = stage.prefill[0].engine, stage.decode[0].engine
            assert p.metrics.prompt_tokens == d.metrics.prompt_tokens == told["prompt_tokens"]
            assert p.metrics.prompt_tokens_cached == 0
            assert (p.metrics.generation_tokens, d.metrics.generation_tokens) == (
                1,
                told["completion_tokens"],
            )
            await until(lambda: stage.stranded() == 0)
            await idle(stage.gateway)

    run(test)


def test_those_who_prefill_are_learned_from_and_what_was_handed_over_is_not() -> None:
    body = {**ASKED[CHAT], "stream": True, "stream_options": {"include_usage": True}}

    async def test() -> None:
        async with emulated() as stage:
            rates = stage.gateway.loads.rates
            for number in range(ENOUGH + 4):
                messages = [{"role": "user", "content": f"{number} " * 50 * (number + 1)}]
                assert (await stage.ask(CHAT, {**body, "messages": messages})).status == 200
            await until(lambda: rates.read(0, 0.0) is not None)
            assert rates.read(1, 0.0) is None

    run(test)
