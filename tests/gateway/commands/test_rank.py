"""`shadowlane rank`: what it prints, and its exit status as a gate."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.store import NAME, Header, LogWriter
from gateway.cli import main
from tests.analysis.trials import SPEC, records

RECORDS = records(800)


@pytest.fixture(scope="module")
def state(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("state")
    writer = LogWriter(folder / "kv" / NAME, Header(1, replace(SPEC, name="kv")))
    writer.open()
    for record in RECORDS:
        writer.append("pair", record)
    writer.close()
    return folder


def rank(state: Path, *flags: str) -> int:
    """The outputs are accepted: to show that they are the control's takes more pairs than these."""
    return main(["rank", "kv", "--state-dir", str(state), "--accept-outputs", *flags])


@pytest.mark.parametrize(
    ("flags", "status"),
    [
        ([], 0),
        (["--fail-if", "tpot>+60%"], 0),
        (["--fail-if", "slow:tpot>+5%"], 3),
        (["--fail-if", "tpot>+60%", "--fail-if", "slow:tpot>+5%"], 3),
        (["--fail-if", "ttft_p99>+60%"], 4),
        (["--fail-if", "ttft_p99>+60%", "--unknown-passes"], 0),
        (["--fail-if", "ttft_p99>+60%", "--fail-if", "slow:tpot>+5%", "--unknown-passes"], 3),
        (["--fail-if", "speed>+5%"], 2),
        (["--fail-if", "fast:tpot>+5%"], 2),
        (["--weight", "tpot=0"], 2),
    ],
)
def test_the_exit_status_says_whether_a_condition_is_met(
    state: Path, flags: list[str], status: int, capsys: pytest.CaptureFixture[str]
) -> None:
    assert rank(state, *flags) == status
    said = capsys.readouterr()
    assert (said.err == "") is (status != 2) and said.err.count("\n") == (status == 2)
    assert ("quick wins" in said.out) is (status != 2)


def test_each_form_is_what_it_is_for(state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "decision.html"
    assert rank(state, "--json", "--html", str(page)) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["answer"], found["winner"]["name"]) == ("WINNER", "quick")
    assert page.read_text().startswith("<!doctype html>") and "quick wins" in page.read_text()
    assert rank(state, "--markdown") == 0
    assert capsys.readouterr().out.startswith("### Shadowlane: kv\n")


def test_the_same_log_gives_the_same_bytes(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = []
    for _ in range(2):
        rank(state, "--json", "--fail-if", "ttft_p95>+5%")
        said.append(capsys.readouterr().out)
    assert said[0] == said[1]


def test_a_log_that_is_not_there_and_a_page_that_cannot_be_written_are_told_in_one_line(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rank", "other", "--state-dir", str(state)]) == 1
    assert "there are: kv" in capsys.readouterr().err
    assert rank(state, "--html", str(tmp_path)) == 2
    assert "--html: " in capsys.readouterr().err
    assert rank(state, "--html", "/proc/self/page.html") == 1
    assert "cannot write" in capsys.readouterr().err


def test_flags_that_exclude_each_other_are_refused(state: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        rank(state, "--json", "--markdown")
    assert ended.value.code == 2


def test_an_experiment_that_has_just_begun_is_undecided(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer = LogWriter(tmp_path / "kv" / NAME, Header(1, SPEC))
    writer.open()
    for record in RECORDS[:50]:
        writer.append("pair", record)
    writer.close()
    assert rank(tmp_path, "--fail-if", "tpot>+5%") == 4
    said = capsys.readouterr().out
    assert "Undecided, too early: the calibration is 25% done (50 of 100 pairs, 5 of 20 s);" in said
    assert "if no more pairs come, send more requests, or begin anew" in said
