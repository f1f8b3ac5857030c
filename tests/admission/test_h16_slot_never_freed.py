"""H16: what a request holds is given back by every ending, at once, once; a refused one costs nothing."""

from collections.abc import Callable

import pytest

from gateway.admission.refusal import Refused
from gateway.admission.ticket import Ticket, Usage
from gateway.spec import RoomSpec
from tests.admission.staging import SECOND, Stage, Told, key, spec, stage


def three_times(ticket: Ticket, at_ns: int) -> None:
    """Each ending after the first does nothing."""
    ticket.failed(at_ns)
    ticket.leave(at_ns)
    ticket.done(Usage(1, 1, 1), at_ns)


ENDINGS: dict[str, Callable[[Ticket, int], None]] = {
    "done": lambda ticket, at_ns: ticket.done(Usage(10, 0, 5), at_ns),
    "done, usage not told": lambda ticket, at_ns: ticket.done(None, at_ns),
    "failed": lambda ticket, at_ns: ticket.failed(at_ns),
    "left": lambda ticket, at_ns: ticket.leave(at_ns),
    "failed, then left, then done": lambda ticket, at_ns: three_times(ticket, at_ns),
}
every_ending = pytest.mark.parametrize("end", ENDINGS.values(), ids=ENDINGS)
BOUNDED = RoomSpec("m", concurrency=1)


@every_ending
def test_a_slot_is_free_again_after_every_ending(end: Callable[[Ticket, int], None]) -> None:
    with stage(spec([key("a", 0, concurrency=1)], [BOUNDED]), caps=(1, 1)) as gateway:
        for _ in range(3):
            ticket = gateway.admitted(Told(), "a")
            assert ticket.sit(0)
            assert gateway.reason(Told(), "a") == "key_concurrency"
            end(ticket, gateway.now_ns)
            assert not any(gateway.leases())


@every_ending
def test_a_request_that_waits_gives_back_everything_however_it_ends(
    end: Callable[[Ticket, int], None],
) -> None:
    keys = [key("a", 0, requests_per_s=0.001, requests_burst=2, prompt_tokens_per_s=0.001,
                prompt_tokens_burst=100)]  # fmt: skip
    with stage(spec(keys, [BOUNDED])) as gateway:
        runs = gateway.admitted(Told(), "a", tokens=40)
        told = Told()
        for _ in range(5):
            waits = gateway.admitted(told, "a", tokens=60)
            assert waits.waits
            end(waits, gateway.now_ns)
        assert told.turns == []
        runs.failed(gateway.now_ns)
        assert not any(gateway.leases())
        gateway.admitted(Told(), "a", tokens=100)  # all of the burst is there again


def test_a_refusal_by_one_limiter_takes_nothing_from_the_others() -> None:
    limits = {"requests_per_s": 0.001, "requests_burst": 1, "prompt_tokens_per_s": 0.001,
              "prompt_tokens_burst": 100, "concurrency": 1}  # fmt: skip
    keys = [key("a", 0, **limits), key("poor", 1, prompt_tokens_per_s=1.0, prompt_tokens_burst=10)]
    with stage(spec(keys, [RoomSpec("m", concurrency=0, waits=False), RoomSpec("n")], limits)) as gateway:
        assert gateway.reason(Told(), "a", tokens=100) == "fleet_full"
        assert gateway.reason(Told(), "a", fleet="n", tokens=101) == "prompt_above_burst"
        assert gateway.reason(Told(), "poor", fleet="n", tokens=11) == "prompt_above_burst"
        assert not any(gateway.leases())
        last = gateway.admitted(Told(), "a", fleet="n", tokens=100)
        last.failed(gateway.now_ns)
        gateway.admitted(Told(), "a", fleet="n", tokens=100)


def test_ten_clients_that_leave_do_not_keep_the_eleventh_out() -> None:
    with stage(spec([key("a", 0, concurrency=1)])) as gateway:
        for _ in range(10):
            gateway.admitted(Told(), "a").leave(gateway.now_ns)
        gateway.admitted(Told(), "a")


