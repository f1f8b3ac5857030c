"""A whole gateway from its file: what metrics, log and status say of split requests, and what is copied."""

import asyncio
import json
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from emulator.server import Running, start
from tests.gateway.split.staging import ASKED, CHAT, FAST, asked
from tests.gateway.whole import Whole, begin, serving, with_engines
from tests.support import Engine, answers, ask, json_answer, post

ANSWER = (
    b'{"id":"d","choices":[{"message":{"content":"x"}}],"usage":{"prompt_tokens":3,"completion_tokens":1}}'
)


async def emulated(stack: AsyncExitStack, *ways: str) -> list[Running]:
    started = [await start(replace(FAST, handover=way)) for way in ways]
    for one in started:
        stack.push_async_callback(one.close)
    return started


def fleet(engines: list[Running], kind: str, *roles: str) -> dict[str, Any]:
    listed = [
        {"url": one.url, "role": role, "kind": kind, "bootstrap_port": one.port}
        for one, role in zip(engines, roles, strict=True)
    ]
    return {"model": "emulated", "engines": listed}


async def lines(whole: Whole, count: int) -> list[dict[str, Any]]:
    """The access log's lines, once there are as many."""
    async with asyncio.timeout(20):
        while True:
            found = [json.loads(line) for line in whole.log.splitlines() if '"event":"request"' in line]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.05)


async def metric(whole: Whole, name: str) -> float:
    async with asyncio.timeout(20):
        while True:
            try:
                return await whole.metric(name)
            except RuntimeError:  # not exported yet: what a generator's end becomes in a coroutine
                await asyncio.sleep(0.1)


@pytest.mark.parametrize("style", ["vllm", "sglang"])
def test_both_legs_are_in_the_log_and_in_the_metrics_and_ttft_holds_both(style: str, tmp_path: Path) -> None:
    ways = ("vllm", "vllm") if style == "vllm" else ("sglang-prefill", "sglang-decode")

    async def test(stack: AsyncExitStack) -> None:
        p, d = await emulated(stack, *ways)
        settings = {
            "fleets": [fleet([p, d], style, "prefill", "decode")],
            "log": {"format": "json", "access": 1.0},
        }
        whole = await stack.enter_async_context(serving(tmp_path, settings))
        body = json.dumps({**ASKED[CHAT], "stream": True, "stream_options": {"include_usage": True}}).encode()
        for _ in range(2):
            assert (await ask(whole.port, post(body, CHAT))).status == 200
        first, second = await lines(whole, 2)
        for line in (first, second):
            assert (line["outcome"], line["engine"], line["prefill_engine"]) == ("complete", d.url, p.url)
            assert line["cached_tokens"] == line["prompt_tokens"] - 1
            assert line["prefill_chosen_ms"] <= line["chosen_ms"] or style == "sglang"
            if style == "vllm":
                assert (
                    line["prefill_sent_ms"] <= line["prefill_end_ms"] <= line["sent_ms"] <= line["token_ms"]
                )
        assert (first["prefill_cached_bytes"], second["prefill_uncached_bytes"]) == (0, 0)
        assert second["prefill_cached_bytes"] == first["prefill_uncached_bytes"] > 1000
        for leg in ("prefill", "decode"):
            labels = f'{{fleet="emulated",leg="{leg}",reason="complete"}}'
            assert await metric(whole, f"shadowlane_split_legs_total{labels}") == 2
        ttft_s = await metric(whole, 'shadowlane_ttft_seconds_sum{fleet="emulated"}')
        assert ttft_s * 1e3 == pytest.approx(first["token_ms"] + second["token_ms"], abs=0.1)
        if style == "vllm":
            overhead_s = await metric(whole, 'shadowlane_overhead_seconds_sum{fleet="emulated"}')
            legs_ms = sum(one["prefill_end_ms"] - one["prefill_chosen_ms"] for one in (first, second))
            chosen_ms = sum(one["chosen_ms"] for one in (first, second))
            assert overhead_s * 1e3 == pytest.approx(chosen_ms - legs_ms, abs=0.1)
        status = await whole.status()
        told = [one for process in status["processes"] for one in process.get("engines", ())]
        assert sorted((one["url"], one["role"]) for one in told) == sorted(
            [(p.url, "prefill"), (d.url, "decode")]
        )

    with_engines(test)


def test_the_way_is_found_by_what_engines_are_and_a_short_prompt_is_counted_as_whole(
    tmp_path: Path,
) -> None:
    async def test(stack: AsyncExitStack) -> None:
        p, d = await emulated(stack, "vllm", "vllm")
        one = fleet([p, d], "auto", "prefill", "decode")
        settings = {
            "fleets": [{**one, "split": {"min_bytes": 500}}],
            "log": {"format": "json", "access": 1.0},
        }
        whole = await stack.enter_async_context(serving(tmp_path, settings))
        short = {"model": "emulated", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 3}
        for body in (short, ASKED[CHAT]):
            assert (await ask(whole.port, post(json.dumps(body).encode(), CHAT))).status == 200
        first, second = await lines(whole, 2)
        assert (first["engine"], "prefill_engine" in first) == (d.url, False)
        assert (second["engine"], second["prefill_engine"]) == (d.url, p.url)
        labels = '{fleet="emulated",reason="short"}'
        assert await metric(whole, f"shadowlane_split_whole_total{labels}") == 1

    with_engines(test)


def copies(arm: Engine) -> list[dict[str, Any]]:
    return [asked(peer) for peer in arm.asked if peer.line.startswith(f"POST {CHAT}")]


def test_copies_are_of_what_the_client_sent_and_one_is_made_of_two_legs(tmp_path: Path) -> None:
    def body(number: int) -> bytes:
        """A conversation of its own: one that was not copied from its beginning never is."""
        return b'{"model": "m", "messages":[{"role":"user","content":"hi %d"}], "max_tokens":9}' % number

    async def test(stack: AsyncExitStack) -> None:
        said = {"do_remote_prefill": True, "remote_block_ids": [1]}
        p = Engine(answers(json_answer(json.dumps({"kv_transfer_params": said}).encode())))
        d, control, candidate = (Engine(answers(json_answer(ANSWER))) for _ in range(3))
        await begin(stack, p, d, control, candidate)
        settings = {
            "fleets": [
                {
                    "model": "m",
                    "engines": [
                        {"url": p.url, "role": "prefill", "kind": "vllm"},
                        {"url": d.url, "role": "decode", "kind": "vllm"},
                    ],
                }
            ],
            "experiments": [
                {
                    "name": "x",
                    "sample": {"rate": 1.0},
                    "control": {"engine": control.url},
                    "candidates": [{"name": "c", "engine": candidate.url}],
                }
            ],
        }
        whole = await stack.enter_async_context(serving(tmp_path, settings))
        requests = 0
        async with asyncio.timeout(60):
            while not (copies(control) and copies(candidate)):
                assert (await ask(whole.port, post(body(requests), CHAT))).status == 200
                requests += 1
                await asyncio.sleep(0.1)
        for arm in (control, candidate):
            for sent in copies(arm):
                (message,) = sent["messages"]
                assert message["content"] in [f"hi {number}" for number in range(requests)]
                assert sent["max_tokens"] == 9
                assert not sent.keys() & {"kv_transfer_params", "bootstrap_room"}
        assert 1 <= await metric(whole, 'shadowlane_mirrored_total{experiment="x"}') <= requests

    with_engines(test)
