"""The openai SDK reads through the gateway what it reads from the engine, streamed or not."""

from typing import Any

import pytest

from tests.clients.conftest import Ask, Sdk
from tests.clients.stage import COUNTED_KEY, Stage, grown, until

HELLO: Any = [{"role": "user", "content": "Say hello and count to five."}]
WEATHER: Any = {
    "type": "function",
    "function": {
        "name": "weather",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
USAGE = {"include_usage": True}


def chat(**more: Any) -> Ask:
    return lambda client: client.chat.completions.create(**{"model": "emulated", "messages": HELLO, **more})


def completion(**more: Any) -> Ask:
    return lambda client: client.completions.create(**{"model": "emulated", "prompt": "Once", **more})


def response(**more: Any) -> Ask:
    return lambda client: client.responses.create(**{"model": "emulated", "input": "Say hello.", **more})


CALLS = {
    "chat": chat(),
    "chat streamed": chat(stream=True, stream_options=USAGE),
    "chat without usage": chat(stream=True),
    "chat with usage in every chunk": chat(
        stream=True, stream_options=USAGE, extra_body={"continuous_usage_stats": True}
    ),
    "tools": chat(tools=[WEATHER], tool_choice="required"),
    "tools streamed": chat(tools=[WEATHER], tool_choice="required", stream=True, stream_options=USAGE),
    "n": chat(n=2, temperature=1.0, seed=7),
    "n streamed": chat(n=2, temperature=1.0, seed=7, stream=True, stream_options=USAGE),
    "logprobs": chat(logprobs=True, top_logprobs=3),
    "logprobs streamed": chat(logprobs=True, top_logprobs=3, stream=True),
    "extra fields": chat(extra_body={"min_tokens": 30, "ignore_eos": True}, max_completion_tokens=31),
    "not ASCII": chat(messages=[{"role": "user", "content": "Grüße, 世界 🙂"}], stream=True),
    "completion": completion(max_tokens=12, logprobs=2),
    "completion streamed": completion(max_tokens=12, stream=True, stream_options=USAGE),
    "several prompts": completion(prompt=["one", "two", "three"], n=2, seed=3, max_tokens=5, stream=True),
    "response": response(),
    "response streamed": response(stream=True),
}
# What differs from one answer to the next, whoever passes it on, and what depends on an engine's cache.
OWN = {"id", "created", "created_at", "completed_at", "item_id", "cached_tokens", "created_cache_tokens"}


def plain(value: Any) -> Any:
    """An answer as plain values, without what is each answer's own."""
    if isinstance(value, list):
        return [plain(one) for one in value]
    if isinstance(value, dict):
        return {name: plain(one) for name, one in value.items() if name not in OWN}
    return plain(value.to_dict()) if hasattr(value, "to_dict") else value


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_an_answer_through_the_gateway_is_the_engines(sdk: Sdk, direct: Sdk, call: Ask) -> None:
    through = plain(sdk.ask(call))
    assert through and through == plain(direct.ask(call))


def test_models_are_those_of_all_fleets(sdk: Sdk) -> None:
    page = sdk.ask(lambda client: client.models.with_raw_response.list()).parse()
    assert {model.id for model in page.data} == {"emulated", "scripted", "spoken", "dead"}


def test_the_sdk_is_told_the_gateways_id_of_its_request(sdk: Sdk) -> None:
    """Its own, where the client gave one: what users put into a bug report is in the access log."""
    answer = sdk.ask(chat(max_tokens=1))
    assert answer._request_id
    given = sdk.ask(chat(max_tokens=1, extra_headers={"x-request-id": "mine-1"}))
    assert given._request_id == "mine-1" != answer._request_id


def test_gateway_and_engines_count_what_the_sdk_was_told(stage: Stage, sdk: Sdk) -> None:
    until(stage.is_free)
    gateway, engine = stage.gateway(), stage.engine()
    own: Any = {"api_key": COUNTED_KEY}  # the gateway's other counts may be late with earlier tests
    told = [sdk.ask(chat(max_tokens=9 + turn), **own).usage for turn in range(3)]
    told += [
        sdk.ask(chat(max_tokens=7, stream=True, stream_options=USAGE), **own)[-1].usage for _ in range(3)
    ]
    until(lambda: grown(gateway, stage.gateway()).get("key_requests counted", 0) >= len(told))
    seen, made = grown(gateway, stage.gateway()), grown(engine, stage.engine())
    prompt = sum(usage.prompt_tokens for usage in told)
    output = sum(usage.completion_tokens for usage in told)
    assert seen["key_requests counted"] == made["request_success"] == len(told)
    assert seen["key_prompt_tokens counted"] == made["prompt_tokens"] == prompt
    assert seen["key_output_tokens counted"] == made["generation_tokens"] == output
