"""Which prompts may be learned, and what is asked of an engine about them."""

import json
from typing import Any

import pytest

from routing.bridge.fit import CHAT, PLAIN, Feature, Fit, fit, render_body, tokenize_body
from routing.prompt import read

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}


def fitted(path: str = CHAT, **fields: Any) -> Fit | str:
    return fit(path, json.dumps({"model": "m", **fields}).encode())


@pytest.mark.parametrize(
    ("fields", "features"),
    [
        ({"messages": [USER]}, Feature.NONE),
        ({"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}]}]}, Feature.NONE),
        ({"messages": [USER], "tools": [TOOL]}, Feature.TOOLS),
        ({"messages": [USER, CALL, {"role": "tool", "content": "x"}]}, Feature.TOOLS),
        ({"messages": [USER, {"role": "assistant", "content": "<think>x</think>y"}]}, Feature.THINKING),
        ({"messages": [USER, {**CALL, "reasoning": "x"}]}, Feature.TOOLS | Feature.THINKING),
    ],
)
def test_a_prompt_of_text_is_fit_and_its_features_are_seen(fields: dict[str, Any], features: Feature) -> None:
    found = fitted(**fields)
    assert isinstance(found, Fit) and found.features == features


@pytest.mark.parametrize(
    ("path", "fields", "why"),
    [
        (CHAT, {"messages": [{"role": "user", "content": [IMAGE]}]}, "unfit"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": "input_audio"}]}]}, "unfit"),
        (CHAT, {"messages": [USER], "chat_template": "{{ x }}"}, "unfit"),
        (CHAT, {"messages": [USER], "truncate_prompt_tokens": 9}, "unfit"),
        (CHAT, {"messages": "hi"}, "unfit"),
        (CHAT, {"messages": [USER], "cache_salt": 1}, "unfit"),
        (PLAIN, {"prompt": [1, 2, 3]}, "unfit"),
        (PLAIN, {"prompt": ["a", "b"]}, "unfit"),
        ("/v1/responses", {"input": "hi"}, "path"),
        ("/v1/messages", {"messages": [USER]}, "path"),
    ],
)
def test_what_is_more_than_text_is_not_learned(path: str, fields: dict[str, Any], why: str) -> None:
    assert fitted(path, **fields) == why


def test_what_is_no_json_is_not_learned() -> None:
    assert fit(CHAT, b"{") == fit(CHAT, b"[]") == fit(CHAT, b"\xff") == "unreadable"


def test_the_front_is_as_long_as_the_text_chain_has_it() -> None:
    body = json.dumps({"model": "m", "messages": [USER], "tools": [TOOL], "documents": [{"a": 1}]}).encode()
    found = fit(CHAT, body)
    assert isinstance(found, Fit)
    assert found.front_bytes in read(CHAT, body, b"key").ends


def test_tokenize_is_asked_all_that_shapes_a_prompt_or_nothing() -> None:
    found = fitted(messages=[USER], tools=[TOOL], chat_template_kwargs={"a": 1}, temperature=1, stream=True)
    assert isinstance(found, Fit)
    asked = {"model": "own", "messages": [USER], "tools": [TOOL], "chat_template_kwargs": {"a": 1}}
    assert tokenize_body(found, "own") == asked
    assert render_body(found, None) == {**asked, "model": "m", "temperature": 1}
    for more in ({"reasoning_effort": "low"}, {"documents": [{"a": 1}]}, {"tool_choice": "none"}):
        found = fitted(messages=[USER], **more)
        assert isinstance(found, Fit) and tokenize_body(found, None) is None


def test_a_plain_prompt_is_asked_as_it_is() -> None:
    found = fitted(PLAIN, prompt="hi", max_tokens=3, add_special_tokens=False)
    assert isinstance(found, Fit)
    assert tokenize_body(found, None) == {"model": "m", "prompt": "hi", "add_special_tokens": False}
