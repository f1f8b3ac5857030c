"""When does the soak call a failure explained, and what does it call held?"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from random import Random

import pytest

from bench.soaking import asks, rest
from bench.soaking.clients import Ended
from bench.soaking.faults import Engines, listening, sorted_out
from bench.stage import free_ports

HELD = asks.Ask("short", b"x", frozenset({asks.WHOLE}))
NOT_HELD = asks.Ask("big body", b"x" * asks.READ_LIMIT, frozenset({asks.WHOLE}))

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="it reads /proc")


@pytest.fixture
def engines() -> Iterator[Engines]:
    """One engine that was killed between 10 and 12 and was process 7."""
    ports = free_ports(1)
    running = Engines(ports)
    asyncio.run(running.kill(ports[0], 0.0, production=True))
    (kill,) = running._kills
    kill.at_s, kill.back_s, kill.pid = 10.0, 12.0, 7
    yield running
    running.stop()


@pytest.mark.parametrize(
    ("ended", "explained"),
    [
        (Ended(HELD, asks.CUT, 9.0, 10.1, "7", ""), True),
        (Ended(HELD, "status 502", 9.0, 10.1, "", ""), True),
        (Ended(HELD, asks.CUT, 9.0, 10.1, "8", ""), False),  # another engine answered
        (Ended(HELD, asks.CUT, 9.0, 9.9, "7", ""), False),  # over before the kill
        (Ended(HELD, "status 502", 11.0, 11.1, "", ""), False),  # begun while it was down: others were up
        (Ended(NOT_HELD, "status 502", 11.0, 11.1, "", ""), True),
        (Ended(NOT_HELD, "status 502", 12.1, 12.2, "", ""), False),
        (Ended(HELD, "stuck", 9.0, 49.0, "7", ""), False),  # no kill explains silence
        (Ended(HELD, "wrong", 9.0, 10.1, "7", ""), False),
    ],
)
def test_only_a_kill_while_it_ran_explains_what_a_kill_looks_like(
    engines: Engines, ended: Ended, explained: bool
) -> None:
    assert engines.explains(ended) is explained
    _, _, unexplained = sorted_out([ended], engines)
    assert unexplained == ([] if explained else [ended])


def test_what_ended_as_it_was_asked_to_needs_no_explanation(engines: Engines) -> None:
    asked = asks.Ask("engine: reset", b"x", frozenset({asks.CUT}))
    assert sorted_out([Ended(asked, asks.CUT, 0.0, 1.0, "", "")], engines)[2] == []


def test_one_descriptor_or_task_more_is_held_and_a_few_objects_are_not() -> None:
    base = rest.Rest({"worker: descriptors": 5, "worker: tasks": 3, "worker: objects a.B": 0})
    now = rest.Rest({"worker: descriptors": 6, "worker: tasks": 4, "worker: objects a.B": 9, "gauge": 1})
    assert set(now.beyond(base)) == {"worker: descriptors", "worker: tasks", "gauge"}
    assert rest.Rest({"worker: objects a.B": 11}).beyond(base) == {"worker: objects a.B": (0, 11)}


def test_memory_that_grows_by_a_megabyte_a_minute_has_that_slope() -> None:
    assert rest.slope([(second, 100 + second / 60) for second in range(120)]) == pytest.approx(1.0)


def test_every_kind_of_request_is_drawn_and_says_how_it_may_end() -> None:
    rng = Random(1)
    drawn = [asks.draw(rng, heavy=False) for _ in range(500)]
    assert {one.kind for one in drawn} >= {"short", "stream", "big body", "client leaves", "embeddings"}
    assert all(one.good for one in drawn)


def test_an_engine_that_never_listens_ends_the_soak_in_words() -> None:
    (port,) = free_ports(1)
    waits = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    try:
        with pytest.raises(RuntimeError, match=f"no engine listens on port {port} after 0.05 s"):
            asyncio.run(listening(port, waits, 0.05))
    finally:
        waits.communicate()
    with pytest.raises(RuntimeError, match=f"the engine for port {port} ended with status 1"):
        asyncio.run(listening(port, waits))
