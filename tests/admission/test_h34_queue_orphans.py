"""H34: whoever waits is served, told or gone; no class starves, none that left has a turn, all is bounded."""

from dataclasses import replace

import pytest

from gateway.admission.refusal import Refused
from gateway.admission.ticket import Ticket
from gateway.admission.turns import PATIENCE_NS
from gateway.spec import RoomSpec
from tests.admission.staging import SECOND, Stage, Told, key, spec, stage

ONE = [RoomSpec("m", concurrency=1)]


def test_an_engine_is_chosen_when_there_is_room_and_not_before() -> None:
    with stage(spec(rooms=ONE)) as gateway:
        told = Told()
        runs, waits = gateway.admitted(told), gateway.admitted(told)
        assert (runs.waits, waits.waits, told.turns) == (False, True, [])
        assert gateway.bells[0].waited == 1
        gateway.later(2.5)
        runs.done(None, gateway.now_ns)
        assert told.turns == [(waits, None)]
        assert not waits.waits
        ((series, waited),) = gateway.workers[0].waits().items()
        assert (series, waited.n, waited.total_s) == (("queue_wait", "m", "normal"), 1, 2.5)
        assert gateway.workers[0].waits() == {}


def test_one_low_request_runs_under_a_steady_load_of_high_ones() -> None:
    trickle = 4
    keys = [key("hi", 0, priority=0), key("lo", 1, priority=2)]
    with stage(spec(keys, ONE, trickle=trickle)) as gateway:
        high, low = Told(), Told()
        runs = gateway.admitted(high, "hi")
        for _ in range(20):
            gateway.admitted(high, "hi")
        gateway.admitted(low, "lo")
        for _turn in range(3 * trickle):
            before = len(high.running)
            runs.done(None, gateway.now_ns)
            if low.running:
                break
            runs = high.running[before]
            gateway.admitted(high, "hi")  # the load goes on
        assert low.running


def test_a_higher_class_comes_first_otherwise() -> None:
    keys = [key("k", 0, priority=0)]
    with stage(spec(keys, ONE, trickle=1000)) as gateway:
        runs = gateway.admitted(Told(), "k")
        order = [b"low", b"normal", b"high", b"low", b"nonsense", b""]
        told = Told()
        asked = [gateway.admitted(told, "k", priority=priority) for priority in order]
        for _ in order:
            runs.done(None, gateway.now_ns)
            runs = told.running[-1]
        assert [asked.index(ticket) for ticket in told.running] == [2, 4, 5, 1, 0, 3]


def test_a_client_may_lower_its_class_and_not_raise_it() -> None:
    with stage(spec([key("k", 0, priority=1)], ONE)) as gateway:
        assert gateway.admitted(Told(), "k", priority=b"high").priority == 1
        assert gateway.admitted(Told(), "k", priority=b" Low ").priority == 2


def test_clients_that_left_are_removed_at_once_and_free_their_places() -> None:
    with stage(spec(rooms=ONE, queue_entries=5)) as gateway:
        told = Told()
        runs = gateway.admitted(told)
        waiting = [gateway.admitted(told) for _ in range(5)]
        assert gateway.reason(told) == "queue_entries"
        for ticket in waiting[:4]:
            ticket.leave(gateway.now_ns)
        more = [gateway.admitted(told) for _ in range(4)]
        assert gateway.reason(told) == "queue_entries"
        for _ in range(5):
            runs.done(None, gateway.now_ns)
            runs = told.running[-1]
        assert told.running == [waiting[4], *more]  # an engine never sees the four
        assert gateway.workers[0].waiting == 0


def test_one_that_leaves_between_its_turn_and_the_news_of_it_is_not_told() -> None:
    with stage(spec(rooms=[RoomSpec("m", concurrency=2)])) as gateway:
        told: list[Ticket] = []

        def on_turn(ticket: Ticket, refused: Refused | None) -> None:
            told.append(ticket)
            second.leave(gateway.now_ns)

        dummy = Told()
        running = [gateway.admitted(dummy) for _ in range(2)]
        first = gateway.admitted(on_turn)
        second = gateway.admitted(on_turn)
        gateway.table.zero(0)  # room for both at once, as when limits are raised
        gateway.table.cells[gateway.table.at(gateway.table.waiting, 0)] = 2
        gateway.workers[0].poll(gateway.now_ns)
        assert told == [first]
        del running


