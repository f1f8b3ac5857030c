"""Less output asked for: wherever an API says it, never more than before, and nothing else changed."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.shorten import shortened

CHAT, GENERATE = "/v1/chat/completions", "/generate"


@pytest.mark.parametrize(
    ("path", "asked", "sent"),
    [
        (CHAT, {"max_tokens": 500}, {"max_tokens": 64}),
        (CHAT, {"max_completion_tokens": 500}, {"max_completion_tokens": 64}),
        (
            CHAT,
            {"max_completion_tokens": 9, "max_tokens": 500},
            {"max_completion_tokens": 9, "max_tokens": 64},
        ),
        (CHAT, {"max_tokens": 64}, {"max_tokens": 64}),
        (CHAT, {"max_tokens": None}, {"max_tokens": 64}),
        (CHAT, {}, {"max_tokens": 64}),
        ("/v1/completions", {"max_tokens": 0}, {"max_tokens": 0}),
        ("/v1/messages", {"max_tokens": 1 << 70}, {"max_tokens": 64}),
        ("/v1/responses", {}, {"max_output_tokens": 64}),
        ("/completion", {"n_predict": -1}, {"n_predict": 64}),
        (GENERATE, {"text": "x"}, {"text": "x", "sampling_params": {"max_new_tokens": 64}}),
        (
            GENERATE,
            {"text": "x", "sampling_params": {"top_p": 0.5, "max_new_tokens": 65}},
            {"text": "x", "sampling_params": {"top_p": 0.5, "max_new_tokens": 64}},
        ),
        (GENERATE, {"inputs": "x"}, {"inputs": "x", "parameters": {"max_new_tokens": 64}}),
        ("/generate_stream", {"parameters": {"max_new_tokens": 3}}, {"parameters": {"max_new_tokens": 3}}),
    ],
)
def test_each_api_has_its_own_limit(path: str, asked: dict[str, Any], sent: dict[str, Any]) -> None:
    made = shortened(path, json.dumps(asked).encode(), 64)
    assert made is not None
    assert json.loads(made) == sent


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/embeddings", b"{}"),
        (CHAT, b""),
        (CHAT, b"[1]"),
        (CHAT, b'{"max_tokens": 5'),
        (CHAT, b'{"a\xff": 1}'),
        (GENERATE, b'{"text": ["x", "y"], "sampling_params": [{}, {}]}'),
        (CHAT, b"[" * 100_000),
    ],
)
def test_what_cannot_be_shortened_is_said_to_be_so(path: str, body: bytes) -> None:
    assert shortened(path, body, 64) is None


FINITE = st.floats(allow_nan=False, allow_infinity=False)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(1 << 80), 1 << 80) | FINITE | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip


@given(
    st.dictionaries(st.text().filter(lambda name: name != "max_tokens"), JSON, max_size=5),
    st.integers(0, 1000),
)
def test_every_other_field_keeps_its_value(fields: dict[str, Any], asked: int) -> None:
    fields.pop("max_completion_tokens", None)
    made = shortened(CHAT, json.dumps({**fields, "max_tokens": asked}).encode(), 64)
    assert made is not None
    assert json.loads(made) == {**fields, "max_tokens": min(asked, 64)}


def test_the_text_of_what_is_kept_is_kept() -> None:
    made = shortened(CHAT, b'{"temperature": 0.10, "n": 1e2, "max_tokens": 99}', 64)
    assert made is not None
    assert b"0.10" in made and b"1e2" in made
