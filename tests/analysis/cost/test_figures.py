"""What an arm costs: figures that a known recording must give, and none where something was not recorded."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace as changed

from analysis.cost.axes import axes
from analysis.cost.figures import arm_cost
from analysis.cost.prices import ArmPrice, Prices
from analysis.measure import PairRecord
from tests.analysis.cost.recordings import INPUT, OUTPUT, PRICES, SPEC, S, gpu, pairs, readings, recorded

STEADY = list(pairs([4.0], 600.0))
WATCHED = list(readings(600))
RISING = list(pairs([2.0, 4.0, 8.0], 240.0))
WATCHED_RISING = list(readings(840))


def only(curve: list[dict[str, Any]]) -> dict[str, Any]:
    (level,) = curve
    return level


def missed(by: str, above: float, until: float = 1e9) -> Any:
    """Every tenth answer of this arm misses the SLO between these instants, in seconds."""

    def change(record: PairRecord) -> PairRecord:
        if not above * S <= record.at_ns < until * S or record.at_ns % 10:
            return record
        answers = tuple(changed(a, ttft_ms=900.0) if a.arm == by else a for a in record.answers)
        return changed(record, answers=answers)

    return change


@pytest.mark.parametrize(
    ("kind", "tokens"), [("input", INPUT), ("output", OUTPUT), ("total", INPUT + OUTPUT)]
)
def test_tokens_cost_what_the_gpu_costs_while_they_are_made(kind: str, tokens: int) -> None:
    level = only(arm_cost(recorded(STEADY, WATCHED), "same")["curve"])
    per_s = level["requests_per_s"] * tokens
    assert level["requests_per_s"] == pytest.approx(4.0, rel=0.1)
    assert level["tokens_per_gpu_s"][kind]["value"] == pytest.approx(per_s)
    assert level["per_million"][kind]["value"] == pytest.approx(3.6 / 3600 * 1e6 / per_s)
    assert level["joules_per_token"][kind]["value"] == pytest.approx(500.0 / per_s, rel=1e-3)
    for key in ("tokens_per_gpu_s", "per_million", "joules_per_token"):
        assert level[key][kind]["lower"] < level[key][kind]["value"] < level[key][kind]["upper"]


def test_two_gpus_cost_twice_and_each_does_half() -> None:
    both = [{**one, "gpus": [*one["gpus"], {**one["gpus"][0], "uuid": "GPU-x"}]} for one in WATCHED]
    one, two = (only(arm_cost(recorded(STEADY, told), "same")["curve"]) for told in (WATCHED, both))
    for key, factor in (("tokens_per_gpu_s", 0.5), ("per_million", 2.0), ("joules_per_token", 2.0)):
        assert two[key]["total"]["value"] == pytest.approx(one[key]["total"]["value"] * factor)


def test_each_load_has_its_own_figures_and_a_steady_one_is_one_load() -> None:
    curve = arm_cost(recorded(RISING, WATCHED_RISING), "same")["curve"]
    assert [level["multiplier"] for level in curve] == [0.5, 1.0, 2.0]
    dear = [level["per_million"]["total"]["value"] for level in curve]
    assert dear[0] / dear[1] == pytest.approx(2.0, rel=0.15) and dear[1] / dear[2] == pytest.approx(
        2.0, rel=0.15
    )
    assert only(arm_cost(recorded(STEADY, WATCHED), "same")["curve"])["multiplier"] == 1.0


def test_the_load_an_arm_bears_lies_between_one_shown_to_meet_the_slo_and_one_shown_to_miss_it() -> None:
    fails = recorded(RISING, WATCHED_RISING, change=missed("slow", 600.0))
    slow = arm_cost(fails, "slow")
    assert [level["slo"]["state"] for level in slow["curve"]] == ["meets", "meets", "misses"]
    assert slow["max_load"]["at_least"] == pytest.approx(4.0, rel=0.15)
    assert slow["max_load"]["below"] == pytest.approx(8.0, rel=0.15)
    assert (slow["at_slo"], slow["max_load"]["bound"]) == (1, "about")
    same = arm_cost(fails, "same")
    assert (same["at_slo"], same["max_load"]["below"], same["max_load"]["bound"]) == (2, None, "at most")


def test_a_heavier_load_that_seems_to_meet_the_slo_does_not_count_above_one_that_misses_it() -> None:
    odd = arm_cost(recorded(RISING, WATCHED_RISING, change=missed("slow", 300.0, 540.0)), "slow")
    assert [level["slo"]["state"] for level in odd["curve"]] == ["meets", "misses", "meets"]
    assert odd["at_slo"] == 0


def test_without_certainty_of_the_slo_there_is_no_cost_at_it() -> None:
    short = arm_cost(recorded(list(pairs([4.0], 40.0)), WATCHED), "same")
    assert short["at_slo"] is None and "send it longer" in short["max_load"]["withheld"]
    never = arm_cost(recorded(STEADY, WATCHED, change=missed("slow", 0.0)), "slow")
    assert never["at_slo"] is None and "even under the lightest load" in never["max_load"]["withheld"]
    without = replace(SPEC, slo_ttft_ms=None, slo_tpot_ms=None)
    assert "--slo" in arm_cost(recorded(STEADY, WATCHED, spec=without), "same")["max_load"]["withheld"]


@pytest.mark.parametrize(
    ("told", "prices", "key", "why"),
    [
        (WATCHED, None, "per_million", "--prices"),
        (
            WATCHED,
            Prices("p.yaml", "USD", {"H100": 2.0}),
            "per_million",
            "p.yaml has no price of 'NVIDIA H200'",
        ),
        ([], PRICES, "per_million", "set its gpus"),
        ([], PRICES, "tokens_per_gpu_s", "its gpus under arms"),
        ([], PRICES, "joules_per_token", "were not read"),
        (list(readings(600, every_s=5.0)), PRICES, "joules_per_token", "mirror.readings_s"),
    ],
)
def test_what_was_not_recorded_is_withheld_with_what_would_mend_it(
    told: list[dict[str, Any]], prices: Prices | None, key: str, why: str
) -> None:
    level = only(arm_cost(recorded(STEADY, told, prices), "same")["curve"])
    for kind in ("input", "output", "total"):
        assert level[key][kind]["value"] is None and why in level[key][kind]["withheld"]


def test_an_arm_may_be_priced_as_a_whole_without_any_reading() -> None:
    whole = Prices("p.yaml", "EUR", {}, {"same": ArmPrice(per_hour=7.2, gpus=4)})
    level = only(arm_cost(recorded(STEADY, (), whole), "same")["curve"])
    per_s = level["requests_per_s"] * (INPUT + OUTPUT)
    assert level["per_million"]["total"]["value"] == pytest.approx(7.2 / 3600 * 1e6 / per_s)
    assert level["tokens_per_gpu_s"]["total"]["value"] == pytest.approx(per_s / 4)


def test_answers_that_do_not_say_their_tokens_leave_no_figure_of_these_tokens() -> None:
    def unsaid(record: PairRecord) -> PairRecord:
        return changed(record, answers=tuple(changed(a, prompt_tokens=None) for a in record.answers))

    level = only(arm_cost(recorded(STEADY, WATCHED, change=unsaid), "same")["curve"])
    assert level["per_million"]["output"]["value"] is not None
    for kind in ("input", "total"):
        assert "include_usage" in level["per_million"][kind]["withheld"]


def test_failed_answers_are_paid_for_and_make_no_tokens() -> None:
    def failed(record: PairRecord) -> PairRecord:
        broken = {"fault": "status 500", "ttft_ms": None, "tpot_ms": None}
        half = record.at_ns % 2
        return changed(record, answers=tuple(changed(a, **broken) if half else a for a in record.answers))

    whole, half = (
        only(arm_cost(recorded(STEADY, WATCHED, change=change), "same")["curve"])
        for change in (lambda record: record, failed)
    )
    ratio = half["per_million"]["total"]["value"] / whole["per_million"]["total"]["value"]
    assert ratio == pytest.approx(2.0, rel=0.1)


def test_idle_time_is_paid_for_and_a_pause_is_not() -> None:
    def gap(seconds: float) -> float:
        late = [_later(one, seconds) if one.at_ns >= 300 * S else one for one in STEADY]
        found: float = arm_cost(recorded(late, ()), "same")["curve"][0]["seconds"]
        return found

    # Four windows at the edges of a pause are left out; a gap under 30 s is idle time.
    assert gap(20.0) == pytest.approx(gap(0.0) + 20.0, abs=4.0)
    assert gap(600.0) == pytest.approx(gap(0.0), abs=8.0)


def _later(record: PairRecord, seconds: float) -> PairRecord:
    return changed(record, at_ns=record.at_ns + int(seconds * S))


def test_as_an_axis_cost_is_by_request_so_that_longer_answers_are_not_cheaper() -> None:
    def longer(record: PairRecord) -> PairRecord:
        more = tuple(changed(a, completion_tokens=90) if a.arm == "slow" else a for a in record.answers)
        return changed(record, answers=more)

    numbers = np.unique([one.at_ns // (2 * S) for one in STEADY])
    cost, energy = axes(recorded(STEADY, WATCHED, change=longer), ("same", "slow"), numbers[1:-1])
    for axis in (cost, energy):
        said = axis.show(0.05)["candidates"]["slow"]
        assert axis.withheld is None and said["ratio"] == pytest.approx(1.0, abs=1e-6)


def test_as_an_axis_an_arm_that_keeps_the_slo_half_the_time_costs_about_twice_a_request() -> None:
    def half(record: PairRecord) -> PairRecord:
        late = record.at_ns % 2 == 0
        answers = tuple(changed(a, ttft_ms=900.0) if late and a.arm == "slow" else a for a in record.answers)
        return changed(record, answers=answers)

    numbers = np.unique([one.at_ns // (2 * S) for one in STEADY])
    for axis in axes(recorded(STEADY, WATCHED, change=half), ("same", "slow"), numbers[1:-1]):
        said = axis.show(0.05)["candidates"]
        assert said["slow"]["lower"] > 1.5 and said["slow"]["upper"] < 3.0, axis.name
        assert said["same"]["ratio"] == pytest.approx(1.0, abs=1e-6)


def test_windows_at_the_ends_of_a_run_are_filled_in_part_and_no_part_of_it() -> None:
    instants = [1.9, 2.5, 3.1, 4.2, 5.5, 6.1]  # of windows of 2 s: 0, 1, 1, 2, 2, 3
    some = [changed(one, at_ns=int(at_s * S)) for one, at_s in zip(STEADY, instants, strict=False)]
    runs = recorded(some).tally.runs("same", 2 * S)
    (run,), slices = runs.spans(), runs.slices
    assert run == (0, 2) and slices.of("number").tolist() == [1, 2]
    assert (slices.of("requests").tolist(), slices.seconds.tolist()) == ([2, 2], [2.0, 2.0])


def test_an_axis_is_one_for_all_arms_or_for_none() -> None:
    half = [one for one in WATCHED if one["arm"] != "slow"]
    numbers = np.unique([one.at_ns // (2 * S) for one in STEADY])
    cost, energy = axes(recorded(STEADY, half), ("same", "slow"), numbers)
    assert cost.withheld is not None and "slow" in cost.withheld and not cost.effects
    assert energy.withheld is not None and energy.withheld.startswith("slow")
    two = Prices("p.yaml", "USD", {"H200": 3.6}, {"slow": ArmPrice(per_hour=7.2)})
    cost, _ = axes(recorded(STEADY, half, two), ("same", "slow"), numbers)
    assert cost.show(0.05)["candidates"]["slow"]["ratio"] == pytest.approx(2.0)
    assert cost.show(0.05)["candidates"]["same"]["ratio"] == pytest.approx(1.0)


def test_an_arm_in_which_a_gpu_tells_no_energy_has_none() -> None:
    deaf = [{**one, "gpus": [*one["gpus"], gpu(0.0, None, None, "GPU-deaf")]} for one in WATCHED]
    level = only(arm_cost(recorded(STEADY, deaf), "same")["curve"])
    assert level["joules_per_token"]["total"]["value"] is None
    assert level["per_million"]["total"]["value"] is not None
