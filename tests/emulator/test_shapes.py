"""What the engine writes has the shape of what vLLM wrote: the same keys in every kind of chunk and body."""

from dataclasses import replace
from typing import Any

import pytest

from tests.emulator.support import (
    FAST,
    FIXTURES,
    MESSAGES,
    Client,
    assert_same_keys,
    captured,
    captured_stream,
    names_of,
    payloads_of,
    with_engine,
)

CHAT = "/v1/chat/completions"
AS_CAPTURED = replace(FAST, cached_tokens=False, model="tiny", max_model_len=2048, num_blocks=512)


def ask(**fields: Any) -> dict[str, Any]:
    return {"messages": MESSAGES, "temperature": 0, "max_tokens": 4, "ignore_eos": True, **fields}


def kinds(chunks: list[Any]) -> list[Any]:
    """One chunk of each kind: first, second, finishing, usage."""
    choices = [chunk for chunk in chunks if chunk["choices"]]
    return [choices[0], choices[1], choices[-1], *chunks[len(choices) :]]


@pytest.mark.parametrize(
    ("fixture", "fields"),
    [
        ("chat_stream", {}),
        ("chat_stream_usage", {"stream_options": {"include_usage": True}}),
        (
            "chat_stream_contusage",
            {"stream_options": {"include_usage": True, "continuous_usage_stats": True}},
        ),
        ("chat_stream_logprobs", {"logprobs": True, "top_logprobs": 2}),
        ("chat_stream_token_ids", {"return_token_ids": True}),
    ],
)
def test_chat_chunks_have_vllms_keys(fixture: str, fields: dict[str, Any]) -> None:
    async def use(client: Client) -> None:
        ours = await client.chunks(CHAT, ask(**fields))
        theirs = captured_stream(fixture)
        for mine, his in zip(kinds(ours), kinds(theirs), strict=True):
            assert_same_keys(mine, his)

    with_engine(use, AS_CAPTURED)


def test_tool_call_chunks_have_vllms_keys() -> None:
    async def use(client: Client) -> None:
        tool = {
            "type": "function",
            "function": {"name": "get_weather", "parameters": {"properties": {"n": {}}}},
        }
        choice = {"type": "function", "function": {"name": "get_weather"}}
        ours = await client.chunks(CHAT, ask(tools=[tool], tool_choice=choice, max_tokens=100))
        theirs = captured_stream("tools_named_stream")
        for index in (0, 1, 2, -1):
            assert_same_keys(ours[index], theirs[index])

    with_engine(use, AS_CAPTURED)


def test_completion_chunks_have_vllms_keys() -> None:
    async def use(client: Client) -> None:
        body = {"prompt": "def main(argv):", "max_tokens": 4, "stream_options": {"include_usage": True}}
        ours = await client.chunks("/v1/completions", {**body, "ignore_eos": True})
        for mine, his in zip(kinds(ours), kinds(captured_stream("completion_stream")), strict=True):
            assert_same_keys(mine, his)

    with_engine(use, AS_CAPTURED)


@pytest.mark.parametrize(
    ("path", "body", "fixture"),
    [
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 4, "ignore_eos": True}, "messages_stream"),
        (
            "/v1/responses",
            {"input": "Say hi.", "max_output_tokens": 4, "ignore_eos": True},
            "responses_stream",
        ),
    ],
)
def test_named_events_come_in_vllms_order_with_its_keys(
    path: str, body: dict[str, Any], fixture: str
) -> None:
    async def use(client: Client) -> None:
        ours = await client.stream(path, body)
        theirs = (FIXTURES / f"{fixture}.sse").read_text()
        assert list(dict.fromkeys(names_of(ours))) == list(dict.fromkeys(names_of(theirs)))
        mine = dict(zip(names_of(ours), payloads_of(ours), strict=True))
        for name, payload in zip(names_of(theirs), payloads_of(theirs), strict=True):
            assert_same_keys(mine[name], payload, name)

    with_engine(use, AS_CAPTURED)


@pytest.mark.parametrize(
    ("path", "body", "fixture"),
    [
        (CHAT, ask(), "chat"),
        (CHAT, ask(return_token_ids=True, logprobs=True, top_logprobs=1), "chat_token_ids"),
        ("/v1/completions", {"prompt": "x", "max_tokens": 4, "logprobs": 1}, "completion"),
        ("/v1/completions", {"prompt": [10, 20], "return_token_ids": True}, "completion_tokens_prompt"),
        ("/v1/messages", {"messages": MESSAGES, "max_tokens": 4, "ignore_eos": True}, "messages"),
        ("/v1/responses", {"input": "Say hi.", "max_output_tokens": 4, "ignore_eos": True}, "responses"),
        ("/tokenize", {"prompt": "def main(argv):"}, "tokenize"),
        ("/tokenize", {"messages": MESSAGES, "return_token_strs": True}, "tokenize_chat"),
        ("/v1/messages/count_tokens", {"messages": MESSAGES}, "count_tokens"),
    ],
)
def test_whole_bodies_have_vllms_keys(path: str, body: dict[str, Any], fixture: str) -> None:
    async def use(client: Client) -> None:
        status, ours = await client.post(path, body)
        assert status == 200
        theirs = captured(fixture)
        if fixture.startswith("completion"):
            ours["choices"][0]["logprobs"] = theirs["choices"][0]["logprobs"] = None
        assert_same_keys(ours, theirs)

    with_engine(use, AS_CAPTURED)


@pytest.mark.parametrize(
    ("body", "status", "fixture"),
    [
        (b'{"model": ', 400, "err_badjson"),
        ({"model": "tiny"}, 400, "err_nomsgs"),
        (ask(temperature=-1.0), 400, "err_temp"),
        (ask(max_tokens=100_000), 400, "err_maxtokens"),
        (ask(model="nope"), 404, "err_wrongmodel"),
    ],
)
def test_refusals_are_vllms_word_for_word(body: Any, status: int, fixture: str) -> None:
    async def use(client: Client) -> None:
        assert await client.post(CHAT, body) == (status, captured(fixture))

    with_engine(use, AS_CAPTURED)


@pytest.mark.parametrize("stream", [False, True])
def test_a_prompt_too_long_is_a_400_streamed_or_not(stream: bool) -> None:
    async def use(client: Client) -> None:
        body = ask(messages=[{"role": "user", "content": "word " * 2100}], stream=stream)
        status, ours = await client.post(CHAT, body)
        assert status == 400
        assert_same_keys(ours, captured("err_toolong"))
        assert ours["error"]["param"] == "input_tokens"

    with_engine(use, AS_CAPTURED)


def test_unknown_paths_and_methods() -> None:
    async def use(client: Client) -> None:
        assert await client.post("/nope", {}) == (404, captured("err_404"))
        async with client.session.get(client.url + CHAT) as answer:
            assert answer.status == 405 and answer.headers["allow"] == "POST"
            assert await answer.json() == captured("err_method")

    with_engine(use, AS_CAPTURED)


def test_models_have_vllms_keys() -> None:
    async def use(client: Client) -> None:
        async with client.session.get(client.url + "/v1/models") as answer:
            assert_same_keys(await answer.json(), captured("models"))

    with_engine(use, AS_CAPTURED)
