"""The probe tells templates that go on where the prompt before ended from those that rewrite it."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest

from routing.bridge.features import Feature
from routing.bridge.fit import MESSAGES
from routing.bridge.probe import Probed, Step, probed, steps

Template = Callable[[Mapping[str, Any]], str]


def text_of(said: Mapping[str, Any]) -> str:
    calls = "".join(str(call["function"]) for call in said.get("tool_calls", ()))
    return (said["content"] or "") + calls


def chatml(body: Mapping[str, Any]) -> str:
    front = f"<s>tools {body['tools']}</s>" if "tools" in body else ""
    return front + "".join(f"<s>{m['role']} {text_of(m)}</s>" for m in body["messages"]) + "<s>assistant "


def system_last(body: Mapping[str, Any]) -> str:
    """Mistral-Nemo's way: the system text stands in the last user message."""
    said = list(body["messages"])
    system = said.pop(0)["content"] if said[0]["role"] == "system" else ""
    last = max(at for at, one in enumerate(said) if one["role"] == "user")
    return "".join(
        f"<s>{one['role']} {system if at == last else ''}{text_of(one)}</s>" for at, one in enumerate(said)
    )


def thinking_dropped(body: Mapping[str, Any]) -> str:
    """Thinking is kept until the next question, so that a loop of tools sees it."""
    return _thinking_from(body, max(at for at, one in enumerate(body["messages"]) if one["role"] == "user"))


def thinking_until_an_answer(body: Mapping[str, Any]) -> str:
    """Kimi K2 Thinking's way: kept until an assistant's message calls no tool, whatever the user says."""
    said = body["messages"]
    ends = (at for at, one in enumerate(said) if one["role"] == "assistant" and not one.get("tool_calls"))
    return _thinking_from(body, max(ends, default=-1) + 1)


def _thinking_from(body: Mapping[str, Any], last: int) -> str:
    said = body["messages"]
    whole = ""
    for at, one in enumerate(said):
        text = text_of(one)
        if at < last:
            text = re.sub(r"(?s)<think>.*</think>\s*", "", text)
        elif one.get("reasoning"):
            text = f"<think>{one['reasoning']}</think>{text}"
        whole += f"<s>{one['role']} {text}</s>"
    return whole + "<s>assistant <think>"


def thinking_of_the_last_step(body: Mapping[str, Any]) -> str:
    """Each step of a loop takes out the thinking of the one before."""
    said = body["messages"]
    last = max((at for at, one in enumerate(said) if one["role"] == "assistant"), default=0)
    asked = {**body, "messages": [_unthinking(one) if at < last else one for at, one in enumerate(said)]}
    return thinking_dropped(asked)


def thinking_dropped_and_counted(body: Mapping[str, Any]) -> str:
    """Closed loops are counted at the beginning."""
    return f"{sum(one['role'] == 'user' for one in body['messages'])} questions {thinking_dropped(body)}"


def _unthinking(said: dict[str, Any]) -> dict[str, Any]:
    text = re.sub(r"(?s)<think>.*</think>\s*", "", said["content"] or "")
    return {name: one for name, one in said.items() if "reasoning" not in name} | {"content": text}


def no_tools(body: Mapping[str, Any]) -> str:
    if "tools" in body:
        raise KeyError("tools")
    return chatml(body)


def ids_of(template: Template, body: Mapping[str, Any]) -> list[int] | None:
    try:
        return [ord(one) for one in template(body)]
    except KeyError:
        return None


def judged(template: Template, asked: Sequence[Step] | None = None) -> Probed:
    asked = steps() if asked is None else asked
    found = probed(asked, [(ids_of(template, one.before), ids_of(template, one.after)) for one in asked])
    assert found is not None
    return found


BOTH = Feature.TOOLS | Feature.THINKING
ALL = (Feature.NONE, Feature.THINKING, Feature.TOOLS, BOTH)


@pytest.mark.parametrize(
    ("template", "learned"),
    [
        (chatml, ALL),
        (no_tools, ALL),
        (system_last, ()),
        (thinking_dropped, ALL),  # of tools' loops by what is open (see below)
        (thinking_until_an_answer, (Feature.NONE, Feature.THINKING, Feature.TOOLS)),
        (thinking_of_the_last_step, (Feature.NONE, Feature.THINKING, Feature.TOOLS)),
        (thinking_dropped_and_counted, ()),
    ],
)
def test_only_what_goes_on_is_learned(template: Template, learned: Sequence[Feature]) -> None:
    found = judged(template)
    assert [one for one in ALL if found.may_learn(one)] == list(learned)
    assert found.tail_tokens <= 16
    assert found.are_loops_apart == (template is thinking_dropped)


def test_what_is_rewritten_as_a_loop_is_closed_is_learned_only_where_it_is_told_which_are_open() -> None:
    found = judged(thinking_dropped)
    assert [one for one in ALL if found.may_learn(one, MESSAGES)] == [
        Feature.NONE, Feature.THINKING, Feature.TOOLS,
    ]  # fmt: skip
    assert all(judged(chatml).may_learn(one, MESSAGES) for one in ALL)


def test_loops_are_not_set_apart_unless_it_is_seen_that_they_go_on_from_where_they_began() -> None:
    asked = steps()
    ids = [(ids_of(thinking_dropped, one.before), ids_of(thinking_dropped, one.after)) for one in asked]
    unseen = next(at for at, one in enumerate(asked) if one.closes and one.features == BOTH)
    ids[unseen] = None, ids[unseen][1]
    found = probed(asked, ids)
    assert found is not None and not found.are_loops_apart and not found.may_learn(BOTH)


def test_the_tail_is_what_the_next_turn_may_not_share() -> None:
    def ends_otherwise(body: Mapping[str, Any]) -> str:
        return chatml(body) + "[think]\n"

    assert judged(chatml).tail_tokens == 0
    assert judged(ends_otherwise).tail_tokens == len("[think]\n")


def test_another_output_has_another_print() -> None:
    def dated(body: Mapping[str, Any]) -> str:
        return "Monday " + chatml(body)

    assert judged(chatml).print == judged(chatml).print != judged(dated).print


def test_an_engine_that_refuses_all_is_not_learned_from() -> None:
    asked = steps()
    assert probed(asked, [(None, None)] * len(asked)) is None


def test_with_a_short_system_text_the_probe_would_not_see_it_moved() -> None:
    """Why the system text is long: here it hides within the tail that is allowed."""
    short = [
        Step(
            one.features,
            {**one.before, "messages": _shortened(one.before["messages"])},
            {**one.after, "messages": _shortened(one.after["messages"])},
        )
        for one in steps()
        if not one.features
    ]
    assert judged(system_last, short).may_learn(Feature.NONE)


def _shortened(said: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [{**one, "content": "Brief."} if one["role"] == "system" else one for one in said]
