"""What is believed of a publisher while messages are lost, replayed, late, forged or begin anew."""

from collections import deque
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from routing.events.board import State
from routing.events.chain import block_chain
from routing.events.publisher import Publisher
from routing.events.reader import Reader
from tests.routing.events.memory import CLEARED, Memory, captured, payload, removed, stored

SIZE = 2
WORDS = range(12)  # each a block that begins a chain of its own


def own_hash(word: int, life: int) -> int:
    """Another in each life of the engine, as vLLM's are seeded."""
    return hash((word, life)) & 0xFFFF_FFFF


class Engine:
    """A publisher: what it holds, what it has published in this life, and what of that it can replay."""

    def __init__(self, kept: int) -> None:
        self.life = 0
        self.kept = kept
        self.held: set[int] = set()
        self.number = 0
        self.ring: deque[tuple[int, bytes]] = deque(maxlen=kept)

    def publish(self, *events: object) -> tuple[int, bytes]:
        message = (self.number, payload(*events))
        self.ring.append(message)
        self.number += 1
        return message

    def compute(self, word: int) -> tuple[int, bytes]:
        if word in self.held:
            self.held.discard(word)
            return self.publish(removed(own_hash(word, self.life)))
        self.held.add(word)
        return self.publish(stored([own_hash(word, self.life)], None, [word, 7], SIZE))

    def clear(self) -> tuple[int, bytes]:
        self.held.clear()
        return self.publish(CLEARED)

    def restart(self) -> None:
        self.life += 1
        self.held.clear()
        self.number = 0
        self.ring.clear()

    def replay(self, start: int) -> list[tuple[int, bytes]]:
        return [message for message in self.ring if message[0] >= start]


def known(reader: Reader) -> set[int] | None:
    """Which words are known to be held; None where the engine is not in a match."""
    said = [reader.match(block_chain([word, 7], SIZE), SIZE) for word in WORDS]
    return None if not all(said) else {word for word, found in zip(WORDS, said, strict=True) if found[3]}


class Scene:
    """An engine, and a publisher's state that hears it over a lossy wire."""

    def __init__(self, kept: int, *, can_replay: bool) -> None:
        memory = Memory()
        marked = memory.book().open(3, 0)
        self.publisher = Publisher(marked, can_replay=can_replay, most_blocks=100)
        self.engine = Engine(kept)
        self.reader = memory.reader()
        self.publisher.connected()

    def deliver(self, message: tuple[int, bytes]) -> None:
        self.publisher.heard(*message)

    def replays(self, *, fail: bool = False, between: tuple[int, bytes] | None = None) -> None:
        """Do what the publisher wants, as long as it wants something."""
        for _ in range(5):
            start, self.publisher.wanted = self.publisher.wanted, None
            if start is None:
                if between is not None:
                    self.deliver(between)
                return
            said = self.engine.replay(start)
            for at, message in enumerate(said):
                if fail and at >= len(said) // 2:
                    break
                self.publisher.replayed(*message)
            if between is not None:
                self.deliver(between)
                between = None
            self.publisher.replay_ended(whole=not fail)
            fail = False

    def check(self) -> None:
        """What is said to be held is held, and of an exact publisher all of it."""
        here = known(self.reader)
        if self.publisher.state is State.EXACT:
            assert here == self.engine.held
        else:
            assert not here
            for word in set(WORDS) - self.engine.held:
                assert not self.reader.at_least(block_chain([word, 7], SIZE), SIZE).get(3)


acts = st.lists(
    st.tuples(
        st.sampled_from(
            ["compute"] * 8 + ["reconnect"] * 2
            + ["lose", "clear", "restart", "audit", "retry", "fail", "during"]
        ),
        st.sampled_from(WORDS),
    ),
    max_size=60,
)  # fmt: skip


