"""What holds of `prompt.read` for every conversation and for every sequence of bytes."""

import json
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from routing.prompt import Unreadable, read
from routing.types import Prompt

KEY = b"a deployment's secret"
CHAT = "/v1/chat/completions"
PATHS = [
    CHAT,
    "/v1/messages",
    "/v1/responses",
    "/v1/completions",
    "/completion",
    "/generate",
    "/v1/embeddings",
    "/v1/rerank",
]

words = st.sampled_from(
    ["", "a", "b", "ab", "user", "ø", "\u00f8user", "\U0001f600", "\x00", '"', "x" * 1023]
)
texts = st.builds(lambda word, n: word * n, words, st.sampled_from([1, 1, 2, 3, 700]))
roles = st.sampled_from(["system", "user", "assistant", "tool"])
parts = st.one_of(
    st.builds(lambda t: {"type": "text", "text": t}, texts),
    st.builds(lambda t: {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{t}"}}, words),
    st.builds(lambda t: {"type": "tool_result", "tool_use_id": t, "content": t}, words),
    st.builds(lambda t: {"type": "tool_use", "id": t, "name": "f", "input": {"t": t}}, words),
)
calls = st.lists(st.builds(lambda t: {"id": t, "function": {"name": "f", "arguments": t}}, words), max_size=2)
messages = st.builds(
    lambda role, content, optional: {"role": role, "content": content, **optional},
    roles,
    st.one_of(texts, st.none(), st.lists(parts, max_size=3)),
    st.fixed_dictionaries({}, optional={"tool_calls": calls, "name": words, "tool_call_id": words}),
)
conversations = st.lists(messages, min_size=1, max_size=5)


def chat(conversation: list[Any], key: bytes = KEY, **fields: Any) -> Prompt:
    return read(CHAT, json.dumps({"model": "m", "messages": conversation, **fields}).encode(), key)


def meaning(conversation: list[dict[str, Any]]) -> list[Any]:
    """The conversation without what is the same prompt: null, absent and empty; a text and its one part."""
    plain = []
    for message in conversation:
        content = message["content"]
        if isinstance(content, str):
            content = [{"type": "text", "text": content}]
        others = {k: v for k, v in message.items() if k not in ("role", "content") and v not in (None, [])}
        plain.append([message["role"], content or [], others])
    return plain


def shared(one: Prompt, other: Prompt) -> int:
    """Bytes up to the last link that both chains have."""
    both = 0
    for a, b, end in zip(one.chain, other.chain, one.ends, strict=False):
        if a != b:
            break
        both = end
    return both


@given(conversations, conversations)
def test_a_conversation_that_goes_on_keeps_its_chain(begun: list[Any], more: list[Any]) -> None:
    before, after = chat(begun), chat(begun + more)
    assert after.chain[: len(before.chain)] == before.chain
    assert after.ends[: len(before.ends)] == before.ends


@given(conversations, roles, texts, texts, texts)
def test_a_text_shared_in_part_is_shared_to_within_a_kb(
    begun: list[Any], role: str, same: str, one: str, other: str
) -> None:
    assume(one[:1] != other[:1])
    left = chat([*begun, {"role": role, "content": same + one}])
    right = chat([*begun, {"role": role, "content": same + other}])
    begun_bytes = chat(begun).ends[-1]
    assert shared(left, right) > begun_bytes + len(same.encode()) - 1024
    assert left.chain[-1] != right.chain[-1]


@given(conversations, conversations)
def test_two_different_conversations_never_end_in_the_same_link(one: list[Any], other: list[Any]) -> None:
    same = meaning(one) == meaning(other)
    assert (chat(one).chain[-1] == chat(other).chain[-1]) is same


@given(st.lists(st.tuples(roles, words), min_size=1, max_size=4), st.data())
def test_text_moved_over_a_border_is_another_prompt(said: list[tuple[str, str]], data: st.DataObject) -> None:
    whole = "".join(role + text for role, text in said)
    cut = data.draw(st.integers(0, len(whole)))
    one = [{"role": role, "content": text} for role, text in said]
    for other in (
        [{"role": whole[:cut], "content": whole[cut:]}],
        [{"role": "user", "content": whole[:cut]}, {"role": "user", "content": whole[cut:]}],
        [{"role": "user", "content": [{"type": "text", "text": t} for t in (whole[:cut], whole[cut:])]}],
    ):
        assert (chat(one).chain[-1] == chat(other).chain[-1]) is (meaning(one) == meaning(other))


@given(conversations)
def test_ends_rise_by_at_most_a_kb_and_number_the_links(conversation: list[Any]) -> None:
    prompt = chat(conversation)
    assert len(prompt.chain) == len(prompt.ends)
    steps = [end - start for start, end in zip((0, *prompt.ends), prompt.ends, strict=False)]
    assert all(0 < step <= 1024 for step in steps)


@given(conversations, conversations)
def test_a_conversation_keeps_its_root_once_its_user_has_spoken(begun: list[Any], more: list[Any]) -> None:
    begun = [*begun, {"role": "user", "content": "hello"}]
    assert chat(begun).root == chat(begun + more).root
    turns = sum(message["role"] == "assistant" for message in begun + more)
    assert chat(begun + more).turns == turns


@given(conversations)
def test_the_secret_the_model_the_salt_and_the_tools_each_set_prompts_apart(conversation: list[Any]) -> None:
    prompts = [
        chat(conversation),
        chat(conversation, key=b"another secret"),
        chat(conversation, model="n"),
        chat(conversation, cache_salt="s"),
        chat(conversation, cache_salt="m"),
        chat(conversation, lora_path="s"),
        chat(conversation, extra_key="s"),
        chat(conversation, tools=[{"type": "function", "function": {"name": "f"}}]),
        chat(conversation, chat_template_kwargs={"enable_thinking": False}),
        chat(conversation, chat_template="{{ messages }}"),
        read("/v1/messages", json.dumps({"model": "m", "messages": conversation}).encode(), KEY),
    ]
    links = [link for prompt in prompts for link in set(prompt.chain)]
    assert len(links) == len(set(links))
    assert len({prompt.root for prompt in prompts}) == len(prompts)


@given(conversations)
def test_settings_of_the_answer_leave_the_chain_alone(conversation: list[Any]) -> None:
    assert chat(conversation).chain == chat(conversation, temperature=1, stream=True, max_tokens=3).chain


@given(conversations)
def test_bytes_and_a_view_of_them_read_the_same(conversation: list[Any]) -> None:
    body = json.dumps({"messages": conversation}).encode()
    for path in PATHS:
        assert read(path, memoryview(body), KEY) == read(path, body, KEY)


anything: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
known = [
    "messages", "prompt", "input", "instructions", "system", "tools", "stream", "max_tokens", "text",
    "input_ids", "inputs", "parameters", "sampling_params", "cache_salt", "documents", "n_predict",
]  # fmt: skip
odd_message = st.fixed_dictionaries({}, optional=dict.fromkeys(["role", "content", "tool_calls"], anything))
odd_bodies = st.fixed_dictionaries(
    {}, optional={name: st.one_of(anything, st.lists(odd_message, max_size=3)) for name in known}
)


@given(st.sampled_from(PATHS), odd_bodies, st.none() | st.text())
def test_an_object_with_fields_of_any_type_is_read(
    path: str, body: dict[str, Any], model: str | None
) -> None:
    prompt = read(path, json.dumps({**body, "model": model}).encode(), KEY)
    assert prompt.model == model


@given(st.sampled_from(PATHS), st.one_of(anything, anything.map(lambda x: {"model": x})))
def test_json_that_is_no_object_or_names_no_model_is_unreadable(path: str, value: Any) -> None:
    body = json.dumps(value).encode()
    if isinstance(value, dict) and isinstance(value.get("model"), str | None):
        read(path, body, KEY)
    else:
        with pytest.raises(Unreadable):
            read(path, body, KEY)


@given(st.sampled_from(PATHS), st.binary(max_size=200), odd_bodies, st.data())
@example(CHAT, b"\xff", {"messages": [{"role": "user", "content": "hi"}]}, None)
def test_no_bytes_raise_anything_but_unreadable(
    path: str, noise: bytes, body: dict[str, Any], data: st.DataObject | None
) -> None:
    whole = json.dumps(body).encode()
    at = data.draw(st.integers(0, len(whole))) if data else len(whole) // 2
    refused: list[str] = []
    for candidate in (noise, whole[:at], whole[:at] + noise + whole[at:], whole[:at] + noise):
        try:
            read(path, candidate, KEY)
        except Unreadable as error:
            refused.append(error.reason)
    assert all(refused)
