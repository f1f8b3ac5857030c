"""Which prompts may be learned, and what is asked of an engine about them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.features import Feature
from routing.bridge.fit import CHAT, MESSAGES, PLAIN, RESPONSES, Fit, fit, render_body, tokenize_body
from routing.prompt import read

USER = {"role": "user", "content": "hi"}
TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "1", "function": {"name": "f"}}]}
IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}


def result(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": content}]}


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
        (CHAT, {}, "unfit"),
        (CHAT, {"messages": [{"role": "user", "content": 5}]}, "unfit"),
        (CHAT, {"messages": [{"role": "user", "content": [{"type": ["text"]}]}]}, "unfit"),
        (MESSAGES, {"messages": [{"role": "user", "content": [{"type": "image"}]}]}, "unfit"),
        (MESSAGES, {"messages": [USER], "system": [{"type": "document"}]}, "unfit"),
        (MESSAGES, {"messages": [result([{"type": "image"}])]}, "unfit"),
        (RESPONSES, {"input": "hi", "previous_response_id": "r"}, "unfit"),
        (RESPONSES, {"input": [{"type": "computer_call_output"}]}, "unfit"),
        (RESPONSES, {"input": [{"role": "user", "content": [{"type": "input_image"}]}]}, "unfit"),
        (CHAT, {"messages": [USER], "cache_salt": 1}, "unfit"),
        (PLAIN, {"prompt": [1, 2, 3]}, "unfit"),
        (PLAIN, {"prompt": ["a", "b"]}, "unfit"),
        ("/v1/embeddings", {"input": "hi"}, "path"),
    ],
)
def test_what_is_more_than_text_is_not_learned(path: str, fields: dict[str, Any], why: str) -> None:
    assert fitted(path, **fields) == why


def test_what_is_no_json_is_not_learned() -> None:
    assert fit(CHAT, b"{") == fit(CHAT, b"[]") == fit(CHAT, b"\xff") == "unreadable"


@pytest.mark.parametrize("levels", [1_500, 4_000, 12_000, 100_000])
@pytest.mark.parametrize("path", [CHAT, MESSAGES])
def test_what_is_nested_deeper_than_can_be_gone_through_is_not_learned(path: str, levels: int) -> None:
    """How deep may be decoded depends on the Python: some of these are, and cannot be gone through."""
    begins, ends = b'[{"type":"tool_result","content":', b"}]"
    deep = b'{"messages":[{"role":"user","content":%b"x"%b}]}' % (begins * levels, ends * levels)
    assert fit(path, deep) == "unreadable"


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


@pytest.mark.parametrize(
    ("path", "fields", "features"),
    [
        (MESSAGES, {"messages": [USER], "system": "Be brief."}, Feature.NONE),
        (MESSAGES, {"messages": [USER], "system": [{"type": "text", "text": "Be brief."}]}, Feature.NONE),
        (MESSAGES, {"messages": [USER, result("text")]}, Feature.TOOLS),
        (MESSAGES, {"messages": [USER, result([{"type": "text", "text": "x"}])]}, Feature.TOOLS),
        (
            MESSAGES,
            {"messages": [{"role": "assistant", "content": [{"type": "thinking", "thinking": "x"}]}]},
            Feature.THINKING,
        ),
        (RESPONSES, {"input": "hi"}, Feature.NONE),
        (
            RESPONSES,
            {"input": [{"role": "user", "content": [{"type": "input_text", "text": "x"}]}]},
            Feature.NONE,
        ),
        (RESPONSES, {"input": [{"type": "function_call_output", "output": "x"}]}, Feature.TOOLS),
        (RESPONSES, {"input": [{"type": "reasoning", "summary": []}]}, Feature.THINKING),
    ],
)
def test_messages_and_responses_are_asked_of_render_alone(
    path: str, fields: dict[str, Any], features: Feature
) -> None:
    found = fitted(path, **fields, stream=True)
    assert isinstance(found, Fit) and found.features == features
    assert tokenize_body(found, None) is None
    assert render_body(found, None) == {"model": "m", **fields}


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["type", "text", "content", "role", "output"]), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(
    st.sampled_from([CHAT, PLAIN, MESSAGES, RESPONSES, "/x"]),
    st.dictionaries(
        st.sampled_from(["messages", "input", "prompt", "system", "tools", "cache_salt", "documents"]),
        anything,
    ),
)
def test_any_object_is_fit_or_not(path: str, fields: dict[str, Any]) -> None:
    found = fitted(path, **fields)
    assert isinstance(found, str) or found.front_bytes >= 0
    if isinstance(found, Fit):
        tokenize_body(found, None)
        assert len(found.roles) >= 0
