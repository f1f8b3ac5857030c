"""An engine's fate: started again with growing pauses, given up at last, never waited for without end."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.launch.life import FIRST_DELAY_S, FORGIVEN_S, MOST_DELAY_S, SILENCE_S, Life, State

SECOND = 1_000_000_000


def ready(life: Life, at_ns: int = 0) -> None:
    life.started(at_ns)
    life.served()
    life.warmed(at_ns)


def test_it_goes_from_its_start_to_being_ready() -> None:
    life = Life(ready_s=60, restarts=3)
    seen: list[tuple[State, str | None]] = [(life.state, life.why)]
    life.waits("no GPU is free")
    seen.append((life.state, life.why))
    life.started(0)
    seen.append((life.state, life.why))
    life.served()
    seen.append((life.state, life.why))
    life.warmed(5)
    seen.append((life.state, life.why))
    assert seen == [
        (State.WAITING, None),
        (State.WAITING, "no GPU is free"),
        (State.STARTING, None),
        (State.WARMING, None),
        (State.READY, None),
    ]


@given(restarts=st.integers(0, 20))
def test_it_is_started_again_just_so_often_with_pauses_that_double(restarts: int) -> None:
    life = Life(ready_s=60, restarts=restarts)
    pauses_s = []
    while True:
        life.started(0)
        pause_s = life.died("it exited with status 1", SECOND)
        if pause_s is None:
            break
        assert life.state is State.RESTARTING
        pauses_s.append(pause_s)
    assert len(pauses_s) == restarts
    assert pauses_s == [min(MOST_DELAY_S, FIRST_DELAY_S * 2**n) for n in range(restarts)]
    assert (life.state, life.why) == (State.FAILED, "it exited with status 1")
    assert (life.starts, life.deaths) == (restarts + 1, restarts + 1)


def test_one_that_served_long_is_forgiven_its_earlier_deaths() -> None:
    life = Life(ready_s=60, restarts=1)
    for _ in range(5):
        ready(life)
        assert life.died("it was killed by SIGKILL", round(FORGIVEN_S * SECOND)) == FIRST_DELAY_S
    ready(life)
    assert life.died("it was killed by SIGKILL", round(FORGIVEN_S * SECOND) - 1) is None
    assert life.deaths == 6


@pytest.mark.parametrize("served", [False, True])
def test_one_that_never_comes_to_serve_is_overdue_once_its_time_is_up(served: bool) -> None:
    life = Life(ready_s=60, restarts=1)
    life.started(5 * SECOND)
    if served:
        life.served()
    assert life.overdue(65 * SECOND - 1) is None
    assert life.overdue(65 * SECOND) == f"not {'warm' if served else 'healthy'} within 60 s"


def test_one_that_serves_is_overdue_only_after_a_minute_of_silence() -> None:
    life = Life(ready_s=1, restarts=1)
    ready(life)
    silence_ns = round(SILENCE_S * SECOND)
    life.probed(silence_ns - 1, well=False)
    assert life.overdue(silence_ns - 1) is None
    assert life.overdue(silence_ns) == "not healthy for 60 s"
    life.probed(silence_ns, well=True)
    assert life.overdue(2 * silence_ns - 1) is None


def test_waiting_is_no_reason_to_give_up() -> None:
    life = Life(ready_s=1, restarts=0)
    life.waits("no GPU is free")
    assert life.overdue(10**18) is None
