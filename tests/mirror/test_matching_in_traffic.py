"""With `sample.rate: auto` the control comes to have what one production engine has in flight, within 5 %.

By the time-integral of requests in flight, whatever the traffic is like: in virtual time, hours in seconds.
"""

from itertools import pairwise
from math import sqrt

import pytest

from tests.mirror.simulated_traffic import BURSTS, SLOW, STEADY, Traffic, simulated

MINUTE = 60
SHAPES = {"steady": STEADY, "bursts": BURSTS, "slow": SLOW}


@pytest.mark.parametrize("slowness", [0.7, 1.4])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    ("per_s", "minutes"),
    [(0.2, 60), (1.0, 30), (6.0, 20)],  # 0.7, 3.5 and 25 requests in flight at an engine
)
def test_it_is_within_five_per_cent_from_few_conversations_to_many(
    per_s: float, minutes: int, shape: str, slowness: float
) -> None:
    seen = simulated(Traffic(per_s, SHAPES[shape], slowness=slowness), minutes * MINUTE, seed=1)
    assert abs(seen.ratio(0, minutes * MINUTE) - 1.0) < 0.05
    assert seen.loads.check().ok is True  # and the experiment's own check says so


@pytest.mark.parametrize("shape", SHAPES)
def test_what_chance_did_at_first_is_made_up_for_as_no_share_that_is_written_can(shape: str) -> None:
    few, hour = Traffic(0.2, SHAPES[shape]), 60 * MINUTE
    found = [simulated(few, hour, seed).ratio(0, hour) for seed in range(6)]
    assert all(abs(ratio - 1.0) < 0.05 for ratio in found)
    assert abs(sum(found) / len(found) - 1.0) < 0.015  # not too much, nor too little
    as_written = [simulated(few, hour, seed, auto=False).ratio(0, hour) for seed in range(6)]
    assert sum(abs(ratio - 1.0) > 0.05 for ratio in as_written) >= 3


@pytest.mark.parametrize(
    "long",
    [
        Traffic(0.5, turns=20.0, think_s=60.0, slowness=1.4),
        Traffic(0.5, turns=40.0, think_s=30.0, slowness=0.7),
    ],
)
def test_conversations_of_twenty_minutes_do_not_make_it_swing(long: Traffic) -> None:
    quarters = [n * 15 * MINUTE for n in range(9)]
    seen = simulated(long, quarters[-1], seed=4)
    assert abs(seen.ratio(0, quarters[-1]) - 1.0) < 0.05
    beside = [seen.ratio(begin, end) - 1.0 for begin, end in pairwise(quarters)]
    assert sqrt(sum(one**2 for one in beside) / len(beside)) < 0.06


@pytest.mark.parametrize("engines", [1, 2, 16])
def test_it_holds_for_fleets_of_any_size(engines: int) -> None:
    """One engine whose control is faster takes each conversation more than once."""
    seen = simulated(Traffic(0.3 * engines, engines=engines, slowness=0.8), 40 * MINUTE, seed=2)
    assert abs(seen.ratio(0, 40 * MINUTE) - 1.0) < 0.05
    assert engines > 1 or seen.rates[-1] > 1.0


def test_once_it_is_there_the_share_stays_about_where_it_is() -> None:
    seen = simulated(Traffic(6.0, slowness=1.4), 30 * MINUTE, seed=4)
    late = seen.rates[15 * MINUTE :]
    assert max(late) / min(late) < 1.5
    assert all(abs(seen.ratio(at, at + 5 * MINUTE) - 1.0) < 0.1 for at in range(900, 1500, 300))
