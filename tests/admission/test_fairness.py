"""Fairness as laws: over any schedule a key gets its share by weight, and no class waits beyond its bound."""

from collections import deque

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.admission.ticket import Ticket, Usage
from gateway.spec import AdmissionSpec, KeySpec, RoomSpec
from tests.admission.staging import Stage, Told, key, spec, stage

MOST_TOKENS = 400
TOKENS = st.integers(0, MOST_TOKENS)
WEIGHTS = st.lists(st.sampled_from([0.5, 1.0, 2.0, 3.0, 10.0]), min_size=2, max_size=4)


def one_at_a_time(keys: list[KeySpec], trickle: int = 5) -> AdmissionSpec:
    return spec(
        keys, [RoomSpec("m", concurrency=1)], trickle=trickle, queue_entries=100_000, queue_wait_s=1e6
    )


def named(at: int) -> str:
    return "abcdef"[at]


class Loop:
    """Clients that ask again and again, so that each of their keys always waits."""

    def __init__(self, gateway: Stage) -> None:
        self.gateway = gateway
        self.turns: deque[Ticket] = deque()
        self.runs: Ticket | None = None

    def told(self, ticket: Ticket, _refused: object) -> None:
        self.turns.append(ticket)

    def ask(self, name: str, tokens: int, worker: int, priority: bytes = b"") -> Ticket:
        self.gateway.now_ns += 1000
        return self.gateway.admitted(self.told, name, tokens=tokens, worker=worker, priority=priority)

    def turn(self, ended: Ticket, usage: Usage | None = None) -> Ticket:
        """End what runs; the next.  Every worker has looked at its queue since the last turn, as they do."""
        self.gateway.now_ns += 1_000_000
        self.gateway.poll()
        ended.done(usage, self.gateway.now_ns)
        for _ in self.gateway.workers:
            if self.turns:
                break
            self.gateway.poll()
        return self.turns.popleft()


@settings(deadline=None)
@given(WEIGHTS, st.integers(1, 3), st.data())
def test_keys_that_always_wait_get_shares_by_weight(
    weights: list[float], workers: int, data: st.DataObject
) -> None:
    """|given to a / weight of a - given to b / weight of b| is at most one largest request of each."""
    keys = [key(named(at), at, weight=weight) for at, weight in enumerate(weights)]
    with stage(one_at_a_time(keys), workers=workers) as gateway:
        loop = Loop(gateway)
        runs = loop.ask("a", 0, 0)
        for at in range(len(keys)):
            for _ in range(2):
                loop.ask(named(at), data.draw(TOKENS), data.draw(st.integers(0, workers - 1)))
        given_tokens = dict.fromkeys(range(len(keys)), 0)
        given_tokens[0] += 1
        for _ in range(40):
            runs = loop.turn(runs)
            given_tokens[runs.key.slot] += 1 + runs.prompt_tokens
            loop.ask(runs.key.name, data.draw(TOKENS), data.draw(st.integers(0, workers - 1)))
            for a, b in zip(range(len(keys)), range(1, len(keys)), strict=False):
                apart = abs(given_tokens[a] / weights[a] - given_tokens[b] / weights[b])
                assert apart <= (MOST_TOKENS + 1) * (1 / weights[a] + 1 / weights[b]) + 1


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 2), TOKENS), max_size=60), st.integers(1, 2))
def test_a_key_that_was_away_saved_up_nothing_and_owes_nothing(
    past: list[tuple[int, int]], workers: int
) -> None:
    """However much two keys had before, from the moment both wait they take turns."""
    keys = [key(named(at), at) for at in range(3)]
    with stage(one_at_a_time(keys), workers=workers) as gateway:
        loop = Loop(gateway)
        for at, tokens in past:
            loop.ask(named(at), tokens, at % workers).done(None, gateway.now_ns)
        runs = loop.ask("c", 0, 0)
        for at in (0, 1):
            for _ in range(12):
                loop.ask(named(at), 100, at % workers)
        order = []
        for _ in range(12):
            runs = loop.turn(runs)
            order.append(runs.key.slot)
        # whoever had the last and largest request of the past is at most that much behind
        owed = 1 + max((tokens for _at, tokens in past), default=0) // 100
        assert abs(order.count(0) - order.count(1)) <= 2 + owed


@settings(deadline=None)
@given(
    st.integers(2, 6),
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=60),
    st.integers(1, 2),
    st.lists(st.integers(0, 3), min_size=40, max_size=40),
)
def test_no_class_that_waits_is_passed_over_for_longer_than_promised(
    trickle: int, waiting: list[tuple[int, int]], workers: int, arrivals: list[int]
) -> None:
    keys = [key("a", 0, priority=0), key("b", 1, priority=0)]
    names = [b"high", b"normal", b"low"]
    with stage(one_at_a_time(keys, trickle), workers=workers) as gateway:
        loop = Loop(gateway)
        runs = loop.ask("a", 0, 0)
        waits = [0, 0, 0]
        for priority, at in waiting:
            loop.ask(named(at), 1, at % workers, names[priority])
            waits[priority] += 1
        passed_over = [0, 0, 0]
        for arrives in arrivals:
            if not any(waits):
                break
            if arrives < 3:
                loop.ask("b", 1, 1 % workers, names[arrives])
                waits[arrives] += 1
            runs = loop.turn(runs)
            waits[runs.priority] -= 1
            for priority in range(3):
                due = waits[priority] and priority != runs.priority
                passed_over[priority] = passed_over[priority] + 1 if due else 0
            assert max(passed_over) < 3 * trickle


def test_output_counts_too() -> None:
    """Two keys ask alike, one gets long answers: it gets fewer turns."""
    keys = [key("long", 0), key("short", 1)]
    with stage(one_at_a_time(keys)) as gateway:
        loop = Loop(gateway)
        runs = loop.ask("long", 10, 0)
        for name in ("long", "short") * 30:
            loop.ask(name, 10, 0)
        turns = []
        for _ in range(24):
            runs = loop.turn(runs, Usage(10, 0, 200 if runs.key.name == "long" else 0))
            turns.append(runs.key.name)
        assert turns.count("long") <= 4


def test_a_large_weight_is_served_as_often() -> None:
    keys = [key("heavy", 0, weight=3.0), key("light", 1)]
    told = Told()
    with stage(one_at_a_time(keys)) as gateway:
        runs = gateway.admitted(told, "light")
        for _ in range(40):
            gateway.admitted(told, "heavy", tokens=50)
            gateway.admitted(told, "light", tokens=50)
        for _ in range(40):
            runs.done(None, gateway.now_ns)
            runs = told.running[-1]
        names = [ticket.key.name for ticket in told.running]
        assert names.count("heavy") == 30


def test_a_request_that_failed_costs_its_key_no_turn() -> None:
    keys = [key("unlucky", 0), key("other", 1)]
    with stage(one_at_a_time(keys)) as gateway:
        loop = Loop(gateway)
        runs = loop.ask("other", 10, 0)
        for name in ("unlucky", "other") * 30:
            loop.ask(name, 100, 0)
        served: list[str] = []
        for _ in range(40):
            gateway.now_ns += 1000
            if runs.key.name == "unlucky" and len(served) < 10:
                served.append("failed")
                runs.failed(gateway.now_ns)
                runs = loop.turns.popleft()
            else:
                served.append(runs.key.name)
                runs = loop.turn(runs)
        assert abs(served.count("unlucky") - served.count("other")) <= 2
