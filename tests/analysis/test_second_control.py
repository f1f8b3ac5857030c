"""A second engine of the control's configuration: what it tells is recorded, shown and judged."""

from dataclasses import replace

import pytest
from msgspec.structs import replace as changed

from analysis.measure import PairRecord
from analysis.report import render_text
from analysis.report_page import render_html
from tests.analysis.trials import SPEC, check, ranked, records

TWO_ENGINES = replace(SPEC, twin="http://t:1")
WORDS = "a second engine of its configuration"


def slower(record: PairRecord, factor: float) -> PairRecord:
    """The pair with the control's second answer slower per token and to the end."""
    answers = []
    for one in record.answers:
        if (one.arm, one.twin) == ("control", 1):
            assert one.tpot_ms is not None and one.e2e_ms is not None
            one = changed(one, tpot_ms=one.tpot_ms * factor, e2e_ms=one.e2e_ms * factor)
        answers.append(one)
    return changed(record, answers=tuple(answers))


def test_with_what_the_control_was_compared_is_in_the_ranking_the_report_and_its_page() -> None:
    taken = records(40)
    ranking, alone = ranked(taken, TWO_ENGINES), ranked(taken, SPEC)
    assert (ranking["calibration"]["by"], alone["calibration"]["by"]) == ("engine", "twins")
    line = next(line for line in render_text(ranking).splitlines() if line.startswith("calibration: "))
    assert WORDS in line and f"windows of {ranking['window_s']:.1f} s" in line
    assert f"compared with {WORDS}" in render_html(ranking)
    assert WORDS not in render_text(alone) + render_html(alone)
    assert "sent twice" in render_text(alone) and "sent twice" in render_html(alone)


def test_before_the_calibration_is_over_nothing_is_told_of_it() -> None:
    ranking = ranked(records(0)[:50], TWO_ENGINES)
    assert ranking["calibration"]["by"] is None
    assert not any(line.startswith("calibration: ") for line in render_text(ranking).splitlines())


@pytest.mark.parametrize(("factor", "fair"), [(1.0, True), (1.3, False)])
def test_two_engines_of_one_configuration_that_differ_withhold_every_verdict(
    factor: float, fair: bool
) -> None:
    ranking = ranked([slower(record, factor) for record in records(400)], TWO_ENGINES)
    assert check(ranking, "calibrated") is fair
    withheld = [one["verdicts"]["tpot"]["withheld"] for one in ranking["candidates"]]
    assert all((why is None) is fair for why in withheld)
    if not fair:
        assert all("two engines serve as control" in why for why in withheld)