def test_the_queue_is_bounded_in_bytes_and_over_all_workers() -> None:
    with stage(spec(rooms=ONE, queue_bytes=1000, queue_entries=4), workers=2) as gateway:
        told = Told()
        gateway.admitted(told, worker=0)
        assert gateway.reason(told, body_bytes=1001) == "queue_bytes"
        gateway.admitted(told, worker=0, body_bytes=600)
        assert gateway.reason(told, worker=1, body_bytes=401) == "queue_bytes"
        gateway.admitted(told, worker=1, body_bytes=0)
        gateway.admitted(told, worker=1, body_bytes=0)
        gateway.admitted(told, worker=0, body_bytes=0)
        assert gateway.reason(told, worker=1, body_bytes=0) == "queue_entries"


def test_a_wait_is_bounded_and_its_end_is_told() -> None:
    with stage(spec(rooms=ONE, queue_wait_s=3)) as gateway:
        told = Told()
        runs = gateway.admitted(told)
        first = gateway.admitted(told)
        gateway.later(2)
        gateway.admitted(told)
        gateway.later(1)
        gateway.poll()
        ((ticket, refused),) = told.turns
        assert ticket is first and refused is not None
        assert (refused.status, refused.reason) == (503, "queue_wait")
        assert refused.retry_after_s is not None and refused.retry_after_s >= 1
        assert gateway.counts[0] == {("limited", "anonymous", "normal", "queue_wait"): 1}
        runs.done(None, gateway.now_ns)
        assert len(told.running) == 1


def test_a_queue_lives_while_anything_waits_in_it() -> None:
    keys = [key(name, at, priority=at % 3) for at, name in enumerate("abcdef")]
    with stage(spec(keys, ONE, queue_wait_s=1e6)) as gateway:
        told = Told()
        runs = gateway.admitted(told, "a")
        for name in "abcdef":
            gateway.admitted(told, name)
        for _ in range(50):
            gateway.later(3600)
            gateway.poll()
        for _ in "abcdef":
            runs.done(None, gateway.now_ns)
            runs = told.running[-1]
        assert {ticket.key.name for ticket in told.running} == set("abcdef")


def test_when_full_the_lowest_class_gives_way_to_a_higher_one() -> None:
    keys = [key("hi", 0, priority=0), key("lo", 1, priority=2)]
    with stage(spec(keys, ONE, queue_entries=2)) as gateway:
        gateway.admitted(Told(), "hi")
        low, high = Told(), Told()
        first, second = gateway.admitted(low, "lo"), gateway.admitted(low, "lo")
        gateway.admitted(high, "hi")
        assert low.refused == ["shed"] and not second.waits and first.waits  # the newest goes
        gateway.admitted(high, "hi")
        assert gateway.reason(Told(), "lo") == "queue_entries"
        assert gateway.reason(Told(), "hi") == "queue_entries"
        assert high.turns == []


def test_shedding_makes_room_in_bytes_or_is_not_done() -> None:
    keys = [key("hi", 0, priority=0), key("lo", 1, priority=2)]
    with stage(spec(keys, ONE, queue_bytes=1000)) as gateway:
        gateway.admitted(Told(), "hi")
        low = Told()
        gateway.admitted(low, "lo", body_bytes=600)
        gateway.admitted(low, "lo", body_bytes=100)
        assert gateway.reason(Told(), "hi", body_bytes=401) == "queue_bytes"
        assert low.refused == []
        gateway.admitted(Told(), "hi", body_bytes=400)
        assert low.refused == ["shed"]


