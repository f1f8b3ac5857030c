"""How the engine goes wrong when told to, and that it goes on when clients do wrong."""

import asyncio
import json
from dataclasses import replace
from random import Random

import pytest
from aiohttp import ClientPayloadError, ServerDisconnectedError
from hypothesis import given, settings
from hypothesis import strategies as st

from emulator.asks import Reader
from emulator.openai_api import CHAT, COMPLETIONS, MESSAGES, RESPONSES, Api
from emulator.refusals import Refusal
from emulator.text import Tokenizer
from tests.connections import end_by_reset
from tests.emulator.support import FAST, Client, generator, payloads_of, until, with_engine
from tests.emulator.support import MESSAGES as HELLO

CHAT_PATH = "/v1/chat/completions"
SLOW = replace(FAST, speed=1.0)


@pytest.mark.parametrize(
    ("faults", "check"),
    [
        ({"error_rate": 1.0}, "error"),
        ({"refuse_rate": 1.0}, "refuse"),
        ({"cut_rate": 1.0}, "cut"),
        ({"hang_rate": 1.0}, "hang"),
        ({"start_delay_s": 100.0}, "start"),
    ],
)
def test_each_fault_shows_as_it_should(faults: dict[str, float], check: str) -> None:
    async def use(client: Client) -> None:
        body = {"messages": HELLO, "max_tokens": 30, "ignore_eos": True}
        if check == "start":
            assert (await client.get("/health"))[0] == 503
        elif check == "hang":
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(client.post(CHAT_PATH, body), 0.1)
        elif check == "cut":
            with pytest.raises(ClientPayloadError):
                await client.stream(CHAT_PATH, body)
            with pytest.raises(ServerDisconnectedError):
                await client.post(CHAT_PATH, body)
        else:
            code = 500 if check == "error" else 503
            assert (await client.post(CHAT_PATH, body))[0] == code
            payloads = await client.chunks(CHAT_PATH, body)
            assert payloads[-1]["error"]["code"] == code
        await until(lambda: not client.running.engine.scheduler.has_work)

    with_engine(use, replace(FAST, **faults))  # type: ignore[arg-type]


def test_a_dying_engine_says_so_in_the_streams_under_way() -> None:
    async def use(client: Client) -> None:
        body = {"messages": HELLO, "max_tokens": 5000, "ignore_eos": True}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.stream(CHAT_PATH, body))
            await until(lambda: client.running.engine.scheduler.running == 1)
            client.running.engine.fail_all()
        assert payloads_of(asking.result())[-2]["error"]["code"] == 500

    with_engine(use, SLOW)


def test_clients_that_reset_their_connections_do_not_stop_the_engine() -> None:
    async def use(client: Client) -> None:
        host, port = client.url.removeprefix("http://").split(":")
        body = json.dumps(
            {"messages": HELLO, "max_tokens": 3000, "ignore_eos": True, "stream": True}
        ).encode()
        request = b"POST %b HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n%b" % (
            CHAT_PATH.encode(),
            len(body),
            body,
        )
        rng = Random(0)

        async def rude() -> None:
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(request)
            await reader.readexactly(rng.randrange(1, 4000))
            end_by_reset(writer)

        for _ in range(10):
            await asyncio.gather(*(rude() for _ in range(20)))
        scheduler = client.running.engine.scheduler
        await until(lambda: not scheduler.has_work)
        assert scheduler.cache.usage == 0
        assert (await client.post(CHAT_PATH, {"messages": HELLO, "max_tokens": 3}))[0] == 200

    with_engine(use, replace(FAST, max_num_seqs=256, max_num_batched_tokens=8192))


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 10**20) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
FIELDS = (
    *("messages", "prompt", "input", "system", "max_tokens", "max_output_tokens", "temperature", "n", "stop"),
    *("seed", "tools", "tool_choice", "min_tokens", "logprobs", "top_logprobs", "stream_options", "model"),
    *("response_format", "cache_salt", "echo"),
)


@settings(max_examples=300, deadline=None)
@given(
    st.sampled_from([CHAT, COMPLETIONS, MESSAGES, RESPONSES]), st.dictionaries(st.sampled_from(FIELDS), JSON)
)
def test_any_body_is_answered_or_refused(api: Api, wild: dict[str, object]) -> None:
    tokenizer = Tokenizer()
    body = {"messages": HELLO, "prompt": "p", "input": "i", "max_tokens": 5, **wild}
    try:
        ask = api.ask(Reader(FAST, tokenizer), body)
    except Refusal as refusal:
        status = refusal.status
    else:
        status = 200
        for prompt, wish in zip(ask.prompts, ask.wishes, strict=True):
            assert generator(tokenizer).plan(prompt, wish).tokens
    assert status in (200, 400, 404)


def test_v1_asks_for_the_api_key_and_health_does_not() -> None:
    async def use(client: Client) -> None:
        assert (await client.get("/health"))[0] == 200
        assert await client.post(CHAT_PATH, {"messages": HELLO}) == (401, {"error": "Unauthorized"})
        headers = {"authorization": "Bearer secret"}
        async with client.session.get(client.url + "/v1/models", headers=headers) as answer:
            assert answer.status == 200

    with_engine(use, replace(FAST, api_key="secret"))
