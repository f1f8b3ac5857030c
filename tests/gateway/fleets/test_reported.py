"""What engines say of their load in their metrics, as captured from them and as scripted."""

import asyncio
import json
from pathlib import Path

import pytest

from gateway.fleets.reported import NOTHING, Reported, reported, take_in
from gateway.spec import EngineSpec, FleetSpec, HealthSpec
from routing.types import EngineLoad
from tests.support import FINISH, TOKEN, Engine, ask, post, running, streams
from tests.support_shared import run

VLLM = b"""# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="m"} 3.0
vllm:num_requests_running{engine="1",model_name="m"} 4.0
vllm:num_requests_waiting{engine="0",model_name="m"} 1.0
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0
vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.5
vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.75
vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="0",num_gpu_blocks="1000"} 1.0
vllm:cache_config_info{block_size="32",cache_dtype="auto",engine="1",num_gpu_blocks="1000"} 1.0
"""
SGLANG = b"""sglang:num_running_reqs{model_name="m",pp_rank="0",tp_rank="0"} 5.0
sglang:num_running_reqs{model_name="m",pp_rank="0",tp_rank="1"} 5.0
sglang:num_queue_reqs{model_name="m",tp_rank="0"} 2.0
sglang:token_usage{model_name="m",tp_rank="0"} 0.25
sglang:max_total_num_tokens{model_name="m",tp_rank="0"} 8192.0
sglang:page_size{model_name="m",tp_rank="0"} 1.0
"""
LLAMACPP = b"llamacpp:requests_processing 2\nllamacpp:requests_deferred 7\n"
TRTLLM = b"""trtllm_num_requests_running{engine_type="x"} 6
trtllm_num_requests_waiting{engine_type="x"} 0
trtllm_kv_cache_utilization{engine_type="x"} 0.125
trtllm_kv_cache_tokens_per_block{engine_type="x"} 64
trtllm_kv_cache_max_blocks{engine_type="x"} 100
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (VLLM, Reported(7, 1, 0.625, 64_000, 32)),
        (SGLANG, Reported(5, 2, 0.25, 8192, 1)),
        (LLAMACPP, Reported(2, 7)),
        (TRTLLM, Reported(6, 0, 0.125, 6400, 64)),
        (b"vllm:gpu_cache_usage_perc 0.5\n", Reported(kv_usage=0.5)),
        (b"", NOTHING),
        (b"<html>404</html>", NOTHING),
        (b"vllm:num_requests_running -1\nvllm:num_requests_waiting 1e400\n", NOTHING),
    ],
)
def test_each_kind_is_read_in_its_own_words(text: bytes, said: Reported) -> None:
    assert reported(text) == said


def test_what_a_real_vllm_says() -> None:
    answers = json.loads((Path(__file__).parents[1] / "fixtures/answers_vllm.json").read_text())
    text = answers["/metrics"][1] if isinstance(answers["/metrics"], list) else answers["/metrics"]["body"]
    said = reported(text.encode())
    assert said.running == 0 and said.block_tokens


def test_sizes_that_are_none_are_not_believed() -> None:
    digits = b"9" * 5000  # more than Python makes an int of
    page = b'vllm:cache_config_info{block_size="%b",num_gpu_blocks="1"} 1.0\n' % digits
    assert reported(page) == NOTHING
    assert reported(b'vllm:cache_config_info{block_size="16"} 1.0\n') == NOTHING


def test_sizes_stay_known_and_what_is_no_longer_said_does_not() -> None:
    load = EngineLoad(0, 0, 0)
    load.context_bytes = 77
    take_in(load, reported(VLLM))
    assert (load.running, load.queued, load.kv_tokens, load.block_tokens) == (7, 1, 64_000, 32)
    assert load.reported_bytes == 77
    take_in(load, NOTHING)
    assert (load.running, load.queued, load.kv_usage) == (None, None, None)
    assert (load.kv_tokens, load.block_tokens) == (64_000, 32)


def test_an_engine_whose_cache_is_full_gets_less_once_it_has_said_so() -> None:
    async def test() -> None:
        engines = [Engine(streams(TOKEN, FINISH)) for _ in range(2)]
        for engine in engines:
            await engine.start()
        specs = tuple(EngineSpec(n, engine.url, kind="vllm") for n, engine in enumerate(engines))
        fleet = FleetSpec(None, (), True, specs, "prefix_cost", health=HealthSpec(probe_every_s=0.1))
        async with running(*engines, fleets=[fleet]) as gateway:
            n = 0

            async def asked() -> list[int]:
                nonlocal n
                n, before = n + 1, [len(engine.asked) for engine in engines]
                body = b'{"model":"m","stream":true,"prompt":"Question %d?"}' % n
                assert (await ask(gateway.port, post(body, "/v1/completions"))).is_whole
                return [len(engine.asked) - had for engine, had in zip(engines, before, strict=True)]

            for _ in range(40):  # enough to be learned from, a second later
                await asked()
            assert all(len(engine.asked) > 8 for engine in engines)
            engines[0].metrics = b"vllm:kv_cache_usage_perc 0.95\n"
            engines[1].metrics = b"vllm:kv_cache_usage_perc 0.1\n"
            in_a_row = 0
            async with asyncio.timeout(30):
                while in_a_row < 20:
                    in_a_row = in_a_row + 1 if await asked() == [0, 1] else 0
                    await asyncio.sleep(0.02)

    run(test())