def test_a_key_that_floods_the_queue_gives_way_to_one_that_does_not() -> None:
    keys = [key("flood", 0), key("light", 1, weight=2.0)]
    with stage(spec(keys, ONE, queue_entries=6)) as gateway:
        gateway.admitted(Told(), "flood")
        flood, light = Told(), Told()
        for _ in range(6):
            gateway.admitted(flood, "flood")
        asked = [gateway.ask(light, "light") for _ in range(6)]
        assert flood.refused == ["shed"] * 4
        assert [isinstance(one, Refused) for one in asked] == [False] * 4 + [True] * 2
        assert light.turns == []


# When a fleet is out of room


def test_a_fallback_is_used_while_it_has_room_and_said() -> None:
    rooms = [RoomSpec("m", concurrency=1, fallback="small"), RoomSpec("small", concurrency=1)]
    with stage(spec(rooms=rooms)) as gateway:
        told = Told()
        gateway.admitted(told)
        second = gateway.admitted(told)
        assert (second.fleet, second.degraded, second.waits) == ("small", "fleet=small", False)
        third = gateway.admitted(told)
        assert (third.fleet, third.degraded, third.waits) == ("m", None, True)
        second.done(None, gateway.now_ns)
        assert third.waits  # it waits for the fleet it asked for
        assert gateway.counts[0] == {("degraded", "small", "fallback"): 1}


def test_those_that_had_to_wait_may_be_made_shorter_and_it_is_said() -> None:
    with stage(spec(rooms=[RoomSpec("m", concurrency=1, shorten_to=64)])) as gateway:
        told = Told()
        first, second = gateway.admitted(told), gateway.admitted(told)
        first.done(None, gateway.now_ns)
        assert (first.shorten_to, first.degraded) == (None, None)
        assert (second.shorten_to, second.degraded) == (64, "max_tokens=64")


def test_a_fleet_may_refuse_instead_of_letting_wait() -> None:
    with stage(spec(rooms=[RoomSpec("m", concurrency=1, waits=False)])) as gateway:
        gateway.admitted(Told())
        refused = gateway.ask(Told())
        assert isinstance(refused, Refused)
        assert (refused.status, refused.reason, refused.degraded) == (503, "fleet_full", "refused")
        assert refused.retry_after_s == 1


def test_a_request_that_is_not_held_whole_is_refused_where_it_would_wait() -> None:
    with stage(spec(rooms=ONE)) as gateway:
        gateway.admitted(Told(), may_wait=False)
        assert gateway.reason(Told(), may_wait=False) == "fleet_full"


def test_engines_that_are_down_take_their_room_with_them() -> None:
    with stage(spec(), caps=(1, 2)) as gateway:
        told = Told()
        gateway.fleets["m"].engines[1].up = False
        gateway.admitted(told)
        waits = gateway.admitted(told)
        assert waits.waits
        gateway.fleets["m"].engines[1].up = True
        gateway.later(0.2)
        gateway.poll()
        assert not waits.waits
        for engine in gateway.fleets["m"].engines:
            engine.up = False
        gateway.later(0.2)
        assert not gateway.admitted(told).waits  # there is nothing to wait for: the relay says so


# Over several workers


def other_waits(gateway: Stage) -> tuple[Ticket, Ticket, Told]:
    """Worker 0 runs one, and one waits in worker 1."""
    told = Told()
    runs = gateway.admitted(Told(), worker=0)
    gateway.later(0.001)
    return runs, gateway.admitted(told, worker=1), told


def test_room_that_one_worker_makes_is_used_by_another_at_once() -> None:
    with stage(spec(rooms=ONE), workers=2) as gateway:
        runs, waits, told = other_waits(gateway)
        runs.done(None, gateway.now_ns)
        assert gateway.bells[0].rung == [1]
        gateway.workers[1].poll(gateway.now_ns)
        assert told.running == [waits]


