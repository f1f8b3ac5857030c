"""What the patterns match is in no string of a request any more, but a request stays one that can be sent."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.redact import REPLACED, Redaction

SAID: dict[str, Any] = {
    "model": "llama-3.1",
    "messages": [{"role": "user", "content": "llama-3.1 is at 10.0.0.1"}, {"model": "llama-3.1"}],
}


def test_what_matches_is_replaced_in_every_string_but_the_models_name() -> None:
    clean = Redaction([r"llama-\d\.\d", r"10(\.\d+){3}"]).request(json.dumps(SAID).encode())
    assert clean == {
        "model": "llama-3.1",
        "messages": [{"role": "user", "content": f"{REPLACED} is at {REPLACED}"}, {"model": REPLACED}],
    }


def test_a_model_that_is_no_name_is_redacted_like_all_else() -> None:
    assert Redaction(["secret"]).request(b'{"model": ["a secret"]}') == {"model": [f"a {REPLACED}"]}


@given(st.dictionaries(st.sampled_from(["model", "prompt", "user"]), st.text("ab7", max_size=8)))
def test_a_body_has_the_same_fields_and_nothing_else_that_matches(body: dict[str, str]) -> None:
    clean = Redaction(["7"]).request(json.dumps(body).encode())
    assert clean is not None and clean.keys() == body.keys()
    assert clean.get("model") == body.get("model")
    assert not any("7" in value for name, value in clean.items() if name != "model")
