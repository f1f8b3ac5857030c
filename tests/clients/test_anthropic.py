"""The anthropic SDK through the gateway: whole and streamed messages, its exceptions, cut streams."""

import asyncio
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from tests.clients.scripted import in_turn
from tests.clients.stage import KEY, Stage, grown, until
from tests.emulator.support import FIXTURES
from tests.support import SSE_HEAD, Engine, Peer, answers, chunk, json_answer

HELLO: Any = {
    "model": "emulated",
    "max_tokens": 12,
    "system": "Be brief.",
    "messages": [{"role": "user", "content": "Say hello."}],
}
STREAMED = (FIXTURES / "messages_stream.sse").read_bytes()
WHOLE = (FIXTURES / "messages.json").read_bytes()


@pytest.fixture
def client(stage: Stage) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=stage.url, api_key=KEY, max_retries=0, timeout=20) as made:
        yield made


def text(message: anthropic.types.Message) -> str:
    return "".join(block.text for block in message.content if block.type == "text")


def test_a_streamed_and_a_whole_message_are_the_engines(stage: Stage, client: anthropic.Anthropic) -> None:
    whole = client.messages.create(**HELLO)
    with client.messages.stream(**HELLO) as stream:
        said = "".join(stream.text_stream)
        final = stream.get_final_message()
    with anthropic.Anthropic(base_url=stage.engines[0], api_key=KEY) as direct:
        told = direct.messages.create(**HELLO)
    assert said == text(final) == text(whole) == text(told) != ""
    assert final.usage.output_tokens == whole.usage.output_tokens > 0
    assert final.usage.input_tokens == whole.usage.input_tokens == told.usage.input_tokens
    assert final.stop_reason == whole.stop_reason == told.stop_reason


def test_the_waiting_client_reads_the_same(stage: Stage, client: anthropic.Anthropic) -> None:
    async def go() -> str:
        async with (
            anthropic.AsyncAnthropic(base_url=stage.url, api_key=KEY, max_retries=0) as waiting,
            waiting.messages.stream(**HELLO) as stream,
        ):
            return "".join([piece async for piece in stream.text_stream])

    assert asyncio.run(go()) == text(client.messages.create(**HELLO))


def test_tokens_are_counted_and_models_listed(client: anthropic.Anthropic) -> None:
    asked = {name: value for name, value in HELLO.items() if name != "max_tokens"}
    counted = client.messages.count_tokens(**asked)
    assert counted.input_tokens == client.messages.create(**HELLO).usage.input_tokens
    assert {model.id for model in client.models.list()} >= {"emulated", "scripted"}


def test_bytes_of_a_real_vllm_are_read(client: anthropic.Anthropic, engine: Engine) -> None:
    engine.script = in_turn(answers(json_answer(WHOLE)), answers(SSE_HEAD, chunk(STREAMED), b"0\r\n\r\n"))
    whole = client.messages.create(**HELLO | {"model": "scripted"})
    with client.messages.stream(**HELLO | {"model": "scripted"}) as stream:
        final = stream.get_final_message()
    assert text(whole) and text(final) and final.usage.output_tokens > 0 and final.stop_reason
    asked = {name.lower(): value for name, value in engine.asked[0].headers}
    assert asked["anthropic-version"]


STATUSES = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    404: anthropic.NotFoundError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
}


@pytest.mark.parametrize(("status", "kind"), STATUSES.items())
def test_what_an_engine_refuses_is_the_sdks_exception_of_that_status(
    client: anthropic.Anthropic, engine: Engine, status: int, kind: type[anthropic.APIStatusError]
) -> None:
    body = b'{"type":"error","error":{"type":"overloaded_error","message":"no"}}'
    engine.script = answers(json_answer(body, f"{status} No", "Retry-After: 7", "request-id: engine-1"))
    with pytest.raises(kind) as raised:
        client.messages.create(**HELLO | {"model": "scripted"})
    assert raised.value.type == "overloaded_error" and raised.value.request_id == "engine-1"
    assert raised.value.response.headers["retry-after"] == "7"


