"""Laws of e-processes: true for independent units however often one looks, false under dependence."""

from math import exp, log, sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from analysis.stats.eprocess import (
    evidence,
    log_beta,
    log_evidence,
    log_evidence_path,
    mcnemar_log_evidence,
    mcnemar_path,
)

ALPHA = 0.05
HITS = st.lists(st.booleans(), max_size=40)


def allowed(runs: int) -> float:
    return ALPHA + 3 * sqrt(ALPHA * (1 - ALPHA) / runs)


@given(hits=HITS, share=st.floats(0.05, 0.95))
def test_the_path_ends_at_the_evidence_of_the_counts(hits: list[bool], share: float) -> None:
    path = log_evidence_path(np.array(hits, dtype=np.bool_), share, 0.5, 2.0)
    for units in range(1, len(hits) + 1):
        assert path[units - 1] == pytest.approx(log_evidence(sum(hits[:units]), units, share, 0.5, 2.0))


@given(units=st.integers(0, 12), share=st.floats(0.05, 0.95))
def test_evidence_is_a_bet_with_fair_odds(units: int, share: float) -> None:
    """Its expectation is 1 under the hypothesis: that is all that Ville's inequality needs."""
    total = 0.0
    for hits in range(units + 1):
        ways = exp(-log_beta(hits + 1, units - hits + 1)) / (units + 1)
        total += ways * share**hits * (1 - share) ** (units - hits) * exp(log_evidence(hits, units, share))
    assert total == pytest.approx(1.0)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        log_evidence(1, 2, 1.0)


def test_evidence_that_no_float_holds_is_infinite() -> None:
    assert evidence(1000.0) == float("inf")
    assert evidence(log(20.0)) == pytest.approx(20.0)


@given(n01=st.integers(0, 500), n10=st.integers(0, 500))
def test_exchanging_the_arms_leaves_mcnemars_evidence_as_it_is(n01: int, n10: int) -> None:
    assert mcnemar_log_evidence(n01, n10) == pytest.approx(mcnemar_log_evidence(n10, n01), abs=1e-9)


@given(pairs=st.lists(st.tuples(st.booleans(), st.booleans()), max_size=40))
def test_pairs_that_agree_add_nothing_to_mcnemars_evidence(pairs: list[tuple[bool, bool]]) -> None:
    candidate, control = (np.array([pair[side] for pair in pairs], dtype=np.bool_) for side in (0, 1))
    path = mcnemar_path(candidate, control)
    for at in range(len(pairs)):
        only = [sum(pair == which for pair in pairs[: at + 1]) for which in ((True, False), (False, True))]
        assert path[at] == pytest.approx(mcnemar_log_evidence(*only), abs=1e-9)


def test_equal_shares_of_independent_units_are_rarely_called_different() -> None:
    rng, runs = np.random.default_rng(3), 400
    false = 0
    for _ in range(runs):
        candidate, control = rng.random((2, 3000)) < 0.05
        false += bool((mcnemar_path(candidate, control) > log(1 / ALPHA)).any())
    assert false / runs <= allowed(runs)


def test_an_error_rate_that_doubles_is_found_within_five_hundred_independent_pairs_in_the_median() -> None:
    rng = np.random.default_rng(4)
    pairs = []
    for _ in range(200):
        candidate, control = rng.random(4000) < 0.10, rng.random(4000) < 0.05
        found = np.flatnonzero(mcnemar_path(candidate, control) > log(1 / ALPHA))
        pairs.append(int(found[0]) + 1 if len(found) else 4000)
    assert float(np.median(pairs)) <= 500


def test_on_pairs_that_depend_on_each_other_an_e_process_is_nearly_always_false() -> None:
    """Why it is for independent units only: AR(1) 0.9, 3,000 pairs, no difference at all."""
    rng, rho, runs = np.random.default_rng(5), 0.9, 60
    steps: NDArray[np.float64] = rng.normal(0.0, 1.0, (3000, runs))
    for at in range(1, 3000):
        steps[at] = rho * steps[at - 1] + sqrt(1 - rho * rho) * steps[at]
    evidence_of_each = log_evidence_path(steps.T > 0, 0.5)
    assert (evidence_of_each > log(1 / ALPHA)).any(axis=1).mean() > 0.9