@settings(max_examples=400)
@given(acts, st.sampled_from([1, 3, 1000]), st.booleans())
def test_what_is_believed_is_true_whatever_is_lost(
    said: list[tuple[str, int]], kept: int, can_replay: bool
) -> None:
    """Messages are lost, the engine restarts, connections break, replays fail or are too short."""
    scene = Scene(kept, can_replay=can_replay)
    engine, publisher = scene.engine, scene.publisher
    scene.replays()
    lost = down = False
    for act, word in said:
        if act == "restart":
            engine.restart()
            down = True
        if act == "reconnect":
            publisher.connected()
            down = False
        elif act == "lose" or down:
            engine.compute(word)
            lost = True
        elif act == "audit":
            publisher.audit()
        elif act == "retry" and publisher.replay_failed:
            publisher.retry()
        elif act in ("fail", "during"):
            scene.deliver(engine.compute(word))
            engine.compute(word + 1 if word + 1 in WORDS else 0)
            scene.deliver(engine.compute(word))
            lost = False
            if act == "fail":
                scene.replays(fail=True)
            else:
                scene.replays(between=engine.compute(word))
        else:
            scene.deliver(engine.clear() if act == "clear" else engine.compute(word))
            lost = False
        scene.replays()
        if not lost and not down:
            scene.check()
    publisher.connected()
    scene.replays()
    if can_replay and kept == 1000:
        assert publisher.state is State.EXACT  # a replay that reaches back to the beginning mends all
    scene.check()


def exact(publisher: Publisher, reader: Reader) -> set[int] | None:
    assert publisher.state is State.EXACT
    return known(reader)


def test_a_publisher_heard_from_its_first_message_on_is_exact_without_a_replay() -> None:
    scene = Scene(0, can_replay=False)
    assert scene.publisher.state is State.COLD and known(scene.reader) is None
    scene.deliver(scene.engine.compute(1))
    assert exact(scene.publisher, scene.reader) == {1}


def test_one_that_has_published_nothing_is_exact_as_soon_as_it_says_so() -> None:
    scene = Scene(9, can_replay=True)
    assert scene.publisher.state is State.BOOTSTRAP
    scene.replays()
    assert exact(scene.publisher, scene.reader) == set()


@pytest.mark.parametrize("can_replay", [True, False])
def test_a_late_gateway_asks_for_the_beginning_or_knows_that_it_does_not_know_all(can_replay: bool) -> None:
    scene = Scene(1000, can_replay=can_replay)
    scene.publisher.wanted = None  # its answer never comes
    scene.publisher.replay_ended(whole=False)
    scene = Scene(1000, can_replay=can_replay)
    for word in (1, 2, 3):
        scene.engine.compute(word)
    scene.replays()
    scene.deliver(scene.engine.compute(4))
    scene.replays()
    if can_replay:
        assert exact(scene.publisher, scene.reader) == {1, 2, 3, 4}
    else:
        assert scene.publisher.state is State.DEGRADED and scene.publisher.why == "late"
        assert scene.reader.at_least(block_chain([4, 7], SIZE), SIZE) == {3: 1}
        scene.deliver(scene.engine.clear())
        assert exact(scene.publisher, scene.reader) == set()


@pytest.mark.parametrize("kept", [1, 3])
def test_a_replay_that_does_not_reach_back_to_the_beginning_is_not_all(kept: int) -> None:
    scene = Scene(kept, can_replay=True)
    for word in range(6):
        scene.engine.compute(word)
    scene.replays()
    assert scene.publisher.state is State.DEGRADED and scene.publisher.why == "partial_replay"
    assert scene.publisher.held == kept
    scene.check()


def test_a_gap_is_filled_by_a_replay() -> None:
    scene = Scene(1000, can_replay=True)
    scene.replays()
    scene.deliver(scene.engine.compute(1))
    scene.engine.compute(1)
    scene.engine.compute(2)
    scene.deliver(scene.engine.compute(3))
    assert scene.publisher.state is State.DEGRADED and scene.publisher.wanted == 1
    scene.replays()
    assert exact(scene.publisher, scene.reader) == {2, 3}
    assert scene.publisher.counts["gaps"] == 1 and scene.publisher.counts["missed"] == 2
    assert scene.publisher.counts["wipes"] == 0


@pytest.mark.parametrize("can_replay", [True, False])
def test_a_gap_that_nothing_fills_makes_all_worthless_that_was_known(can_replay: bool) -> None:
    scene = Scene(1, can_replay=can_replay)
    scene.replays()
    scene.deliver(scene.engine.compute(1))
    scene.engine.compute(1)
    scene.engine.compute(2)
    scene.deliver(scene.engine.compute(3))
    scene.replays()
    assert scene.publisher.state is State.DEGRADED and scene.publisher.held == 1


def test_numbers_that_go_backwards_are_another_process() -> None:
    """It restarts at 0 on the same address, and not all of it is lost."""
    scene = Scene(1000, can_replay=False)
    for word in range(6):
        scene.deliver(scene.engine.compute(word))
    scene.engine.restart()
    scene.deliver(scene.engine.compute(7))
    assert exact(scene.publisher, scene.reader) == {7}
    assert scene.publisher.counts["restarts"] == 1


