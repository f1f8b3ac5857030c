"""The openai SDK raises its own exceptions, and retries and gives up through the gateway as without it."""

import asyncio
import json
from threading import Event
from typing import Any

import openai
import pytest

from tests.clients.conftest import Ask, Sdk
from tests.clients.scripted import Silent, cut_after, in_turn
from tests.clients.stage import KEY, Stage, grown, until
from tests.support import FINISH, ROLE, SSE_HEAD, TOKEN, Engine, Script, answers, event, json_answer, streams

HELLO: Any = [{"role": "user", "content": "hi"}]
WHOLE = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "scripted",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "yes"}}],
}
YES = answers(json_answer(json.dumps(WHOLE).encode()))


def chat(model: str = "scripted", **more: Any) -> Ask:
    return lambda client: client.chat.completions.create(**{"model": model, "messages": HELLO, **more})


def refuses(status: str, *extra: str, code: int = 0) -> Script:
    """A script that says no as vLLM does."""
    error = {"message": f"no: {status}", "type": "Refused", "param": None, "code": code or int(status[:3])}
    return answers(json_answer(json.dumps({"error": error}).encode(), status, *extra))


STATUSES = {
    "400 Bad Request": openai.BadRequestError,
    "401 Unauthorized": openai.AuthenticationError,
    "403 Forbidden": openai.PermissionDeniedError,
    "404 Not Found": openai.NotFoundError,
    "409 Conflict": openai.ConflictError,
    "422 Unprocessable Entity": openai.UnprocessableEntityError,
    "429 Too Many Requests": openai.RateLimitError,
    "500 Internal Server Error": openai.InternalServerError,
    "503 Service Unavailable": openai.InternalServerError,
}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(("status", "kind"), STATUSES.items(), ids=[s[:3] for s in STATUSES])
def test_what_an_engine_refuses_is_the_sdks_exception_of_that_status(
    sdk: Sdk, engine: Engine, status: str, kind: type[openai.APIStatusError], stream: bool
) -> None:
    engine.script = refuses(status, "Retry-After: 7")
    with pytest.raises(kind) as raised:
        sdk.ask(chat(stream=stream))
    assert type(raised.value) is kind
    assert raised.value.status_code == int(status[:3])
    assert raised.value.response.headers["retry-after"] == "7"
    assert raised.value.request_id == raised.value.response.headers["x-request-id"] != ""
    assert isinstance(raised.value.body, dict) and raised.value.body["message"] == f"no: {status}"


def test_a_parameter_an_emulated_vllm_refuses_is_a_bad_request_that_names_it(sdk: Sdk) -> None:
    for wrong in ({"temperature": -1.0}, {"max_tokens": 10**7}, {"logprobs": True, "top_logprobs": 99}):
        with pytest.raises(openai.BadRequestError) as raised:
            sdk.ask(chat("emulated", **wrong))
        assert raised.value.param and str(raised.value.code) == "400"


def test_a_model_nobody_has_is_not_found_by_the_gateway_itself(sdk: Sdk) -> None:
    with pytest.raises(openai.NotFoundError, match="made-up") as raised:
        sdk.ask(chat("made-up"))
    assert raised.value.param == "model" and raised.value.code == "model_not_found"


def test_a_path_that_is_not_relayed_is_not_found(sdk: Sdk) -> None:
    with pytest.raises(openai.NotFoundError, match="not relayed"):
        sdk.ask(lambda client: client.post("../reset_prefix_cache", cast_to=object))


def test_a_fleet_that_is_down_is_an_error_of_the_server(sdk: Sdk) -> None:
    with pytest.raises(openai.InternalServerError) as raised:
        sdk.ask(chat("dead"))
    assert raised.value.status_code in (502, 503)


def test_an_engine_that_is_busy_inside_its_200_is_an_error_all_the_same(sdk: Sdk, engine: Engine) -> None:
    engine.script = streams('{"error":{"message":"busy","type":"Service Unavailable","code":503}}')
    with pytest.raises(openai.APIError, match="busy"):
        sdk.ask(chat(stream=True))


# Answers cut short


@pytest.mark.parametrize(
    "call",
    [
        chat(stream=True),
        lambda client: client.completions.create(model="scripted", prompt="hi", stream=True),
        lambda client: client.responses.create(model="scripted", input="hi", stream=True),
    ],
    ids=["chat", "completion", "response"],
)
def test_a_stream_cut_short_is_an_error_in_words_after_what_came(sdk: Sdk, engine: Engine, call: Ask) -> None:
    engine.script = cut_after(ROLE, TOKEN, TOKEN)
    with pytest.raises(openai.APIError) as raised:
        sdk.ask(call)
    assert raised.value.type == "upstream_cut" and str(raised.value.code) == "502"


def test_a_stream_cut_inside_an_event_does_not_end_as_if_it_were_whole(sdk: Sdk, engine: Engine) -> None:
    """The SDK reads the half event before it reads that there was a cut, and says that it is no JSON."""
    engine.script = cut_after(ROLE, TOKEN, half=f"data: {TOKEN[:-20]}")
    with pytest.raises((openai.APIError, ValueError)):
        sdk.ask(chat(stream=True))


