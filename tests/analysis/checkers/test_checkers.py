"""What passes a check, what does not, and what a description of a check must say."""

import sys
from typing import Any

import pytest

from analysis.checkers._choose import checker_of


def passes(text: str, **check: Any) -> bool | None:
    return checker_of(check).passes(text)


def test_exact_looks_past_white_space_quotes_and_a_full_stop() -> None:
    for text in ("Oslo", " Oslo.\n", '"Oslo"', "**Oslo**", "**Oslo.**", '"Oslo."', '"Oslo".'):
        assert passes(text, kind="exact", value="Oslo")
    assert not passes("Oslo, Norway", kind="exact", value="Oslo")
    assert not passes("oslo", kind="exact", value="Oslo")
    assert passes("the OSLO", kind="exact", values=["Oslo", "the Oslo"], ignore_case=True)


def test_numeric_takes_the_last_number_as_gsm8k_does() -> None:
    assert passes("3 + 4 = 7, so\n#### 1,234", kind="numeric", value="1234")
    assert passes("It is 3.140", kind="numeric", value=3.14)
    assert not passes("#### 12\nThat was 13", kind="numeric", value=12)
    assert passes("about 99.7", kind="numeric", value=100, tolerance=0.5)
    assert not passes("no number", kind="numeric", value=0)


def test_regex_finds_or_is_the_whole() -> None:
    assert passes("it is 14:30 now", kind="regex", pattern=r"14:30")
    assert not passes("it is 14:30 now", kind="regex", pattern=r"14:30", whole=True)
    assert passes(" 14:30\n", kind="regex", pattern=r"14:30", whole=True)


def test_json_schema_takes_the_whole_text_or_its_fence() -> None:
    check: dict[str, Any] = {"kind": "json_schema", "schema": {"type": "object", "required": ["a"]}}
    assert passes('```json\n{"a": 1}\n```', **check)
    assert not passes('Here: {"a": 1}', **check)
    assert not passes("{}", **check)


def test_a_users_command_says_right_wrong_or_nothing() -> None:
    script = "import sys; text = sys.stdin.read(); sys.exit(0 if text == sys.argv[1] else 1 if text else 7)"
    check: dict[str, Any] = {
        "kind": "command", "argv": [sys.executable, "-c", script], "expected": "right", "timeout_s": 60
    }  # fmt: skip
    assert passes("right", **check) is True
    assert passes("wrong", **check) is False
    assert passes("", **check) is None
    assert passes("x", kind="command", argv=["/no/such/program"]) is None
    waiting = "import time; time.sleep(60)"
    assert passes("x", kind="command", argv=[sys.executable, "-c", waiting], timeout_s=0.2) is None


@pytest.mark.parametrize(
    ("check", "wrong"),
    [
        ({}, "kind"),
        ({"kind": "guess"}, "kind"),
        ({"kind": "exact"}, "value"),
        ({"kind": "exact", "vaule": "x"}, "vaule"),
        ({"kind": "numeric", "value": "many"}, "number"),
        ({"kind": "numeric", "value": "nan"}, "finite"),
        ({"kind": "regex", "pattern": "("}, "pattern"),
        ({"kind": "json_schema", "schema": {"type": 5}}, "schema"),
        ({"kind": "code", "entry_point": "a b", "tests": ""}, "name"),
        ({"kind": "command", "argv": []}, "argv"),
        ({"kind": "regex"}, "pattern"),
    ],
)
def test_a_check_that_is_none_says_what_is_wrong(check: dict[str, Any], wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        checker_of(check)