def test_a_newcomer_in_another_worker_does_not_jump_the_queue() -> None:
    with stage(spec(rooms=ONE), workers=2) as gateway:
        runs, waits, told = other_waits(gateway)
        runs.done(None, gateway.now_ns)
        gateway.later(0.001)
        late = Told()
        newcomer = gateway.admitted(late, worker=0)
        assert newcomer.waits
        gateway.workers[0].poll(gateway.now_ns)
        assert newcomer.waits
        gateway.workers[1].poll(gateway.now_ns)
        assert told.running == [waits]


def test_a_worker_that_does_not_take_its_turn_loses_it() -> None:
    with stage(spec(rooms=ONE), workers=2) as gateway:
        runs, waits, _told = other_waits(gateway)
        gateway.later(0.001)
        late = Told()
        mine = gateway.admitted(late, worker=0)
        runs.done(None, gateway.now_ns)
        assert mine.waits
        gateway.now_ns += PATIENCE_NS - 1
        gateway.workers[0].poll(gateway.now_ns)
        assert mine.waits
        gateway.now_ns += 1
        gateway.workers[0].poll(gateway.now_ns)
        assert late.running == [mine]
        mine.done(None, gateway.now_ns)
        gateway.workers[1].poll(gateway.now_ns)
        assert not waits.waits


def test_nobody_is_rung_for_whom_there_is_no_room() -> None:
    with stage(spec(rooms=[RoomSpec("m", concurrency=2)]), workers=2) as gateway:
        gateway.admitted(Told(), worker=0)
        runs = gateway.admitted(Told(), worker=0)
        gateway.admitted(Told(), worker=1)
        runs.leave(gateway.now_ns)
        assert gateway.bells[0].rung == [1]
        gateway.workers[1].poll(gateway.now_ns)
        assert (gateway.bells[0].rung, gateway.bells[1].rung) == ([1], [])


def test_limits_may_change_while_requests_run_and_wait() -> None:
    with stage(spec([key("a", 0)], ONE)) as gateway:
        told = Told()
        runs, waits = gateway.admitted(told, "a"), gateway.admitted(told, "a")
        admission, fleets = gateway.workers[0], gateway.fleets
        admission.apply(spec([key("a", 0, concurrency=2)], [RoomSpec("m", concurrency=2)]), fleets)
        assert gateway.reason(told, "a") == "key_concurrency"
        admission.poll(gateway.now_ns)
        assert told.running == [waits]
        admission.apply(spec([key("a", 0)], [RoomSpec("m")]), fleets)
        runs.done(None, gateway.now_ns)
        waits.done(None, gateway.now_ns)
        assert not any(gateway.leases())
        assert admission.usage()[("key_requests", "a")] == 2
        with pytest.raises(ValueError, match="room for"):
            admission.apply(spec([key("a", 9)]), fleets)


def test_whoever_waits_for_a_fleet_that_is_taken_out_hears_of_it() -> None:
    with stage(spec(rooms=ONE)) as gateway:
        told = Told()
        runs, waits = gateway.admitted(told), gateway.admitted(told)
        fleets = {"n": gateway.fleets["m"]}
        other = replace(spec(rooms=[RoomSpec("n", concurrency=1)]).rooms[0], slot=1)
        gateway.workers[0].apply(replace(gateway.spec, rooms=(other,)), fleets)  # type: ignore[arg-type]
        gateway.workers[0].poll(gateway.now_ns)
        assert told.running == [waits]
        runs.done(None, gateway.now_ns)
        waits.failed(gateway.now_ns)
        assert not any(gateway.leases())
        gateway.admitted(told, fleet="n")


def test_a_wait_is_not_counted_twice_when_callbacks_ask_again() -> None:
    """A turn whose request fails at once makes the next turn from inside the callback."""
    with stage(spec(rooms=ONE)) as gateway:
        order: list[Ticket] = []

        def on_turn(ticket: Ticket, refused: Refused | None) -> None:
            order.append(ticket)
            ticket.failed(gateway.now_ns)

        runs = gateway.admitted(Told())
        waiting = [gateway.admitted(on_turn) for _ in range(1000)]
        gateway.now_ns += SECOND
        runs.done(None, gateway.now_ns)
        assert order == waiting
        assert not any(gateway.leases())
