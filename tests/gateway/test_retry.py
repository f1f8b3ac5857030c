"""Retries stay a share of the traffic, and those that were refused together do not come back together."""

from dataclasses import dataclass
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.retry import Retries, retry_after_s
from gateway.service import Tallies
from gateway.spec import LimitsSpec

RULES = LimitsSpec(retry_share=0.2, retry_per_s=2, retry_wait_s=2)


@dataclass
class Worker:
    """A worker whose attempts all fail, and its clock."""

    retries: Retries
    tallies: Tallies
    now_s: float = 1000.0
    rules: LimitsSpec = RULES

    def second(self, requests: int) -> int:
        """How many retries a second of traffic is granted, each request asking for as many as it can get."""
        granted = 0
        for _ in range(requests):
            self.tallies.requests += 1
            self.now_s += 1 / requests
            for made in range(2):
                if self.ask(made) is None:
                    break
                self.tallies.retried += 1
                granted += 1
        if not requests:
            self.now_s += 1
        return granted

    def ask(
        self, made: int = 0, why: str = "refused", *, another: bool = True, after_s: float | None = None
    ) -> float | None:
        return self.retries.next_delay_s(
            why,
            made,
            another=another,
            rules=self.rules,
            counted=self.tallies,
            now_s=self.now_s,
            retry_after_s=after_s,
        )


def worker(chance: float = 0.5, rules: LimitsSpec = RULES) -> Worker:
    return Worker(Retries(lambda: chance, 1000.0), Tallies(), rules=rules)


def test_in_an_outage_retries_are_a_share_of_the_traffic_and_a_few_a_second() -> None:
    one = worker()
    granted = [one.second(500) for _ in range(60)]
    assert all(90 <= n <= 102 + 2 for n in granted[10:])
    assert sum(granted) <= 0.2 * 500 * 60 + 2 * 60 + 2


@pytest.mark.parametrize("looked", [True, False])
def test_a_time_without_failures_allows_no_burst_beyond_its_last_seconds(looked: bool) -> None:
    one = worker()
    for _ in range(3600):
        one.tallies.requests += 1000
        one.now_s += 1
        if looked:
            one.retries.has_room(RULES, one.tallies, one.now_s)
    assert 1000 < one.second(100) + one.second(100) + one.second(5000) < 0.2 * 1000 * 10 + 3 * 1000
    for _ in range(600):
        one.second(0)
    assert one.second(50) + one.second(50) <= 50  # nothing is left of the traffic of ten minutes ago


def test_a_failing_past_is_forgotten_too() -> None:
    one = worker()
    for _ in range(600):
        one.second(500)
    for _ in range(30):
        one.second(0)
    assert one.ask() is not None


def test_little_traffic_can_be_retried() -> None:
    one = worker()
    for _ in range(100):
        assert one.second(1) >= 1


def test_without_share_and_minimum_nothing_is_retried_and_each_refusal_is_counted() -> None:
    one = worker(rules=LimitsSpec(retry_share=0, retry_per_s=0))
    assert one.second(100) == 0
    assert one.retries.refused == 100


def test_another_engine_is_asked_at_once_when_nobody_was_there_and_soon_at_the_second_time() -> None:
    one = worker(chance=1.0)
    assert one.ask(0, "refused") == 0.0
    assert one.ask(0, "cut") == 0.0
    assert one.ask(1, "refused") == pytest.approx(0.02)


@pytest.mark.parametrize("why", ["status_429", "status_5xx", "error_event"])
def test_after_busy_engines_the_wait_grows_up_to_a_bound(why: str) -> None:
    one = worker(chance=1.0)
    waits = [one.ask(made, why) for made in (0, 1, 2, 3, 10, 1000)]
    assert waits == pytest.approx([0.05, 0.1, 0.2, 0.4, 2.0, 2.0])


@given(st.floats(0, 1), st.integers(0, 20), st.sampled_from(["refused", "status_429"]))
def test_the_whole_wait_is_drawn(chance: float, made: int, why: str) -> None:
    drawn, longest = worker(chance).ask(made, why), worker(1.0).ask(made, why)
    assert drawn is not None and longest is not None
    assert drawn == pytest.approx(chance * longest)


def test_an_engine_that_named_a_time_is_asked_again_where_there_is_no_other_and_waiting_is_worth_it() -> None:
    one = worker(chance=1.0)
    assert one.ask(0, "status_429", another=False) is None
    assert one.ask(0, "status_429", another=False, after_s=7.0) is None
    assert one.ask(0, "refused", another=False, after_s=1.0) is None
    waits = one.ask(0, "status_429", another=False, after_s=1.0)
    assert waits == pytest.approx(1.1)  # never before its time
    assert worker(chance=0.0).ask(0, "status_429", another=False, after_s=1.0) == 1.0
    assert one.ask(0, "status_429", after_s=7.0) == pytest.approx(0.05)  # it was another engine's word


NOW = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (b"7", 7.0),
        (b" 0 ", 0.0),
        (b"Tue, 01 Jan 2030 00:00:09 GMT", 9.0),
        (b"Mon, 31 Dec 2029 00:00:00 GMT", 0.0),
        (b"-3", None),
        (b"1.5", None),
        (b"soon", None),
        (b"", None),
    ],
)
def test_retry_after_is_a_number_or_a_date(value: bytes, seconds: float | None) -> None:
    assert retry_after_s(value, NOW) == seconds


@given(st.binary(max_size=40))
def test_no_retry_after_crashes_or_is_in_the_past(value: bytes) -> None:
    found = retry_after_s(value, NOW)
    assert found is None or found >= 0