def test_a_seat_is_left_when_another_engine_is_tried() -> None:
    with stage(spec(), caps=(1, 1)) as gateway:
        ticket = gateway.admitted(Told())
        other = gateway.admitted(Told())
        assert ticket.sit(0)
        assert ticket.sit(0)
        assert gateway.workers[0].full("m") == (0,)
        assert not other.sit(0)
        assert ticket.sit(1)
        assert gateway.workers[0].full("m") == (1,)
        assert other.sit(0)
        ticket.done(None, gateway.now_ns)
        other.done(None, gateway.now_ns)
        assert not ticket.sit(0) or not any(gateway.leases())  # one that ended takes no place
        assert not any(gateway.leases())


def test_a_dead_workers_slots_are_free_once_the_supervisor_saw_it() -> None:
    with stage(spec([key("a", 0, concurrency=2)], [BOUNDED]), workers=2) as gateway:
        gateway.admitted(Told(), "a", worker=1)
        told = Told()
        waits = gateway.admitted(told, "a", worker=0)
        gateway.poll()
        assert waits.waits
        gateway.table.zero(1)
        gateway.workers[1] = gateway.start(1)
        gateway.workers[0].poll(gateway.now_ns)
        assert told.running == [waits]
        waits.done(None, gateway.now_ns)
        assert not any(gateway.leases())


def test_the_gauge_of_a_key_comes_back_to_zero() -> None:
    with stage(spec([key("a", 0)], [BOUNDED])) as gateway:
        runs, waits = gateway.admitted(Told(), "a"), gateway.admitted(Told(), "a")
        assert gateway.workers[0].gauges() == {
            ("waiting", "m", "high"): 0,
            ("waiting", "m", "normal"): 1,
            ("waiting", "m", "low"): 0,
            ("key_inflight", "a"): 2,
        }
        waits.leave(gateway.now_ns)
        runs.leave(gateway.now_ns)
        assert set(gateway.workers[0].gauges().values()) == {0}


def _refused(gateway: Stage, **how: object) -> Refused:
    refused = gateway.ask(Told(), "a", **how)  # type: ignore[arg-type]
    assert isinstance(refused, Refused)
    return refused


def test_h32_every_refusal_says_which_limit_and_when_to_come_again() -> None:
    keys = [key("a", 0, requests_per_s=0.25, requests_burst=1, concurrency=5)]
    with stage(spec(keys)) as gateway:
        gateway.admitted(Told(), "a")
        refused = _refused(gateway)
        assert (refused.status, refused.type, refused.reason) == (429, "rate_limit_error", "key_requests")
        assert refused.retry_after_s == 4
        assert "key a" in refused.message and "0.25 requests a second" in refused.message
        gateway.now_ns += 3 * SECOND + SECOND // 2
        assert _refused(gateway).retry_after_s == 1  # half a second is a whole one, never 0
        assert gateway.counts[0] == {("limited", "a", "normal", "key_requests"): 2}


def test_h32_coming_again_when_told_to_is_enough() -> None:
    keys = [key("a", 0, prompt_tokens_per_s=7.0, prompt_tokens_burst=100)]
    with stage(spec(keys)) as gateway:
        gateway.admitted(Told(), "a", tokens=90)
        refused = _refused(gateway, tokens=60)
        assert refused.retry_after_s is not None
        gateway.later(refused.retry_after_s)
        gateway.admitted(Told(), "a", tokens=60)


def test_who_is_not_known_is_told_so_and_counted() -> None:
    with stage(spec([key("a", 0)])) as gateway:
        admission = gateway.workers[0]
        assert admission.identify(b"Bearer sl-b") is None
        assert admission.unidentified(b"Bearer sl-b").reason == "unknown_key"
        assert admission.unidentified(b"").reason == "no_key"
        assert "sl-b" not in admission.unidentified(b"Bearer sl-b").message
        assert gateway.counts[0][("limited", "none", "normal", "unknown_key")] == 2
