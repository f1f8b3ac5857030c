"""The engine over HTTP: text, usage, cache, leaving clients, and a real SDK."""

import asyncio
import json
from dataclasses import replace
from typing import Any

import openai
import pytest

from emulator.params import EngineParams
from tests.emulator.support import (
    FAST,
    FIXTURES,
    MESSAGES,
    Client,
    captured,
    payloads_of,
    until,
    with_engine,
)

CHAT = "/v1/chat/completions"
SLOW = replace(FAST, speed=1.0)
LONG = [{"role": "user", "content": "a prompt that is long enough for several blocks of the cache " * 8}]


def content(chunks: list[Any], index: int = 0) -> str:
    pieces = [c["choices"][0] for c in chunks if c["choices"] and c["choices"][0]["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in pieces)


def test_a_stream_says_what_the_whole_answer_says() -> None:
    async def use(client: Client) -> None:
        body = {"messages": MESSAGES, "max_tokens": 50}
        chunks = await client.chunks(CHAT, {**body, "stream_options": {"include_usage": True}})
        _, whole = await client.post(CHAT, body)
        assert content(chunks) == whole["choices"][0]["message"]["content"]
        last = next(c for c in reversed(chunks) if c["choices"])
        assert last["choices"][0]["finish_reason"] == whole["choices"][0]["finish_reason"]
        for key in ("prompt_tokens", "completion_tokens", "total_tokens"):
            assert chunks[-1]["usage"][key] == whole["usage"][key]

    with_engine(use)


def test_salt_does_not_change_the_text_but_keeps_the_cache_apart() -> None:
    async def use(client: Client) -> None:
        async def cached(salt: str | None) -> tuple[str, int]:
            _, body = await client.post(CHAT, {"messages": LONG, "max_tokens": 5, "cache_salt": salt})
            usage = body["usage"]["prompt_tokens_details"]
            return body["choices"][0]["message"]["content"], usage["cached_tokens"]

        first, second = await cached(None), await cached(None)
        assert first[0] == second[0] and first[1] == 0 and second[1] > 50
        salted = await cached("twin")
        assert salted == first
        assert (await cached("twin"))[1] == second[1]

    with_engine(use)


def test_n_choices_and_several_prompts_are_all_streamed() -> None:
    async def use(client: Client) -> None:
        chunks = await client.chunks(
            CHAT, {"messages": MESSAGES, "n": 3, "max_tokens": 8, "temperature": 1.0}
        )
        assert len({content(chunks, index) for index in range(3)}) > 1
        assert {c["choices"][0]["index"] for c in chunks} == {0, 1, 2}
        status, body = await client.post("/v1/completions", {"prompt": ["a", "b"], "max_tokens": 3, "n": 2})
        assert status == 200 and [choice["index"] for choice in body["choices"]] == [0, 1, 2, 3]

    with_engine(use)


def test_echo_min_tokens_and_stop_are_honoured() -> None:
    async def use(client: Client) -> None:
        _, echoed = await client.post(
            "/v1/completions", {"prompt": "def f():", "max_tokens": 2, "echo": True}
        )
        assert echoed["choices"][0]["text"].startswith("def f():")
        _, free = await client.post(CHAT, {"messages": MESSAGES, "max_tokens": 60, "min_tokens": 30})
        text = free["choices"][0]["message"]["content"]
        stop = text[5:8]
        _, stopped = await client.post(CHAT, {"messages": MESSAGES, "max_tokens": 60, "stop": stop})
        assert stopped["choices"][0]["message"]["content"] == text[: text.index(stop)]
        assert stopped["choices"][0]["stop_reason"] == stop

    with_engine(use)


def test_a_full_queue_is_told_inside_a_200_stream_and_as_503_otherwise() -> None:
    async def use(client: Client) -> None:
        body = {"messages": MESSAGES, "max_tokens": 500, "ignore_eos": True, "stream": True}
        scheduler = client.running.engine.scheduler
        held = [await client.session.post(client.url + CHAT, json=body)]
        await until(lambda: scheduler.running == 1)
        held.append(await client.session.post(client.url + CHAT, json=body))
        await until(lambda: scheduler.waiting == 1)
        refused = await client.stream(CHAT, {"messages": MESSAGES})
        assert refused == (FIXTURES / "overflow4.sse").read_text()
        assert await client.post(CHAT, {"messages": MESSAGES}) == (503, captured("overflow"))
        for answer in held:
            answer.close()

    with_engine(use, replace(SLOW, max_num_seqs=1, max_queued=1))


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_frees_its_sequence(stream: bool) -> None:
    async def use(client: Client) -> None:
        engine = client.running.engine
        body = {"messages": LONG, "max_tokens": 5000, "ignore_eos": True, "stream": stream}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(client.post(CHAT, body))
            await until(lambda: engine.scheduler.running == 1)
            asking.cancel()
        await until(lambda: not engine.scheduler.has_work)
        assert engine.scheduler.cache.free_blocks == engine.params.num_blocks
        assert engine.metrics.success["abort"] == 1

    with_engine(use, SLOW)


def test_metrics_count_tokens_and_cache_hits() -> None:
    async def use(client: Client) -> None:
        for _ in range(2):
            await client.post(CHAT, {"messages": LONG, "max_tokens": 10, "ignore_eos": True})
        _, text = await client.get("/metrics")
        values = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
        labels = '{engine="0",model_name="emulated"}'

        def value(name: str) -> float:
            return float(values[f"vllm:{name}{labels}"])

        assert value("generation_tokens_total") == 20
        assert value("prompt_tokens_total") == value("prefix_cache_queries_total")
        assert 0 < value("prefix_cache_hits_total") < value("prompt_tokens_total") / 2
        assert value("time_to_first_token_seconds_count") == 2
        assert value("inter_token_latency_seconds_count") == 18
        assert value("num_requests_running") == value("num_requests_waiting") == 0
        assert value("kv_cache_usage_perc") == 0
        assert 'block_size="16"' in text and "vllm:cache_config_info" in text

    with_engine(use)


def test_native_endpoints_answer() -> None:
    async def use(client: Client) -> None:
        for path in ("/health", "/ping"):
            assert await client.get(path) == (200, "")
        assert json.loads((await client.get("/version"))[1]) == {"version": "0.32.0"}
        assert json.loads((await client.get("/load"))[1]) == {"server_load": 0}
        assert json.loads((await client.get("/kv_event_sources"))[1]) == {}
        _, tokenized = await client.post("/tokenize", {"prompt": "Round trip, naïve café."})
        _, back = await client.post("/detokenize", {"tokens": tokenized["tokens"]})
        assert back == {"prompt": "Round trip, naïve café."}
        assert (await client.post("/detokenize", {"tokens": [10**9]}))[0] == 400
        await client.post(CHAT, {"messages": LONG, "max_tokens": 2})
        assert await client.post("/reset_prefix_cache", {}) == (200, {"success": True})
        _, again = await client.post(CHAT, {"messages": LONG, "max_tokens": 2})
        assert again["usage"]["prompt_tokens_details"]["cached_tokens"] == 0

    with_engine(use)


def test_token_ids_sent_with_a_stream_are_those_of_the_tokenizer() -> None:
    async def use(client: Client) -> None:
        chunks = await client.chunks(CHAT, {"messages": MESSAGES, "max_tokens": 9, "return_token_ids": True})
        _, tokenized = await client.post("/tokenize", {"messages": MESSAGES})
        assert chunks[0]["prompt_token_ids"] == tokenized["tokens"]
        ids = [token for chunk in chunks[1:] for token in chunk["choices"][0]["token_ids"]]
        text = client.running.engine.tokenizer.decode(ids).removesuffix("<|im_end|>")
        assert text == content(chunks)

    with_engine(use)


def test_the_openai_sdk_understands_it() -> None:
    async def use(client: Client) -> None:
        async with openai.AsyncOpenAI(base_url=client.url + "/v1", api_key="none", max_retries=0) as sdk:
            assert [model.id async for model in sdk.models.list()] == ["emulated"]
            whole = await sdk.chat.completions.create(
                model="emulated", messages=[{"role": "user", "content": "hi"}]
            )
            stream = await sdk.chat.completions.create(
                model="emulated",
                messages=[{"role": "user", "content": "hi"}],
                stream=True,
                stream_options={"include_usage": True},
            )
            text = ""
            usage = None
            async for chunk in stream:
                usage = chunk.usage or usage
                text += "".join(choice.delta.content or "" for choice in chunk.choices)
            assert text == whole.choices[0].message.content
            assert usage is not None and whole.usage is not None
            assert usage.completion_tokens == whole.usage.completion_tokens
            response = await sdk.responses.create(model="emulated", input="hi", max_output_tokens=5)
            assert response.output_text
            forced = await sdk.chat.completions.create(
                model="emulated",
                messages=[{"role": "user", "content": "weather?"}],
                tool_choice="required",
                tools=[
                    {"type": "function", "function": {"name": "w", "parameters": {"properties": {"c": {}}}}}
                ],
            )
            calls = forced.choices[0].message.tool_calls
            assert calls is not None and forced.choices[0].finish_reason == "tool_calls"
            assert calls[0].type == "function" and set(json.loads(calls[0].function.arguments)) == {"c"}
            with pytest.raises(openai.NotFoundError, match="does not exist"):
                await sdk.chat.completions.create(model="other", messages=[{"role": "user", "content": "hi"}])

    with_engine(use)


def test_a_silent_stream_is_kept_alive_with_comments() -> None:
    async def use(client: Client) -> None:
        text = await client.stream(CHAT, {"messages": LONG, "max_tokens": 3})
        assert text.startswith(": keep-alive\n\n")
        assert payloads_of(text)[-1] == "[DONE]"

    with_engine(use, replace(SLOW, base_ms=150.0, sse_keep_alive_s=0.02))


def test_an_idle_connection_is_closed_after_the_keep_alive_time() -> None:
    async def use(client: Client) -> None:
        host, port = client.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /health HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 200 OK\r\n")  # read() ends when the server closes
        writer.close()
        await writer.wait_closed()

    with_engine(use, replace(FAST, keep_alive_s=0.05))


def test_an_http_1_0_client_gets_an_unframed_stream() -> None:
    async def use(client: Client) -> None:
        host, port = client.url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        body = json.dumps({"messages": MESSAGES, "max_tokens": 5, "stream": True}).encode()
        writer.write(b"POST %b HTTP/1.0\r\ncontent-length: %d\r\n\r\n%b" % (CHAT.encode(), len(body), body))
        head, _, stream = (await reader.read()).partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert payloads_of(stream.decode())[-1] == "[DONE]"
        writer.close()
        await writer.wait_closed()

    with_engine(use)


@pytest.mark.parametrize(
    "bad", [{"speed": 0}, {"error_rate": 1.5}, {"max_model_len": 10**9}, {"block_size": -1}]
)
def test_impossible_params_are_refused(bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(bad))):
        EngineParams(**bad)
