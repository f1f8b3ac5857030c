"""A copy's body differs from the client's by the rewrites it declares, and by nothing else."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mirror.rewrite import LOGPROBS, MODEL, SALT, TOKEN_IDS, USAGE, WHOLE, Body
from wire.dialect import Dialect, dialect

CHAT = "/v1/chat/completions"
Arm = tuple[str | None, Dialect]
plain: Arm = None, dialect("openai")
vllm: Arm = "fp8", dialect("vllm")

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
documents = st.fixed_dictionaries(
    {},
    optional={
        "model": st.sampled_from(["llama", "lora-7"]),
        "stream": st.booleans(),
        "stream_options": st.none()
        | st.fixed_dictionaries({"include_usage": st.booleans(), "x": values})
        | values,
        "cache_salt": st.text(),
        "return_token_ids": st.booleans(),
        "messages": values,
        "é\n": values,
    },
)
FIELDS = {MODEL: "model", USAGE: "stream_options", TOKEN_IDS: "return_token_ids", SALT: "cache_salt"}


@given(
    documents,
    st.sampled_from([plain, vllm]),
    st.none() | st.just("twin"),
    st.sampled_from([CHAT, "/generate"]),
)
def test_the_difference_is_the_list_of_rewrites(
    document: dict[str, Any], arm: Arm, salt: str | None, path: str
) -> None:
    before = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    after, rewrites = Body(path, before).for_arm(*arm, ("llama",), salt)
    if not rewrites:
        assert after == before
    read = json.loads(after)
    changed = {key for key in {*document, *read} if document.get(key, ...) != read.get(key, ...)}
    assert changed == {FIELDS[name] for name in rewrites}


def test_values_pass_through_as_they_were_written() -> None:
    before = b'{"model" : "llama","seed":12345678901234567890123,"t": 1.10e0, "m":[ {"a":"\\u00e9"} ]}'
    after, rewrites = Body(CHAT, before).for_arm(*vllm, (), None)
    assert rewrites == (MODEL, TOKEN_IDS)
    expected = (
        b'{"model":"fp8","seed":12345678901234567890123,"t":1.10e0,'
        b'"m":[ {"a":"\\u00e9"} ],"return_token_ids":true}'
    )
    assert after == expected


def test_a_lora_of_the_clients_choice_keeps_its_name() -> None:
    assert Body("/generate", b'{"model":"lora-7"}').for_arm(*vllm, ("llama",), None) == (
        b'{"model":"lora-7"}',
        (),
    )


def test_usage_is_asked_of_streams_and_other_options_stay() -> None:
    after, rewrites = Body(CHAT, b'{"stream":true,"stream_options":{"k":1}}').for_arm(*plain, (), None)
    assert json.loads(after)["stream_options"] == {"k": 1, "include_usage": True} and rewrites == (USAGE,)
    assert Body(CHAT, b'{"stream":false}').for_arm(*plain, (), None)[1] == ()
    assert Body("/v1/messages", b'{"stream":true}').for_arm(*plain, (), None)[1] == ()


def test_twins_of_two_tenants_get_different_salts_and_of_one_always_the_same() -> None:
    def salt(own: str) -> str:
        body = json.dumps({"cache_salt": own} if own else {}).encode()
        return str(json.loads(Body(CHAT, body).for_arm(*vllm, (), "twin")[0])["cache_salt"])

    assert salt("a") == salt("a")
    assert len({salt("a"), salt("b"), salt("")}) == 3


@pytest.mark.parametrize("body", [b"", b"[1]", b"{", b'{"model":"llama"} x', b"\xff\xfe", b"\x1f\x8b\x08"])
def test_what_is_no_json_object_is_sent_as_it_is(body: bytes) -> None:
    assert Body(CHAT, body).for_arm(*vllm, (), "twin") == (body, ())


def test_a_compressed_body_is_not_touched() -> None:
    assert Body(CHAT, b'{"model":"llama"}', encoded=True).for_arm(*vllm, (), None) == (
        b'{"model":"llama"}',
        (),
    )


def test_what_is_asked_of_the_form_goes_with_the_pair_and_the_prompt_does_not() -> None:
    asked = {"response_format": {"type": "json_object"}, "tools": [{"x": 1}], "messages": ["secret"]}
    form = Body(CHAT, json.dumps(asked).encode()).form()
    assert {name: json.loads(raw) for name, raw in form.items()} == {
        name: asked[name] for name in ("response_format", "tools")
    }
    assert Body(CHAT, json.dumps({**asked, "tools": ["x" * 70_000]}).encode()).form() == {}
    assert Body(CHAT, b"[1]").form() == Body(CHAT, b"{}", encoded=True).form() == {}


def test_logprobs_are_asked_for_where_wanted_unless_the_client_does_or_offers_tools() -> None:
    def asked(path: str, **fields: Any) -> tuple[dict[str, Any], tuple[str, ...]]:
        after, rewrites = Body(path, json.dumps(fields).encode()).for_arm(*plain, (), None, 5)
        return json.loads(after), rewrites

    assert asked(CHAT, n=1) == ({"n": 1, "logprobs": True, "top_logprobs": 5}, (LOGPROBS,))
    assert asked("/v1/completions", n=1) == ({"n": 1, "logprobs": 5}, (LOGPROBS,))
    odd: tuple[dict[str, Any], ...] = ({"logprobs": False}, {"top_logprobs": 2}, {"tools": []})
    for fields in odd:
        assert asked(CHAT, **fields) == (fields, ())
    assert asked("/v1/messages", n=1) == ({"n": 1}, ())


@pytest.mark.parametrize("options", [{}, {"stream_options": {"include_usage": True}}])
def test_where_ids_come_with_answers_in_one_piece_only_none_is_streamed_once_they_are_wanted(
    options: dict[str, Any],
) -> None:
    body = Body(CHAT, json.dumps({"model": "llama", "stream": True, **options}).encode())
    sglang = dialect("sglang")
    after, rewrites = body.for_arm(None, sglang, (), None, ids=True)
    read = json.loads(after)
    assert read["stream"] is False and read["return_token_ids"] is True
    assert read.get("stream_options") is None and set(rewrites) == {WHOLE, TOKEN_IDS}
    assert b"return_token_ids" not in body.for_arm(None, sglang, (), None)[0]
    streamed, _ = body.for_arm(None, dialect("vllm"), (), None, ids=True)
    assert json.loads(streamed)["stream"] is True  # it tells them in streams, too
