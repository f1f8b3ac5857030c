"""`shadowlane diff`: lists, one pair, and what it says of a pair that there is not."""

import json
from pathlib import Path

import pytest

from analysis.measure import measure
from analysis.spec import TextSpec
from analysis.store import NAME, Header, LogWriter
from analysis.texts import Texts
from gateway.cli import main
from tests.analysis.fleet import answer_frame, pair_frame
from tests.analysis.trials import SPEC

WORDS = ["the ", "sesame ", "opens ", "it"]


@pytest.fixture
def state(tmp_path: Path) -> Path:
    writer = LogWriter(tmp_path / "kv" / NAME, Header(1, SPEC))
    writer.open()
    for n in range(12):
        answers = [
            answer_frame("control", 0, 200, 20, WORDS),
            answer_frame("quick", 0, 100 + n, 10, [*WORDS[: n % 4], "otherwise"]),
        ]
        writer.append("pair", measure(pair_frame(answers, id=f"p{n}")))
    writer.close()
    return tmp_path


def diff(state: Path, *flags: str) -> int:
    return main(["diff", "kv", *flags, "--state-dir", str(state)])


def test_without_a_pair_those_that_differ_most_are_listed(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(state, "--limit", "3") == 0
    rows = capsys.readouterr().out.splitlines()[3:]
    assert [row.split()[0] for row in rows] == ["p0", "p4", "p8"]
    assert diff(state, "--by", "ttft", "--limit", "1", "--json") == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert (found["id"], found["candidate"]) == ("p11", "quick")


def test_one_pair_is_shown_arm_by_arm(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert diff(state, "p2") == 0
    said = capsys.readouterr().out
    assert "the first difference is at character 12" in said and "gaps between tokens" in said
    assert "sesame" not in said
    assert diff(state, "p2", "--json") == 0
    assert json.loads(capsys.readouterr().out)["partings"]["quick"][0]["at"] == 12


def test_where_texts_were_kept_they_are_shown_word_under_word(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = [answer_frame("control", 0, 200, 20, WORDS), answer_frame("quick", 0, 100, 10, ["the ", "end"])]
    Texts(state / "kv", TextSpec(1 << 20)).keep(pair_frame(said, id="p1"))
    assert diff(state, "p1") == 0
    lines = capsys.readouterr().out.splitlines()
    assert "  control  the sesame opens it" in lines and "  quick    the end" in lines
    assert diff(state, "p1", "--json") == 0
    answers = json.loads(capsys.readouterr().out)["answers"]
    assert [answer["texts"] for answer in answers] == [["the sesame opens it"], ["the end"]]
    assert diff(state, "p2") == 0 and "sesame" not in capsys.readouterr().out  # its text is not kept


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["nobody"], "kv has no pair 'nobody': `shadowlane diff kv` lists some"),
        (["--candidate", "fast"], "no candidate 'fast'; there are: quick, same, slow"),
    ],
)
def test_what_there_is_not_is_told_with_what_there_is(
    state: Path, flags: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert diff(state, *flags) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "rank"])
def test_a_page_is_not_written_over_the_log_it_is_made_of(
    command: str, state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = state / "kv" / NAME
    before = log.read_bytes()
    for page in (log, state / "kv" / ".." / "kv" / NAME):
        assert main([command, "kv", "--html", str(page), "--state-dir", str(state)]) == 2
        said = capsys.readouterr()
        assert "--html: " in said.err and "would be overwritten" in said.err and said.out == ""
    assert log.read_bytes() == before
    main([command, "kv", "--html", str(log.with_name("page.html")), "--state-dir", str(state)])
    assert log.with_name("page.html").read_text().startswith("<!doctype html>")
