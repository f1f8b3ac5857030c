"""A loop of tools that is open has other links than the same once it is closed."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

import pytest

from routing.index import PrefixIndex
from routing.loops import set_apart
from routing.policies import least_load
from routing.precise import Precise
from routing.prompt import read
from routing.router import Router
from routing.types import EngineLoad, Prompt
from tests.routing.events.memory import Memory

USER = {"role": "user", "content": "Is berth four free?"}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "It is free."}
ANSWER = {"role": "assistant", "content": "It is."}
THINKING: list[dict[str, Any]] = [
    {"content": "<think>\nI look.\n</think>\n\n"},
    {"content": "I looked.</think>"},
    {"content": None, "reasoning": "I look."},
    {"content": None, "reasoning_content": "I look."},
    {"content": [{"type": "thinking", "thinking": "I look."}]},
    {"content": [{"type": "text", "text": "<think>I look.</think>"}]},
]
PLAIN: list[dict[str, Any]] = [
    {"content": "I look."},
    {"content": None, "reasoning": None},
    {"content": "", "reasoning": "", "reasoning_content": ""},
    {"content": [{"type": "text", "text": "I look."}]},
    {"content": [{"type": "text", "text": "I think so, by reasoning."}]},
]


def step(**said: Any) -> list[dict[str, Any]]:
    call = {"id": "c", "type": "function", "function": {"name": "berth", "arguments": "{}"}}
    return [{"role": "assistant", **said, "tool_calls": [call]}, TOOL]


def prompt(messages: Sequence[dict[str, Any]]) -> Prompt:
    body = json.dumps({"model": "m", "messages": messages, "tools": [{"type": "function"}]})
    return read("/v1/chat/completions", body.encode(), b"key")


def apart(messages: Sequence[dict[str, Any]]) -> list[int]:
    named = prompt(messages)
    set_apart(named)
    return list(named.chain)


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), len(one))


@pytest.mark.parametrize("thinks", THINKING)
def test_an_open_loops_thinking_is_set_apart_and_its_later_steps_go_on(thinks: dict[str, Any]) -> None:
    begun, one = [USER], [USER, *step(**thinks)]
    two = [*one, *step(content="And the other one?")]
    closed = [*two, ANSWER, USER]
    assert prompt(one).open_at == len(prompt(begun).chain)
    assert shared(apart(begun), apart(one)) == len(apart(begun))
    assert shared(apart(one), apart(two)) == len(apart(one))
    assert shared(apart(two), apart(closed)) == len(apart(begun)), "closed it is another prompt from there on"
    assert prompt(closed).open_at == -1 and apart(closed) == list(prompt(closed).chain)
    assert shared(apart(closed), apart([*closed, *step(**thinks)])) == len(apart(closed))


@pytest.mark.parametrize("plain", PLAIN)
def test_what_stands_before_the_first_thinking_keeps_its_links(plain: dict[str, Any]) -> None:
    loop = [USER, *step(**plain)]
    assert prompt(loop).open_at == -1
    more = [*loop, *step(**THINKING[0])]
    assert prompt(more).open_at == len(prompt(loop).chain)
    assert shared(apart(more), list(prompt(more).chain)) == len(prompt(loop).chain)


@pytest.mark.parametrize("text", ["I think so, by reasoning.", "<think>\nI look.\n</think>\n\nIt is."])
def test_a_text_and_the_list_of_it_have_the_same_names(text: str) -> None:
    """Clients move a mark for the cache from turn to turn, which takes a list."""
    part = {"type": "text", "text": text, "cache_control": {"type": "ephemeral"}}
    whole, listed = ([USER, *step(content=content)] for content in (text, [part]))
    assert apart(listed) == apart(whole)
    assert prompt(listed).open_at == prompt(whole).open_at


def test_a_prompt_is_named_anew_once() -> None:
    named = prompt([USER, *step(**THINKING[0])])
    before = list(named.chain)
    set_apart(named)
    once = list(named.chain)
    set_apart(named)
    assert named.chain == once != before and len(once) == len(before)
    assert len(set(once) | set(before)) == len(before) + len(before) - 2, "but for the tools and the question"


def test_what_was_sent_is_remembered_as_the_template_writes_it() -> None:
    """A closed loop's steps are not taken to be held because the open one was sent."""
    loop = [USER, *step(**THINKING[0])]
    for are_apart in (False, True):
        index, precise = PrefixIndex(), Precise(Memory().reader())
        precise.renew(0, are_apart)
        router = Router(least_load.build(least_load.Params()), index, Random(1))
        router.know(precise)
        router.choose(prompt(loop), [EngineLoad(1, 0, 0)], 1.0)
        closed = prompt([*loop, ANSWER, USER])
        held = index.match(closed.chain, closed.ends)[1]
        assert held == prompt([USER] if are_apart else loop).ends[-1]


def test_thinking_without_a_question_is_open() -> None:
    assert prompt(step(**THINKING[0])).open_at == 1  # behind the tools