def test_another_process_whose_numbers_go_on_is_told_by_what_it_replays() -> None:
    """The old had published 3 messages, the new one 4 while nobody listened."""
    scene = Scene(1000, can_replay=True)
    scene.replays()
    for word in (1, 2, 3):
        scene.deliver(scene.engine.compute(word))
    scene.engine.restart()
    for word in (4, 5, 6):
        scene.engine.compute(word)
    scene.publisher.connected()
    scene.replays()
    assert exact(scene.publisher, scene.reader) == {4, 5, 6}


def test_an_audit_finds_what_was_lost_at_the_end_and_disturbs_nobody_meanwhile() -> None:
    scene = Scene(1000, can_replay=True)
    scene.replays()
    scene.deliver(scene.engine.compute(1))
    scene.engine.compute(2)
    scene.publisher.audit()
    assert scene.publisher.state is State.EXACT
    scene.replays()
    assert exact(scene.publisher, scene.reader) == {1, 2}


@pytest.mark.parametrize("junk", [b"", b"\xc1", payload({"type": "BlockRemoved"}), b"\x91\x01"])
def test_junk_costs_only_its_own_publisher_what_was_known_of_it(junk: bytes) -> None:
    memory = Memory()
    book = memory.book()
    good = Publisher(book.open(1, 0), can_replay=False, most_blocks=100)
    bad = Publisher(book.open(3, 0), can_replay=False, most_blocks=100)
    message = payload(stored([5], None, [1, 7], SIZE))
    for publisher in (good, bad):
        publisher.heard(0, message)
    bad.heard(1, junk)
    assert memory.reader().match(block_chain([1, 7], SIZE), SIZE) == {1: 1}
    assert bad.state is State.DEGRADED and bad.ignored.total() == 1
    bad.heard(2, payload(CLEARED))
    assert memory.reader().match(block_chain([1, 7], SIZE), SIZE) == {1: 1, 3: 0}


def test_endless_blocks_end_with_that_publisher_not_being_believed() -> None:
    memory = Memory()
    publisher = Publisher(memory.book().open(3, 0), can_replay=False, most_blocks=100)
    for n in range(500):
        publisher.heard(n, payload(stored([n], None, [n, 7], SIZE)))
        assert publisher.held <= 100
    assert publisher.state is State.DEGRADED and publisher.why == "too_many_blocks"
    assert publisher.held == 0 and publisher.ignored["too_many_blocks"] > 300
    publisher.heard(500, payload(CLEARED, stored([1], None, [1, 7], SIZE)))
    assert exact(publisher, memory.reader()) == {1}


def test_what_comes_during_a_replay_is_bounded_and_asked_for_again() -> None:
    scene = Scene(1000, can_replay=True)
    scene.replays()
    scene.deliver(scene.engine.compute(1))
    scene.engine.compute(2)
    large = [stored([n], None, [*range(20_000)], 20_000) for n in range(100)]
    for _ in range(12):  # 12 messages of 5 MB
        scene.deliver(scene.engine.publish(*large))
    assert scene.publisher.counts["held_back_dropped"] > 0
    scene.replays()
    assert exact(scene.publisher, scene.reader) == {1, 2}


@settings(max_examples=200)
@given(
    st.lists(st.tuples(st.integers(0, 2**64 - 1) | st.integers(0, 9), st.binary(max_size=20)), max_size=30)
)
def test_forged_messages_never_raise(messages: list[tuple[int, bytes]]) -> None:
    rng = Random(1)
    publisher = Publisher(Memory().book().open(0, 0), can_replay=True, most_blocks=10)
    for number, message in messages:
        match rng.randrange(6):
            case 0:
                publisher.connected()
            case 1:
                publisher.replayed(number, message)
            case 2:
                publisher.replay_ended(whole=rng.random() < 0.5)
            case 3:
                publisher.audit()
            case _:
                publisher.heard(number, message)
    assert publisher.held <= 10


def test_what_real_engines_published_is_followed_to_the_end() -> None:
    for name in ("vllm", "mocker"):
        publisher = Publisher(Memory().book().open(0, 0), can_replay=False, most_blocks=1000)
        for _, number, message in captured(name):
            publisher.heard(number, message)
        assert publisher.state is State.EXACT and publisher.held > 20 and not publisher.ignored
