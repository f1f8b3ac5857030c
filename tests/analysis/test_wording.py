"""A verdict is said in the same word everywhere, and what is not said has its reason, once."""

from typing import Any

import pytest
from rich.console import Console

from analysis.report import render_html, render_text
from analysis.spec import ExperimentSpec
from analysis.wording import no_interval, no_score, unsaid_lines, word
from gateway.commands.terminal import plain_line, ranking_table
from tests.analysis.trials import altered, ranked, records


def on_terminal(ranking: dict[str, Any]) -> str:
    console = Console(width=120, force_terminal=False, legacy_windows=False)
    with console.capture() as capture:
        console.print(ranking_table(ranking, 120))
    return " ".join(capture.get().split())


@pytest.fixture(scope="module")
def unfair() -> dict[str, Any]:
    return ranked(records(300, lambda record: altered(record, "control", order=-1)))


def test_a_withheld_verdict_is_called_so_in_every_form_and_never_undecided(unfair: dict[str, Any]) -> None:
    verdicts = [one["verdicts"] for one in unfair["candidates"]]
    assert all(said["word"] == "WITHHELD" for each in verdicts for said in each.values())
    shown = 4 * len(verdicts)  # what is visible begins with the first token here
    assert render_text(unfair).count("WITHHELD") == shown
    assert on_terminal(unfair).count("WITHHELD") == shown
    assert render_html(unfair).count("! WITHHELD") == shown
    assert plain_line(unfair).count("TPOT WITHHELD") == len(verdicts)


def test_a_page_says_each_reason_once_however_many_cells_have_it(unfair: dict[str, Any]) -> None:
    table = render_html(unfair).split("<h2>Verdicts</h2>")[1].split("<h2>")[0]
    for candidate in unfair["candidates"]:
        reason = f"{candidate['name']}: the control was first in 100% of pairs"
        assert table.count(reason) == 1
        note = table.split(reason)[0].rsplit("<li id='", 1)[1].split("'")[0]
        assert table.count(f"href='#{note}'") == 4 and table.count(f"id='{note}'") == 1


def test_what_is_not_said_has_its_reason_in_text_on_the_terminal_and_on_the_page() -> None:
    early = ranked(records(60), ExperimentSpec("trial", "fleet", ("quick",), calibration_pairs=500))
    assert early["phase"] == "calibration"
    verdict = early["candidates"][0]["verdicts"]["tpot"]
    assert (verdict["word"], verdict["why"]) == ("UNDECIDED", "the calibration is not over")
    for form in (render_text(early), on_terminal(early)):
        assert "no interval: all of quick: the calibration is not over" in form
        assert "outputs undecided: quick: the calibration is not over" in form
    assert render_html(early).count("<li id='verdict-1'>the calibration is not over</li>") == 1


def test_a_latency_without_an_interval_says_how_many_units_it_lacks() -> None:
    assert word("FASTER", None) == "FASTER" and word("UNDECIDED", "why") == "WITHHELD"
    assert no_interval(2, "live") is None is no_score(2, "live")
    assert no_interval(1, "replay") == "1 blocks in which both arms have one, 2 needed"
    assert "what is not streamed has E2E alone" in str(no_interval(0, "live"))


def test_all_latencies_of_a_candidate_are_named_as_one_and_single_ones_by_name() -> None:
    verdicts = {key: {"withheld": "hot", "why": None} for key in ("ttft", "itl", "tpot", "e2e")}
    ranking = {"candidates": [{"name": "a", "verdicts": verdicts}, {"name": "b", "verdicts": verdicts}]}
    assert unsaid_lines(ranking) == ["withheld: all of a, all of b: hot"]
    ranking["candidates"][1]["verdicts"] = {**verdicts, "itl": {"withheld": None, "why": "few"}}
    assert unsaid_lines(ranking) == [
        "withheld: all of a, b TTFT, TPOT, E2E: hot",
        "no interval: b ITL: few",
    ]