def test_a_whole_answer_cut_short_is_a_lost_connection(sdk: Sdk, engine: Engine) -> None:
    body = json.dumps(WHOLE).encode()

    async def script(peer: Any) -> None:
        await peer.send(json_answer(body)[:-9])
        peer.reset()

    engine.script = script
    with pytest.raises(openai.APIConnectionError):
        sdk.ask(chat())


def test_an_error_in_the_middle_of_a_stream_is_raised_after_what_came(sdk: Sdk, engine: Engine) -> None:
    engine.script = streams(ROLE, TOKEN, '{"error":{"message":"lost the GPU","code":500}}')
    with pytest.raises(openai.APIError, match="lost the GPU"):
        sdk.ask(chat(stream=True))


# Retries


def test_the_sdk_retries_through_the_gateway_as_it_is_told(sdk: Sdk, engine: Engine) -> None:
    engine.script = in_turn(
        refuses("503 Service Unavailable", "retry-after-ms: 1"),
        refuses("429 Too Many Requests", "retry-after-ms: 1"),
        YES,
    )
    answer = sdk.ask(chat(), max_retries=2)
    assert answer.choices[0].message.content == "yes"
    asked = [{name.lower(): value for name, value in peer.headers} for peer in engine.asked]
    assert [one["x-stainless-retry-count"] for one in asked] == ["0", "1", "2"]
    assert len({one["x-request-id"] for one in asked}) == 3


def test_a_stream_that_has_begun_is_retried_by_nobody(stage: Stage, sdk: Sdk, engine: Engine) -> None:
    before = stage.gateway()
    engine.script = cut_after(ROLE, TOKEN)
    with pytest.raises(openai.APIError):
        sdk.ask(chat(stream=True), max_retries=3)
    assert len(engine.asked) == 1
    until(lambda: "requests cut" in grown(before, stage.gateway()))
    assert "retries" not in grown(before, stage.gateway())


# Clients that give up


@pytest.mark.parametrize("payloads", [(), (ROLE, TOKEN)], ids=["before the head", "after a token"])
def test_a_client_that_times_out_frees_the_engine(
    sdk: Sdk, engine: Engine, payloads: tuple[str, ...]
) -> None:
    engine.script = silent = Silent(payloads)
    with pytest.raises(openai.APITimeoutError):
        sdk.ask(chat(stream=True), timeout=openai.Timeout(20, read=0.3))
    until(lambda: silent.left)


LONG: Any = {"max_tokens": 15_000, "stream": True, "extra_body": {"ignore_eos": True}}


def test_closing_a_stream_frees_the_engine(stage: Stage) -> None:
    before = stage.engine()
    with openai.OpenAI(base_url=f"{stage.url}/v1", api_key=KEY) as client:
        with chat("emulated", **LONG)(client) as stream:
            assert len([next(stream) for _ in range(5)]) == 5
            assert not stage.is_free()
        until(stage.is_free)  # with the client still there
    assert grown(before, stage.engine())["request_success abort"] == 1


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
def test_a_cancelled_task_frees_the_engine(stage: Stage, stream: bool) -> None:
    before = stage.engine()

    async def go() -> None:
        async with openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key=KEY) as client:

            async def read() -> None:
                answer = await chat("emulated", **LONG | {"stream": stream})(client)
                async for _ in answer:
                    pass

            task = asyncio.create_task(read())  # noqa: TID251 — a client's own
            await asyncio.to_thread(until, lambda: stage.engine()["num_requests_running"] == 1)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            await asyncio.to_thread(until, stage.is_free)

    asyncio.run(go())
    assert grown(before, stage.engine())["request_success abort"] == 1


def test_sixty_streams_at_once_on_one_client_are_all_whole(stage: Stage) -> None:
    async def go() -> list[list[Any]]:
        async with openai.AsyncOpenAI(base_url=f"{stage.url}/v1", api_key=KEY, max_retries=0) as client:

            async def one(length: int) -> list[Any]:
                more = {"max_tokens": length, "stream": True, "extra_body": {"ignore_eos": True}}
                return [chunk async for chunk in await chat("emulated", **more)(client)]

            return await asyncio.gather(*(one(length) for length in range(1, 61)))

    for length, chunks in enumerate(asyncio.run(go()), 1):
        assert len(chunks) == length + 1 and chunks[-1].choices[0].finish_reason == "length"


def test_tokens_arrive_one_by_one(stage: Stage, engine: Engine) -> None:
    """The client has a token before the engine has made the next."""
    had = Event()

    async def script(peer: Any) -> None:
        await peer.send(SSE_HEAD, event(ROLE), event(TOKEN))
        if await asyncio.to_thread(had.wait, 10):
            await peer.send(event(FINISH), event("[DONE]"), b"0\r\n\r\n")

    engine.script = script
    with openai.OpenAI(base_url=f"{stage.url}/v1", api_key=KEY, timeout=10, max_retries=0) as client:
        stream = chat(stream=True)(client)
        assert next(stream).choices[0].delta.role and next(stream).choices[0].delta.content
        had.set()
        assert next(stream).choices[0].finish_reason == "stop"
        assert list(stream) == []
