"""Whatever a client writes where a schema should be, pairs are measured."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.asked import read_asked
from analysis.fields import FORM
from analysis.metrics._choose import every_metric
from analysis.transcript import Choice, Content, ToolCall

WORDS = [
    *(
        "type",
        "properties",
        "items",
        "required",
        "$ref",
        "$id",
        "$defs",
        "$dynamicRef",
        "allOf",
        "anyOf",
        "not",
    ),
    *("enum", "const", "pattern", "minimum", "multipleOf", "json_schema", "schema", "json_object", "object"),
    *("array", "string", "function", "name", "parameters", "format", "uniqueItems", "contains", "if", "then"),
    *("unevaluatedProperties", "dependentSchemas", "propertyNames", "maxLength", "#", "#/$defs/a", "a"),
]
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(WORDS)
JSON: st.SearchStrategy[Any] = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(WORDS), inner, max_size=4),
    max_leaves=14,
)
WRAPPED = st.one_of(
    JSON,
    JSON.map(lambda schema: {"type": "json_schema", "json_schema": {"schema": schema}}),
    JSON.map(lambda schema: {"json": schema}),
    JSON.map(lambda schema: [{"type": "function", "function": {"name": "a", "parameters": schema}}]),
)


@settings(max_examples=400, deadline=None)
@given(name=st.sampled_from(FORM), asked=WRAPPED, said=JSON)
def test_any_json_where_a_schema_should_be_raises_nothing(name: str, asked: Any, said: Any) -> None:
    text = json.dumps(said)
    found = read_asked({name: json.dumps(asked).encode()})
    choice = Choice(0, text, tool_calls=(ToolCall("a", text),))
    content = Content(choices=(choice,), asked=found)
    for metric in every_metric().values():
        assert metric.score(content, content) in (None, metric.same)


@pytest.mark.parametrize("levels", [700, 1_500, 9_000, 25_000])
def test_json_nested_however_deep_is_measured(levels: int) -> None:
    """How deep may be decoded depends on the Python: some of these are, and cannot be gone through."""
    asked = read_asked(
        {"response_format": b'{"type":"json_schema","json_schema":{"schema":{"type":"array"}}}'}
    )
    control, candidate = (
        Content(choices=(Choice(0, text, tool_calls=(ToolCall("a", text),)),), asked=asked)
        for text in ("[" * levels + "]" * levels, "[ " + "[" * (levels - 1) + "]" * levels)
    )
    for metric in every_metric().values():
        assert metric.score(control, control) in (None, metric.same)
        found = metric.score(control, candidate)
        assert found is None or found >= 0.0


@given(raw=st.binary(max_size=30))
def test_bytes_that_are_no_json_ask_for_nothing(raw: bytes) -> None:
    try:
        json.loads(raw)
    except ValueError:
        assert all(read_asked({name: raw}) is None for name in FORM)