def test_refusals_of_engine_and_gateway_are_its_exceptions(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="temperature"):
        client.messages.create(**HELLO | {"extra_body": {"temperature": -1.0}})
    with pytest.raises(anthropic.NotFoundError, match="made-up"):
        client.messages.create(**HELLO | {"model": "made-up"})
    with pytest.raises(anthropic.APIStatusError) as raised:
        client.messages.create(**HELLO | {"model": "dead"})
    assert raised.value.status_code in (502, 503)


def test_the_sdk_retries_through_the_gateway(stage: Stage, engine: Engine) -> None:
    busy = answers(json_answer(b"{}", "529 Overloaded", "retry-after-ms: 1"))
    engine.script = in_turn(busy, busy, answers(json_answer(WHOLE)))
    with anthropic.Anthropic(base_url=stage.url, api_key=KEY, max_retries=2) as client:
        assert text(client.messages.create(**HELLO | {"model": "scripted"}))
    assert len(engine.asked) == 3


def test_a_stream_cut_short_is_an_error_after_what_came(client: anthropic.Anthropic, engine: Engine) -> None:
    begun = STREAMED.split(b"\n\n")[:4]

    async def script(peer: Peer) -> None:
        await peer.send(SSE_HEAD, chunk(b"\n\n".join(begun) + b"\n\n"))
        peer.reset()

    engine.script = script
    came: list[str] = []

    def read() -> None:
        with client.messages.stream(**HELLO | {"model": "scripted"}) as stream:
            came.extend(stream.text_stream)

    with pytest.raises(anthropic.APIError) as raised:
        read()
    assert came and isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == "api_error"
    assert raised.value.body["error"]["code"] == "upstream_cut"


def test_the_gateways_own_refusals_are_anthropics_errors(stage: Stage, client: anthropic.Anthropic) -> None:
    """By their type, which is what its SDK tells of; each with the id it goes by in the log."""
    cases: list[tuple[Any, Any, str]] = [
        ({"model": "made-up"}, anthropic.NotFoundError, "not_found_error"),
        ({"extra_body": {"messages": 7, "model": [1]}}, anthropic.APIStatusError, "invalid_request_error"),
        ({"model": "dead"}, anthropic.InternalServerError, "overloaded_error"),
    ]
    for changed, error, kind in cases:
        with pytest.raises(error) as raised:
            client.messages.create(**HELLO | changed)
        body = raised.value.body
        assert isinstance(body, dict) and body["type"] == "error" and body["error"]["message"], body
        assert body["error"]["type"] == kind and raised.value.type == kind, body
        assert raised.value.request_id
    with (
        anthropic.Anthropic(base_url=stage.url, api_key="wrong", max_retries=0) as unknown,
        pytest.raises(anthropic.AuthenticationError) as not_known,
    ):
        unknown.messages.create(**HELLO)
    assert not_known.value.type == "authentication_error" and not_known.value.request_id
    with pytest.raises(anthropic.NotFoundError) as uncounted:
        client.messages.count_tokens(model="made-up", messages=HELLO["messages"])
    assert uncounted.value.type == "not_found_error"


def test_an_answers_id_is_where_the_sdk_looks_for_it(client: anthropic.Anthropic) -> None:
    answered = client.messages.with_raw_response.create(**HELLO)
    assert answered.headers["request-id"] == answered.headers["x-request-id"]
    assert answered.parse()._request_id == answered.headers["request-id"]


def test_leaving_a_stream_frees_the_engine(stage: Stage, client: anthropic.Anthropic) -> None:
    before = stage.engine()
    long = HELLO | {"max_tokens": 15_000, "extra_body": {"ignore_eos": True}}
    with client.messages.stream(**long) as stream:
        assert next(iter(stream.text_stream)) is not None
        assert not stage.is_free()
    until(stage.is_free)
    assert grown(before, stage.engine())["request_success abort"] == 1
