"""Golden requests in files: our own, GSM8K's and HumanEval's; and those we ship can be answered right."""

import gzip
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from analysis.checkers._choose import checker_of
from analysis.quality import Quality
from config.golden import Golden
from gateway.golden.compose import golden_of
from gateway.golden.read import SHIPPED, read_golden
from mirror.spec import GoldenItem
from tests.gateway.golden.shipped_answers import ANSWERS

GSM8K = {"question": "Two and 3 more?", "answer": "2 + 3 = <<2+3=5>>5\n#### 1,005"}
HUMANEVAL = {
    "task_id": "HumanEval/0",
    "prompt": "def one() -> int:\n    '''Gives 1.'''\n",
    "entry_point": "one",
    "canonical_solution": "    return 1\n",
    "test": "def check(candidate):\n    assert candidate() == 1\n",
}
OWN = {"id": "own/1", "prompt": "Say yes.", "check": {"kind": "exact", "value": "yes"}, "max_tokens": 4}

SHIPPED_ITEMS = read_golden(SHIPPED)


def written(path: Path, *items: Any) -> Path:
    raw = "\n".join(json.dumps(item) for item in items).encode()
    path.write_bytes(gzip.compress(raw) if path.suffix == ".gz" else raw)
    return path


def passes(item: GoldenItem, text: str) -> bool | None:
    return checker_of(json.loads(item.check)).passes(text)


@pytest.mark.parametrize("name", ["x.jsonl", "x.jsonl.gz"])
def test_public_sets_are_read_in_their_own_format(tmp_path: Path, name: str) -> None:
    sums, code, own = read_golden(written(tmp_path / name, GSM8K, HUMANEVAL, OWN))
    assert (sums.id, code.id, own.id) == ("x/1", "HumanEval/0", "own/1")
    assert passes(sums, "so\n#### 1005") and not passes(sums, "#### 5")
    assert passes(code, HUMANEVAL["canonical_solution"]) and not passes(code, "    return 2\n")
    assert passes(own, "yes")
    assert json.loads(own.body) == {"messages": [{"role": "user", "content": "Say yes."}], "max_tokens": 4}
    assert "Two and 3 more?" in json.loads(sums.body)["messages"][0]["content"]


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([], "no golden request"),
        (["{"], "line 1"),
        ([json.dumps(OWN), "[]"], "line 2"),
        ([json.dumps({"prompt": "x"})], "neither"),
        ([json.dumps({**OWN, "check": {"kind": "guess"}})], "kind"),
        ([json.dumps({**OWN, "max_tokens": 0})], "max_tokens"),
        ([json.dumps(OWN), json.dumps(OWN)], "own/1"),
        ([json.dumps({"question": "x", "answer": "no number"})], "number"),
        ([json.dumps({"question": "x", "answer": 5})], "line 1: question, answer: expected texts"),
        ([json.dumps({**OWN, "prompt": 5})], "line 1: prompt: expected a text"),
        ([json.dumps({"messages": [], "check": OWN["check"]})], "line 1: prompt: expected a text"),
        ([f'{{"deep": {"[" * 5000 + "]" * 5000}}}'], "line 1"),
    ],
)
def test_a_file_that_is_none_says_where_and_why(tmp_path: Path, lines: list[str], wrong: str) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(ValueError, match=wrong):
        read_golden(path)


def test_a_line_ends_at_a_newline_only(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    path.write_text(json.dumps({**OWN, "prompt": "a\u2028b\u0085c"}, ensure_ascii=False) + "\r\n")
    (item,) = read_golden(path)
    assert json.loads(item.body)["messages"][0]["content"] == "a\u2028b\u0085c"


def test_what_unpacks_to_more_than_a_file_may_have_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl.gz"
    path.write_bytes(gzip.compress(b"\n" * ((64 << 20) + 1), 1))
    with pytest.raises(ValueError, match="unpacked it has more than 64 MiB"):
        read_golden(path)


def test_a_users_command_marks_in_place_of_what_the_file_says(tmp_path: Path) -> None:
    (item,) = read_golden(written(tmp_path / "x.jsonl", OWN), ("mark", "--strict"))
    check = json.loads(item.check)
    assert (check["kind"], check["argv"]) == ("command", ["mark", "--strict"])
    assert json.loads(check["expected"]) == OWN


def test_programs_are_run_only_where_that_is_said(tmp_path: Path) -> None:
    file = written(tmp_path / "x.jsonl", GSM8K, HUMANEVAL)
    without, run = (golden_of(Golden(files=(file,), shipped=False, run_code=code)) for code in (False, True))
    assert without is not None and run is not None
    assert [item.id for item in without.items] == ["x/1"]
    assert [item.id for item in run.items] == ["x/1", "HumanEval/0"]
    few = golden_of(Golden(files=(file,), requests=3, every=7))
    assert few is not None and (len(few.items), few.every) == (3, 7)
    assert golden_of(None) is None


def test_what_we_ship_is_distinct_and_has_an_answer_known_to_be_right_for_each() -> None:
    items = SHIPPED_ITEMS
    prompts = [json.loads(item.body)["messages"][0]["content"] for item in items]
    assert {item.id for item in items} == ANSWERS.keys() and len(set(prompts)) == len(items) == 200
    assert {json.loads(item.check)["kind"] for item in items} == {
        "exact",
        "numeric",
        "regex",
        "json_schema",
        "code",
    }


@pytest.mark.parametrize("item", SHIPPED_ITEMS, ids=lambda item: item.id)
def test_what_we_ship_passes_a_right_answer_and_none_that_is_nearly_right(item: GoldenItem) -> None:
    right, *wrong = ANSWERS[item.id]
    asked = json.loads(item.body)["messages"][0]["content"]
    assert wrong and passes(item, right) is True
    assert {text: passes(item, text) for text in (*wrong, "I do not know.", asked)} == dict.fromkeys(
        (*wrong, "I do not know.", asked), False
    )


@pytest.mark.parametrize("kind", ["sum", "word", "form", "json"])
def test_no_right_answer_to_one_of_what_we_ship_passes_for_another_one(kind: str) -> None:
    def plain(text: str) -> str:
        return text.strip(".").casefold()

    items = [item for item in SHIPPED_ITEMS if item.id.startswith(f"shipped/{kind}-")]
    for item in items:
        right, checker = plain(ANSWERS[item.id][0]), checker_of(json.loads(item.check))
        for other in items:
            theirs = ANSWERS[other.id][0]
            assert checker.passes(theirs) is (plain(theirs) == right), (item.id, other.id)


@pytest.mark.parametrize(("candidates", "run_code", "lost"), [(1, True, 2), (2, False, 1), (3, False, 1)])
def test_what_we_ship_is_enough_for_the_gate_where_a_candidate_alone_loses_one_or_two(
    candidates: int, run_code: bool, lost: int
) -> None:
    quality, rng, asked = Quality("candidate"), Random(6), golden_of(Golden(run_code=run_code))
    assert asked is not None and len(asked.items) == (200 if run_code else 172)
    for number, item in enumerate(asked.items):
        passed = number < lost or rng.random() < 0.8  # else both get it right, or both wrong
        quality.add(item.id, {"control": passed, "candidate": passed and number >= lost})
    assert quality.show(0.05 / candidates)["not_worse"] is True
