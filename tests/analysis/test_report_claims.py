"""What is claimed beside the means is in the report: shares, percentiles, who is beaten, and remedies."""

from analysis.mending import MEND
from analysis.report import render_html, render_text
from analysis.report_claims import claim_lines, claims
from tests.analysis.trials import altered, ranked, records


def test_shares_percentiles_and_who_is_beaten_are_in_the_text_and_on_the_page() -> None:
    ranking = ranked(
        records(1_050, lambda r: altered(r, "slow", fault="truncated") if int(r.id[1:]) % 10 == 0 else r)
    )
    text, page = render_text(ranking), render_html(ranking)
    assert "slow, failed: 9.9% of answers, control 0.0%; +9.9 (" in text
    assert "(more)" in text and "TTFT beyond" in text
    assert "quick, percentiles of TTFT over the first 1000 pairs, for one look: p50 -2" in text
    assert "slow is beaten by quick, since window " in text
    assert "differ from the control, by e-BH over all candidates on one metric: TTFT" in text
    for heading in ("Failed and slow answers", "Percentiles against control", "Beaten by another candidate"):
        assert heading in page


def test_what_is_not_claimed_leaves_no_trace() -> None:
    ranking = ranked(records(0)[:50])
    assert claim_lines(ranking) == [] and claims(ranking) == ""


def test_a_reason_that_withholds_many_verdicts_is_told_once() -> None:
    ranking = ranked(records(300, lambda r: altered(r, "control", order=-1)))
    text = render_text(ranking)
    told = [line for line in text.splitlines() if line.startswith("withheld: ") and "first in" in line]
    assert len(told) == 3 and text.count("WITHHELD") == 12
    for line, candidate in zip(told, ranking["candidates"], strict=True):
        assert line == f"withheld: all of {candidate['name']}: {candidate['verdicts']['tpot']['withheld']}"
    assert all("mend" not in line for line in text.splitlines() if "WITHHELD" in line)


def test_names_are_escaped_on_the_page() -> None:
    ranking = ranked(records(300))
    for candidate in ranking["candidates"]:
        candidate["name"] = f"<b>{candidate['name']}"
    assert "<b>quick" not in claims(ranking) and "&lt;b&gt;quick" in claims(ranking)


def test_a_failed_check_says_in_text_and_page_what_would_mend_it() -> None:
    ranking = ranked(records(300, lambda r: altered(r, "quick", prompt_tokens=90)))
    assert f"; to mend it: {MEND['load_balance']}" in render_text(ranking)
    assert "To mend it: see why an arm gets fewer copies" in render_html(ranking)


def test_an_output_metric_is_on_the_page_where_there_was_something_to_measure() -> None:
    ranking = ranked(records(300))
    page = render_html(ranking)
    assert "exact match" in page and "json valid" not in page
    ranking["candidates"][0]["outputs"]["json_valid"]["value"] = 0.5
    assert "json valid" in render_html(ranking)
