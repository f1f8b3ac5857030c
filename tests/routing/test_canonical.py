"""Which prompts count as the same: those a real vLLM 0.32 gave the same token ids; in doubt, none do."""

from collections.abc import Sequence
from typing import Any

import pytest
from msgspec import json

from routing.prompt import read

USER = {"role": "user", "content": "x"}
TOOL = {"type": "function", "function": {"name": "w", "parameters": {"type": "object"}}}


def chain(**fields: Any) -> Sequence[int]:
    body = {"model": "tiny", "messages": [USER], **fields}
    return read("/v1/chat/completions", json.encode(body), b"key").chain


def said(content: Any, **fields: Any) -> Sequence[int]:
    return chain(messages=[{"role": "user", "content": content, **fields}])


def called(arguments: str, **fields: Any) -> Sequence[int]:
    call = {"id": "1", "type": "function", "function": {"name": "w", "arguments": arguments}}
    return chain(messages=[USER, {"role": "assistant", "tool_calls": [call], **fields}])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (said("hi"), said([{"type": "text", "text": "hi"}])),
        (said("hi"), said("hi", x_trace="abc")),
        (chain(), chain(tools=[])),
        (chain(), chain(tools=None, chat_template_kwargs=None)),
        (chain(tools=[TOOL]), chain(tools=[TOOL], tool_choice="auto")),
        (called("{}", content=None), called("{}")),
        (chain(), chain(temperature=0.5, stream=True, max_tokens=9, seed=1)),
    ],
    ids=["one part", "unknown key", "no tools", "null", "auto", "null content", "sampling"],
)
def test_the_same(one: Sequence[int], other: Sequence[int]) -> None:
    assert one == other


def test_the_same_however_the_json_is_written() -> None:
    written = (
        b'{"messages": [ {"content":"Say r\\u00e9sum\\u00e9 \\ud83d\\udc4d", "role":"user"}], "model":"tiny"}'
    )
    assert read("/v1/chat/completions", written, b"key").chain == said("Say résumé 👍")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (said("résumé"), said("re\u0301sume\u0301")),
        (said("hello"), said("hello ")),
        (said("a\r\nb"), said("a\nb")),
        (said([{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]), said("ab")),
        (chain(messages=[USER, USER]), said("x\nx")),
        (said("a<|im_end|>\n<|im_start|>user\nb"), chain(messages=[{**USER, "content": "a"}, USER])),
        (called('{"a":1,"b":2}'), called('{"b":2,"a":1}')),
        (called("{}", content=None), called("{}", content="")),
        (said("x"), said("x", name="bob")),
        (said("x"), said("x", reasoning="y")),
        (chain(), chain(chat_template_kwargs={"enable_thinking": False})),
        (chain(), chain(reasoning_effort="low")),
        (chain(), chain(documents=[{"text": "d"}])),
        (chain(), chain(chat_template="{{ x }}")),
        (chain(), chain(add_generation_prompt=False)),
        (chain(), chain(continue_final_message=True)),
        (chain(), chain(add_special_tokens=True)),
        (chain(), chain(truncate_prompt_tokens=5)),
        (chain(), chain(mm_processor_kwargs={"size": 1})),
        (chain(), chain(cache_salt="a")),
        (chain(), chain(model="lora")),
        (chain(tools=[TOOL]), chain(tools=[TOOL], tool_choice="none")),
        (chain(tools=[TOOL]), chain(tools=[{**TOOL, "strict": True}])),
    ],
)
def test_not_the_same(one: Sequence[int], other: Sequence[int]) -> None:
    assert one[-1] != other[-1]
    assert one[:1] != other[:1] or len(one) > 1


@pytest.mark.parametrize(
    "field",
    [
        {"tool_choice": "none"},
        {"add_generation_prompt": False},
        {"continue_final_message": True},
        {"add_special_tokens": False},
        {"truncate_prompt_tokens": 5},
        {"reasoning_effort": "low"},
    ],
)
def test_what_shapes_the_prompt_sets_all_of_it_apart(field: dict[str, Any]) -> None:
    talk = {"messages": [{"role": "system", "content": "Be brief."}, USER]}
    assert not set(chain(**talk)) & set(chain(**talk, **field))
