"""KV from one emulated engine to another: what is fetched is the prompt's, and nothing is kept for ever."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from emulator.params import EngineParams
from tests.emulator.support import FAST, Client, engine, until

CHAT = "/v1/chat/completions"
PROMPT = "Tell me of " + "the lighthouse and the sea " * 40
ASKED = {"messages": [{"role": "user", "content": PROMPT}], "max_tokens": 12}
KEEP = {"do_remote_decode": True, "do_remote_prefill": False}


def with_two(use: Callable[[Client, Client], Awaitable[None]], *params: EngineParams) -> None:
    async def run() -> None:
        async with AsyncExitStack() as stack:
            pair = [await stack.enter_async_context(engine(one)) for one in params]
            await asyncio.wait_for(use(*pair), 30)

    uvloop.run(run())


VLLM = replace(FAST, handover="vllm")


def free(client: Client) -> int:
    return client.running.engine.scheduler.cache.free_blocks


def text(answer: Any) -> str:
    return str(answer["choices"][0]["message"]["content"])


def cached(answer: Any) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def test_what_one_engine_computed_the_other_continues() -> None:
    async def use(p: Client, d: Client) -> None:
        before = free(p)
        _, alone = await d.post(CHAT, ASKED)
        await d.post("/reset_prefix_cache", {})
        status, first = await p.post(CHAT, {**ASKED, "max_tokens": 1, "kv_transfer_params": KEEP})
        assert status == 200
        assert free(p) < before
        status, second = await d.post(CHAT, {**ASKED, "kv_transfer_params": first["kv_transfer_params"]})
        assert status == 200
        assert text(second) == text(alone)
        assert cached(alone) == 0
        assert cached(second) == second["usage"]["prompt_tokens"] - 1  # the last is always computed
        assert free(p) == before

    with_two(use, VLLM, VLLM)


@pytest.mark.parametrize(
    "wrong", [{"remote_engine_id": "another"}, {"remote_request_id": "x"}, {"remote_block_ids": [7]}]
)
def test_kv_that_is_not_there_is_an_error(wrong: dict[str, Any]) -> None:
    async def use(p: Client, d: Client) -> None:
        _, first = await p.post(CHAT, {**ASKED, "max_tokens": 1, "kv_transfer_params": KEEP})
        params = {**first["kv_transfer_params"], **wrong}
        assert (await d.post(CHAT, {**ASKED, "kv_transfer_params": params}))[0] == 500

    with_two(use, VLLM, VLLM)


def test_the_kv_of_another_prompt_is_an_error_and_so_is_what_was_fetched_already() -> None:
    async def use(p: Client, d: Client) -> None:
        _, first = await p.post(CHAT, {**ASKED, "max_tokens": 1, "kv_transfer_params": KEEP})
        params = {"kv_transfer_params": first["kv_transfer_params"]}
        other = {**ASKED, "messages": [{"role": "user", "content": "Another."}]}
        assert (await d.post(CHAT, {**other, **params}))[0] == 500
        assert (await d.post(CHAT, {**ASKED, **params}))[0] == 200
        assert (await d.post(CHAT, {**ASKED, **params}))[0] == 500

    with_two(use, VLLM, VLLM)


def test_what_nobody_fetches_is_given_up() -> None:
    async def use(p: Client, d: Client) -> None:
        before = free(p)
        await p.post(CHAT, {**ASKED, "max_tokens": 1, "kv_transfer_params": KEEP})
        await until(lambda: free(p) == before)

    with_two(use, replace(VLLM, handover_wait_s=0.05), VLLM)


def test_two_legs_meet_in_a_room_whichever_comes_first() -> None:
    async def use(p: Client, d: Client) -> None:
        before = free(p)
        for room, order in enumerate([(p, d), (d, p)]):
            asked = {
                **ASKED, "bootstrap_host": "127.0.0.1", "bootstrap_port": p.running.port,
                "bootstrap_room": room,
            }  # fmt: skip
            tasks = []
            for one in order:
                tasks.append(asyncio.ensure_future(one.post(CHAT, asked)))  # noqa: TID251
                await asyncio.sleep(0.02)
            answers = dict(zip(order, await asyncio.gather(*tasks), strict=True))
            assert [status for status, _ in answers.values()] == [200, 200]
            assert answers[p][1]["usage"]["completion_tokens"] == 1
            assert cached(answers[d][1]) == answers[d][1]["usage"]["prompt_tokens"] - 1
            assert free(p) == before

    with_two(use, replace(FAST, handover="sglang-prefill"), replace(FAST, handover="sglang-decode"))


def test_without_a_room_neither_half_answers() -> None:
    async def use(p: Client, d: Client) -> None:
        assert [(await one.post(CHAT, ASKED))[0] for one in (p, d)] == [400, 400]

    with_two(use, replace(FAST, handover="sglang-prefill"), replace(FAST, handover="sglang-decode"))
