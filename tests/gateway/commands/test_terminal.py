"""A ranking on the terminal: nothing is cut off, nothing missing is shown as a number."""

import copy
from typing import Any

import pytest
from rich.console import Console

from gateway.commands.terminal import plain_line, ranking_table
from tests.analysis.shell.rankings import conditions


def spread(p50: float) -> dict[str, float]:
    return {"p50": p50, "p95": 1.7 * p50}


def verdict(
    label: str, ratio: float | None, half: float = 0.02, withheld: str | None = None
) -> dict[str, Any]:
    bounds = (None, None) if ratio is None else (ratio - half, ratio + half)
    return {
        "label": label,
        "word": label if withheld is None else "WITHHELD",
        "why": "0 windows in which both arms have one, 2 needed" if ratio is None else None,
        "ratio": ratio,
        "lower": bounds[0],
        "upper": bounds[1],
        "units": 22,
        "progress": 1.0 if label != "UNDECIDED" else 0.4,
        "spread": 0.081,
        "withheld": withheld,
    }


def candidate(name: str, rank: int, tpot: dict[str, Any], outputs: str, exact: float) -> dict[str, Any]:
    return {
        "name": name,
        "rank": rank,
        "n": 1_421,
        "errors": 0,
        **{
            f"{metric}_ms": spread(12.5 * place)
            for place, metric in enumerate(("ttft", "itl", "tpot", "e2e"), 1)
        },
        "verdicts": {
            "ttft": verdict("UNDECIDED", 0.98, 0.11),
            "itl": verdict("UNDECIDED", None),
            "tpot": tpot,
            "e2e": verdict("UNDECIDED", 0.97, 0.05, withheld="dispatch lag p99 7.1 ms is above 5 ms"),
        },
        "outputs": {
            "exact_match": {"value": exact, "lower": exact - 0.02, "upper": exact + 0.01, "floor": 0.998},
            "tool_calls": {"value": None, "lower": None, "upper": None, "floor": None},
            "label": outputs,
        },
        "series": {"tpot": [[2.0, 0.7]]},
    }


RANKING: dict[str, Any] = {
    "experiment": "three-candidates",
    "fleet": "aurora",
    "phase": "live",
    "epoch": 1,
    "pairs": 1_421,
    "windows": 22,
    "window_s": 2.0,
    "tau_pairs": 3.1,
    "alpha": 0.05,
    "margin": 0.03,
    "elapsed_s": 66.4,
    "books": {"admitted": 2_000, "paired": 1_950, "dropped": {"calibration": 48, "too_large": 2, "lane": 0}},
    "checks": [
        {"name": "dispatch_lag", "ok": False, "detail": "p99 7.1 ms is above 5 ms"},
        {"name": "a_a_floor", "ok": True, "detail": "0.4 %"},
        {"name": "warm_up", "ok": None, "detail": "not yet"},
    ],
    "production": {
        "observed_only": True,
        "n": 2_210,
        "errors": 1,
        **{f"{metric}_ms": spread(9.0) for metric in ("ttft", "itl", "tpot", "e2e")},
    },
    "control": {
        "name": "control",
        "n": 1_421,
        "errors": 0,
        "floor": {"exact_match": 0.998},
        **{f"{metric}_ms": spread(11.0) for metric in ("ttft", "itl", "tpot", "e2e")},
    },
    "candidates": [
        candidate("ember", 1, verdict("FASTER", 0.714), "SAME", 0.998),
        candidate("basil", 2, verdict("EQUIVALENT", 1.002), "SAME", 0.997),
        candidate("a-candidate-with-a-long-name", 3, verdict("EQUIVALENT", 0.997), "DIVERGES", 0.874),
    ],
    "decided": True,
    "summary": "ember is faster; basil is equivalent.",
}
EARLY: dict[str, Any] = {
    "experiment": "three-candidates",
    "phase": "calibration",
    "pairs": 0,
    "candidates": [],
    "checks": [],
}


def shown(ranking: dict[str, Any], width: int) -> str:
    console = Console(
        width=width, record=True, force_terminal=False, quiet=False, file=None, legacy_windows=False
    )
    with console.capture() as capture:
        console.print(ranking_table(ranking, width))
    return capture.get()


@pytest.mark.parametrize("width", [80, 100, 120, 200])
def test_every_verdict_ratio_and_interval_is_shown_whole(width: int) -> None:
    text = shown(RANKING, width)
    assert max(map(len, text.splitlines())) <= width
    for expected in (
        "FASTER",
        "EQUIVALENT",
        "UNDECIDED",
        "DIVERGES",
        "SAME",
        "0.714",
        "0.694–0.734",
        "0.874",
        "0.854–0.884",
    ):
        assert expected in text
    for name in (
        "ember",
        "basil",
        "a-candidate-w…",
        "control",
        "TTFT",
        "ITL",
        "TPOT",
        "E2E",
        "outputs",
        "floor 0.998",
    ):
        assert name in text


