"""Messages' ends among tokens are found where they are, or not at all."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from routing.bridge.anchors import Marker, marker, message_ends
from routing.bridge.fit import CHAT, Fit, fit
from routing.prompt import read
from tests.routing.bridge.model import END, START, encode, tokens_of

texts = st.text("ab \n", max_size=2500)
roles = st.sampled_from(["system", "user", "assistant", "tool"])
talks = st.lists(st.tuples(roles, texts), min_size=1, max_size=6)
TOOL = {"type": "function", "function": {"name": "f", "description": "x" * 2000}}


def asked(said: list[tuple[str, str]], **more: Any) -> tuple[Fit, list[int]]:
    fields = {"model": "m", "messages": [{"role": role, "content": text} for role, text in said], **more}
    body = json.dumps(fields).encode()
    found = fit(CHAT, body)
    assert isinstance(found, Fit)
    return found, list(read(CHAT, body, b"key").ends)


@given(talks, st.booleans(), st.booleans())
def test_each_message_ends_where_its_tokens_do(
    said: list[tuple[str, str]], is_start: bool, has_tools: bool
) -> None:
    found, ends = asked(said, **({"tools": [TOOL]} if has_tools else {}))
    ids = tokens_of(said)
    told = message_ends(ends, found, ids, Marker(START if is_start else END, is_start))
    assert not told or len(told) == len(said) - 1
    for at, (end, tokens) in enumerate(told):
        assert end == asked(said[: at + 1], **({"tools": [TOOL]} if has_tools else {}))[1][-1]
        assert ids[:tokens] == tokens_of(said[: at + 1])[: -len([START, *encode("assistant")])]


def test_a_system_message_that_the_template_adds_shifts_nothing() -> None:
    said = [("user", "hi"), ("assistant", "ho"), ("user", "more")]
    found, ends = asked(said)
    ids = tokens_of([("system", "by the template"), *said])
    told = message_ends(ends, found, ids, Marker(END, is_start=False))
    assert [ids[tokens - 1] for _, tokens in told] == [END, END]
    assert told[0][1] == len(tokens_of([("system", "by the template"), said[0]])) - 1 - len(
        encode("assistant")
    )


def test_where_a_client_writes_the_marker_itself_nothing_is_said() -> None:
    said = [("system", "s"), ("user", "hi"), ("user", "more")]
    found, ends = asked(said)
    ids = [END, *tokens_of(said)]
    assert message_ends(ends, found, ids, Marker(END, is_start=False)) == []


def test_the_marker_is_a_token_once_in_each_message_of_every_prompt() -> None:
    talks = [
        [("system", "long " * n), ("user", "hi " * n), ("assistant", "a\n")][: 1 + n % 3] for n in range(1, 9)
    ]
    prompts = [(len(said), tokens_of(said)) for said in talks]
    assert marker(prompts) == Marker(END, is_start=False)
    started = [(count, [one for one in ids if one != END]) for count, ids in prompts]
    assert marker(started) == Marker(START, is_start=True)
    assert (
        marker([(count, [one for one in ids if one not in (START, END)]) for count, ids in prompts]) is None
    )
    assert marker(prompts[:3]) is None
    assert marker([prompts[0]] * 9) is None
