"""Words of others do not command a terminal, in whatever is printed."""

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from analysis.ranking import Trial
from analysis.store import NAME, Header, LogWriter
from gateway.cli import main
from gateway.commands.terminal import ranking_table
from tests.analysis.trials import SPEC, records
from wire.plain import plain

ORDER = "\x1b]0;title\x07\x1b[31m\x9b2J\r\u202e"


@given(st.text())
def test_nothing_commands_and_all_else_stays(text: str) -> None:
    shown = plain(text)
    assert len(shown) == len(text)
    for one, other in zip(text, shown, strict=True):
        if category(one) == "Cc" and one not in "\n\t":
            assert other == "·"
        else:
            assert other == one or (category(one) == "Cf" and other == "·")


def test_lines_tabs_signs_and_every_script_stay() -> None:
    text = "α ±5 % … 漢字 \u0639\t✓\n–\u00a0é"
    assert plain(text) == text
    assert plain(ORDER) == "·]0;title··[31m·2J··"


@pytest.mark.parametrize("command", ["report", "rank"])
def test_what_a_gpu_is_called_commands_neither_terminal_nor_page(
    command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    log = tmp_path / NAME
    writer = LogWriter(log, Header(1, SPEC))
    writer.open()
    first, *rest = records(60)
    gpus = [{"uuid": f"GPU-{ORDER}", "name": f"H200{ORDER}", "power_w": 500.0}]
    writer.append("pair", first)
    for at_ns in (first.at_ns, first.at_ns + 10**9):
        writer.append("gpu", {"arm": "same", "at_ns": at_ns, "source": ORDER, "gpus": gpus})
    for record in rest:
        writer.append("pair", record)
    writer.close()
    page = tmp_path / "page.html"
    assert main([command, str(log), "--html", str(page)]) == 0
    shown = capsys.readouterr().out
    assert "\n" in shown and shown == plain(shown)
    assert page.read_text() == plain(page.read_text())
    if command == "report":
        assert "H200·]0;title" in shown
        assert main([command, str(log), "--json"]) == 0  # for programs: what was said
        assert json.loads(capsys.readouterr().out)["hardware"]["same"]["gpus"][0]["name"] == f"H200{ORDER}"


def test_what_a_log_calls_an_arm_does_not_command_in_an_error(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, arm in (("one", f"a{ORDER}"), ("other", "b")):
        writer = LogWriter(tmp_path / name / NAME, Header(1, replace(SPEC, name=name, candidates=(arm,))))
        writer.open()
        writer.close()
    assert main(["report", str(tmp_path / "one"), "--also", str(tmp_path / "other")]) == 2
    assert "other has no candidate of one (a·]0;title··[31m·2J··)" in capsys.readouterr().err


def test_what_is_watched_live_does_not_command_either() -> None:
    ranking = Trial(SPEC, 1).ranking()
    gpu = {"uuid": "GPU-1", "name": ORDER, "power_w": 500.0}
    console = Console(file=StringIO(), width=200, force_terminal=False)
    console.print(ranking_table({**ranking, "hardware": {"same": {"gpus": [gpu]}}}))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "·]0;title" in shown and shown == plain(shown)