@pytest.mark.parametrize("width", [80, 120])
def test_what_makes_a_verdict_untrustworthy_is_said_with_its_reason(width: int) -> None:
    text = " ".join(shown(RANKING, width).split())
    assert "check dispatch_lag fails: p99 7.1 ms is above 5 ms" in text
    assert "E2E: dispatch lag p99 7.1 ms is above 5 ms" in text
    assert "a_a_floor" not in text and "warm_up" not in text
    assert "production, observed only (p50/p95 ms): TTFT 9.0/15.3" in text
    assert "2,000 admitted = 1,950 paired + dropped (calibration 48, too_large 2)" in text


def test_a_failing_check_that_withholds_nothing_says_so_and_comes_after_one_that_does() -> None:
    checks = [
        {"name": "production_load", "ok": False, "detail": "1.75 times", "withholds": []},
        {"name": "dispatch_lag", "ok": False, "detail": "61 ms", "withholds": ["tpot"]},
    ]
    text = " ".join(shown({**RANKING, "checks": checks}, 120).split())
    harmless = "check production_load fails, for which no verdict is withheld: 1.75 times"
    assert text.index("check dispatch_lag fails: 61 ms") < text.index(harmless)


@pytest.mark.parametrize("width", [80, 120])
def test_load_gpus_and_the_forced_phase_are_shown_where_they_are_known(width: int) -> None:
    text = shown({**RANKING, **conditions()}, width)
    assert max(map(len, text.splitlines())) <= width
    text = " ".join(text.split())
    for said in (
        "control 7.9, fp8-kv 6.4, one production engine 8.0 (the control has 0.99 times that)",
        "71% busy, 63.1 GiB at most, 412 W, 20.50 Wh, 1755 MHz (least 1410)",
        "throttled in 12% of readings (power_cap 12%), XID 79",
        "GPU-00aa: no figures",
        "TPOT FASTER -19.0 %",
        "warm_up 17, out of phase 3",
    ):
        assert said in text, said
    assert "requests in flight" not in shown(RANKING, width)


def test_the_books_shown_add_up_while_copies_are_under_way() -> None:
    books = {"admitted": 12, "paired": 7, "dropped": {"calibration": 2}}
    text = " ".join(shown({**RANKING, "books": books}, 120).split())
    assert "12 admitted = 7 paired + dropped (calibration 2) + 3 under way" in text


def test_the_wide_table_adds_tails_spreads_and_counts() -> None:
    assert "spread" not in shown(RANKING, 80)
    assert all(word in shown(RANKING, 120) for word in ("p95 ms", "spread", "0.081", "1,421"))


def test_a_missing_number_is_a_dash_and_never_a_zero() -> None:
    lacking = copy.deepcopy(RANKING)
    for one in lacking["candidates"]:
        one["verdicts"] = {metric: verdict("UNDECIDED", None) for metric in ("ttft", "itl", "tpot", "e2e")}
        one.update({f"{metric}_ms": {"p50": None, "p95": None} for metric in ("ttft", "itl", "tpot", "e2e")})
    rows = [line for line in shown(lacking, 80).splitlines() if "UNDECIDED" in line]
    assert len(rows) == 12 and all("–" in row and "0.0" not in row for row in rows)


def test_a_ranking_without_pairs_is_shown_as_the_calibration_it_is() -> None:
    assert "A/A calibration" in shown(EARLY, 80)


def test_the_plain_line_names_each_candidate_once() -> None:
    line = plain_line(RANKING)
    assert "\n" not in line and "ember: TPOT FASTER 0.714, outputs SAME" in line and line.count("basil") == 1


def test_visible_text_has_its_row_and_its_arms_figures_only_where_it_is_not_the_first_token() -> None:
    same, later = copy.deepcopy(RANKING), copy.deepcopy(RANKING)
    for ranking, ratio in ((same, None), (later, 1.5)):
        for one in ranking["candidates"]:
            first = one["verdicts"]["ttft"]
            one["verdicts"]["visible"] = {**first, "units": 20, "ratio": ratio or first["ratio"]}
            first["units"] = 20
            one["visible_ms"] = {"p50": 632.1, "p95": 700.0}
    assert "VISIBLE" not in shown(same, 120)
    rows = [line for line in shown(later, 120).splitlines() if "VISIBLE" in line]
    assert len(rows) > len(later["candidates"]) and "1.500" in rows[0] and "632.1" in rows[0]
