"""Races in simulation, a small version of what `bench.verdicts` prints."""

from math import sqrt

import pytest

from bench.verdicts.ours import ALPHA
from bench.verdicts.racing import ALIKE, APART, RULES, Raced, Rules, raced
from bench.verdicts.scenes import SCENES

BEATEN, BOTH = RULES[1], RULES[3]
RUNS = 20
ALLOWED = ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / RUNS)


def runs(rules: Rules, effects: tuple[float, ...], pairs: int, scene: int = 0) -> list[Raced]:
    return [raced(SCENES[scene], effects, rules, pairs, seed) for seed in range(RUNS)]


def share(said: list[bool]) -> float:
    return sum(said) / len(said)


@pytest.mark.parametrize("rules", [BEATEN, BOTH], ids=lambda rules: rules.name)
def test_most_of_the_windows_are_spared_and_the_best_stays_and_wins(rules: Rules) -> None:
    said = runs(rules, APART, 2_000)
    assert share([one.lost_best for one in said]) <= ALLOWED
    assert share([one.wins is True for one in said]) >= 1 - ALLOWED
    assert sum(one.spared for one in said) / RUNS > 0.5


@pytest.mark.parametrize("scene", [0, 1], ids=lambda scene: SCENES[scene].name)
def test_intervals_of_those_that_left_and_of_the_winner_afresh_hold_as_often_as_they_say(scene: int) -> None:
    said = runs(BOTH, APART, 2_000, scene)
    assert share([one.missed for one in said]) <= ALLOWED
    afresh = [one.fresh_missed for one in said if one.fresh_missed is not None]
    assert afresh and share(afresh) <= ALLOWED


def test_among_equals_hardly_anyone_is_beaten() -> None:
    said = runs(BEATEN, ALIKE, 2_000)
    assert share([one.spared > 0 for one in said]) <= ALLOWED
