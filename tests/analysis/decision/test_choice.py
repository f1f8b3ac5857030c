"""Front and winner on made-up window scores: what is certain, what flatters, what is no difference."""

from collections.abc import Mapping

import numpy as np
import pytest
from numpy.typing import NDArray

from analysis.decision.decide import Wishes, decide, out_since
from analysis.decision.evidence import Evidence
from analysis.decision.front import front
from analysis.decision.markdown import render_markdown
from analysis.decision.page import render_html
from analysis.decision.text import render_text
from analysis.decision.winner import Choice, choose, no_difference, not_told_apart
from analysis.ranking import Trial
from analysis.verdict import interval, log_margin
from analysis.weighing import weighted
from tests.analysis.trials import SPEC, records

ALPHA, MARGIN = 0.05, log_margin(0.03)


def scores(
    means: Mapping[str, float], windows: int, sd: float = 0.05, seed: int = 1
) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(seed)
    return {name: rng.normal(mean, sd, windows) for name, mean in means.items()}


def test_the_better_one_wins_and_what_chose_it_is_not_what_it_is_judged_on() -> None:
    found = choose(scores({"a": -0.30, "b": -0.10}, 200), ALPHA, MARGIN)
    assert found is not None and found.winner == "a" and 15 <= found.windows < 40


def test_none_wins_while_none_is_shown_to_be_better_by_more_than_the_margin() -> None:
    assert choose(scores({"a": -0.03, "b": 0.2}, 300, sd=0.01), ALPHA, MARGIN) is None
    assert choose(scores({"a": -0.30}, 14), ALPHA, MARGIN) is None
    assert choose({}, ALPHA, MARGIN) is None


def test_one_that_turns_out_better_than_the_first_takes_its_place_and_only_what_follows_is_fresh() -> None:
    early = scores({"a": -0.30}, 300)["a"]
    late = np.concatenate([np.full(60, 0.1), scores({"b": -0.9}, 240)["b"]])
    first = choose({"a": early}, ALPHA, MARGIN)
    found = choose({"a": early, "b": late}, ALPHA, MARGIN)
    assert first is not None and found is not None
    assert found.winner == "b" and found.windows > 60 > first.windows


def test_fresh_windows_do_not_flatter_where_those_that_chose_do() -> None:
    """Eight equal candidates, all a little better: the one that is chosen first was lucky."""
    true, past, fresh = -0.08, [], []
    for seed in range(60):
        made = scores({f"c{n}": true for n in range(8)}, 400, sd=0.15, seed=seed)
        found = choose(made, ALPHA / 8, MARGIN)
        assert found is not None
        past.append(made[found.winner][: found.windows].mean())
        fresh.append(made[found.winner][found.windows :].mean())
    assert np.mean(past) < true - 0.02  # better than it is: the winner's curse
    assert abs(np.mean(fresh) - true) < 0.01


def test_windows_without_a_value_are_left_out_and_not_taken_for_zero() -> None:
    made = scores({"a": -0.30, "b": -0.31}, 200)
    made["a"][::2], made["b"][1::2] = np.nan, np.nan  # arms that take turns
    found = choose(made, ALPHA, MARGIN)
    assert found is not None
    assert not_told_apart(made, found.winner, ALPHA) == ["b" if found.winner == "a" else "a"]


def test_no_difference_is_shown_and_never_assumed() -> None:
    assert no_difference(scores({"a": 0.0, "b": 0.2}, 200, sd=0.02), ALPHA, MARGIN)
    assert not no_difference(scores({"a": 0.0}, 200, sd=0.5), ALPHA, MARGIN)  # too little is known
    assert not no_difference(scores({"a": 0.0, "b": -0.2}, 200, sd=0.02), ALPHA, MARGIN)
    assert not no_difference(scores({"a": 0.0}, 14, sd=0.001), ALPHA, MARGIN)
    assert not no_difference({}, ALPHA, MARGIN)


def effects(means: Mapping[str, tuple[float, float]], windows: int = 200) -> dict[str, NDArray[np.float64]]:
    rng = np.random.default_rng(2)
    found = {"control": np.zeros((windows, 2))}
    return found | {name: rng.normal(mean, 0.02, (windows, 2)) for name, mean in means.items()}


def test_only_who_is_worse_in_nothing_and_better_in_something_beats_another() -> None:
    found = front(
        effects({"both": (-0.2, -0.2), "trade": (-0.4, 0.3), "worse": (0.2, 0.0)}), 2, ALPHA, MARGIN
    ).show()
    assert found["on"] == ["both", "trade"]
    assert found["beaten_by"] == {"control": ["both"], "worse": ["control", "both"]}


def test_what_is_not_certain_beats_nobody() -> None:
    noise = {name: values * 25 for name, values in effects({"a": (-0.002, -0.002)}).items()}
    assert front(noise, 2, ALPHA, MARGIN).show()["on"] == ["control", "a"]
    assert front(effects({"a": (-0.2, -0.2)}, windows=14), 2, ALPHA, MARGIN).show()["on"] == ["control", "a"]


