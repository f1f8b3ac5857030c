"""Members are set and taken out of any JSON object where they stand, and no other byte of it changes."""

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gateway.split.splice import NotAnObject, read

_BLANKS = st.text(" \t\r\n", max_size=2)
_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
_KEYS = st.sampled_from(["stream", "n", 'a"b', "ключ", "\\", "", "max_tokens", "{", "]"])


@st.composite
def _texts(draw: st.DrawFn) -> str:
    """An object's text as anybody may write it: blanks anywhere, escapes or not, keys more than once."""
    members = []
    for key, value in draw(st.lists(st.tuples(_KEYS, _VALUES), max_size=6)):
        ascii_ = draw(st.booleans())
        written = json.dumps(value, ensure_ascii=ascii_, indent=draw(st.sampled_from([None, 1])))
        name = json.dumps(key, ensure_ascii=ascii_)
        members.append(f"{draw(_BLANKS)}{name}{draw(_BLANKS)}:{draw(_BLANKS)}{written}{draw(_BLANKS)}")
    return f"{draw(_BLANKS)}{{{','.join(members)}{'' if members else draw(_BLANKS)}}}{draw(_BLANKS)}"


@given(_texts(), st.dictionaries(_KEYS, _VALUES, max_size=4), st.sets(_KEYS, max_size=4))
@example('{"n":1,"n":2}', {"n": 3}, set())
@example("{}", {"n": 3}, {"n"})
def test_what_is_set_is_there_what_is_dropped_is_gone_and_the_rest_is_as_it_was(
    text: str, put: dict[str, Any], drop: set[str]
) -> None:
    drop -= put.keys()
    asked = read(text.encode())
    spliced = asked.spliced({key: json.dumps(value).encode() for key, value in put.items()}, drop)
    wanted = {key: value for key, value in json.loads(text).items() if key not in drop} | put
    assert json.loads(spliced) == wanted
    again = read(spliced)
    for key in put:
        assert sum(one.key == key for one in again.members) == 1
    kept = [one for one in asked.members if one.key not in put and one.key not in drop]
    left = [one for one in again.members if one.key not in put]
    assert [asked.text[one.start : one.end] for one in kept] == [spliced[one.start : one.end] for one in left]
    head, tail = text[: text.index("{")].encode(), text[text.rindex("}") :].encode()
    assert spliced.startswith(head + b"{") and spliced.endswith(tail)


@given(_texts())
def test_with_nothing_to_do_it_is_the_very_text(text: str) -> None:
    asked = read(text.encode())
    assert asked.spliced({}, ()) is asked.text
    assert asked.spliced({}, ("not there",)) is asked.text


@given(_texts())
def test_a_members_value_is_that_of_the_last_of_its_name(text: str) -> None:
    asked = read(text.encode())
    for key, value in json.loads(text).items():
        raw = asked.raw(key)
        assert raw is not None
        assert json.loads(raw) == value
    assert asked.raw("not there") is None


def test_a_member_is_set_where_it_stands() -> None:
    asked = read(b'\xef\xbb\xbf{ "a" : 1 , "stream":true,"z":[1, {"stream":true}] }\n')
    assert asked.spliced({"stream": b"false", "n": b"1"}, ("a",)) == (
        b'\xef\xbb\xbf{ "stream":false,"z":[1, {"stream":true}],"n":1 }\n'
    )


@given(st.binary(max_size=60) | st.text('{}[]",:\\ a1', max_size=40).map(str.encode))
def test_whatever_the_bytes_they_are_read_or_refused(text: bytes) -> None:
    try:
        asked = read(text)
    except NotAnObject:
        return
    assert asked.spliced({}, ()) is text


@pytest.mark.parametrize(
    "text", [b"", b"[]", b'"{}"', b"{", b'{"a"', b'{"a":', b'{"a":1', b'{"a":1 "b":2}', b"{1:2}"]
)
def test_what_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(NotAnObject):
        read(text)


def test_a_text_of_brackets_without_end_is_given_up() -> None:
    with pytest.raises(NotAnObject):
        read(b'{"a":' + b"[" * 500_000)