def test_arms_never_seen_together_are_named_and_beat_nobody() -> None:
    made = effects({"a": (-0.2, -0.2), "b": (0.2, 0.2)})
    made["a"][::2], made["b"][1::2] = np.nan, np.nan
    found = front(made, 2, ALPHA, MARGIN).show()
    assert found["apart"] == [["a", "b"]] and found["beaten_by"] == {"control": ["a"], "b": ["control"]}


def test_equal_arms_are_called_beaten_no_more_often_than_alpha() -> None:
    rng, wrong = np.random.default_rng(3), 0
    for _ in range(200):
        made = {name: rng.normal(0.0, 0.3, (60, 2)) for name in "abcd"}
        wrong += any(front(made, 2, ALPHA, 1e-6).beaten_by.values())
    assert wrong <= 200 * ALPHA + 3 * (200 * ALPHA * (1 - ALPHA)) ** 0.5


def test_a_score_is_the_weighted_mean_and_its_interval_is_that_of_the_weighted_windows() -> None:
    made = effects({"a": (-0.3, 0.1)})["a"]
    score = weighted(made, np.array([1.0, 3.0]))
    assert score.mean() == pytest.approx((made[:, 0].mean() + 3 * made[:, 1].mean()) / 4)
    found = interval(score, ALPHA)
    assert found is not None and found.lower < 0.0 < found.upper


def beside(windows: int = 400) -> dict[str, NDArray[np.float64]]:
    """A is far better in one measure and hardly worse in the other, which alone weighs much."""
    rng = np.random.default_rng(0)
    means = {"A": (-0.5, -0.20), "B": (-0.4, -0.22)}
    made = {name: rng.normal(mean, 0.03, (windows, 2)) for name, mean in means.items()}
    return {"control": np.zeros((windows, 2)), **made}


def test_who_is_beaten_by_another_is_out_before_the_weights_count() -> None:
    made = beside()
    found = front(made, 2, ALPHA, MARGIN)
    assert found.beaten_by["B"] == ("A",) and found.show()["out"] == ["B"]
    by_score = {name: weighted(made[name], np.array([0.05, 0.95])) for name in ("A", "B")}
    without, chosen = choose(by_score, ALPHA, MARGIN), choose(by_score, ALPHA, MARGIN, found.since)
    assert without is not None and without.winner == "B"
    assert chosen is not None and chosen.winner == "A"


def test_a_winner_that_is_put_out_makes_room_and_only_what_follows_is_fresh() -> None:
    made = scores({"a": -0.30, "b": -0.20}, 300)
    assert choose(made, ALPHA, MARGIN, {"a": 120}) == Choice("b", 120)
    assert choose({**made, "c": made["b"] + 0.01}, ALPHA, MARGIN, {"a": 120, "b": 150}) == Choice("c", 150)
    assert choose(made, ALPHA, MARGIN, {"a": 120, "b": 150}) is None
    late = np.concatenate([np.full(200, 0.1), np.full(100, -0.9)])  # not better than the control before 200
    found = choose({"a": made["a"], "b": late}, ALPHA, MARGIN, {"a": 120})
    assert found is not None and found.winner == "b" and found.windows > 200


def test_who_is_out_takes_nobodys_place() -> None:
    made = scores({"a": -0.30, "b": -0.90}, 300)
    early = {**made, "b": np.concatenate([np.full(60, 0.1), made["b"][60:]])}  # would come after a, and win
    assert choose(early, ALPHA, MARGIN, {"b": 30}) == choose({"a": made["a"]}, ALPHA, MARGIN)


def test_what_was_once_shown_to_be_beaten_stays_so_and_since_when_hangs_on_nothing_that_came_later() -> None:
    made = beside()
    since = front(made, 2, ALPHA, MARGIN).since["B"]
    turned = {name: values.copy() for name, values in made.items()}
    turned["A"][since:] += 1.0
    assert front(turned, 2, ALPHA, MARGIN).since == {"B": since}
    assert not front({name: own[: since - 1] for name, own in made.items()}, 2, ALPHA, MARGIN).since
    assert front({name: own[:since] for name, own in made.items()}, 2, ALPHA, MARGIN).since == {"B": since}


def test_who_is_out_for_two_reasons_is_out_from_the_first_on_and_who_for_one_from_that() -> None:
    assert out_since({"a": 20, "b": 50}, {"a": 40, "b": 30, "c": 7}) == {"a": 20, "b": 30, "c": 7}
    assert out_since({"a": 20}, {}) == out_since({}, {"a": 20}) == {"a": 20}


def test_the_control_puts_nobody_out() -> None:
    found = front(effects({"worse": (0.2, 0.2)}), 2, ALPHA, MARGIN)
    assert found.beaten_by["worse"] == ("control",) and not found.since


def test_who_is_out_is_shown_with_who_beats_it_in_every_form() -> None:
    evidence = Evidence(SPEC)
    trial = Trial(SPEC, watch=evidence.add)
    for record in records(600):
        trial.add(record)
    found = decide(trial, evidence, Wishes())
    assert found["front"]["out"] == ["same", "slow"] and found["winner"]["as_good"] == []
    assert "same is beaten by quick, and out before the weights count" in render_text(found)
    assert "- same, beaten by quick: **out** before the weights count" in render_markdown(found)
    assert "beaten by quick, out before the weights count" in render_html(found)
