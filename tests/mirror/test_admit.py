"""Admission at the shadow process: whole conversations or none, whatever the phase and the load."""

from hypothesis import given
from hypothesis import strategies as st

from mirror.admit import Admission, Phase

phases = st.sampled_from([Phase("calibration"), Phase("live", 1), Phase("paused", 1)])
copies = st.lists(st.tuples(st.integers(0, 5), phases, st.integers(0, 3), st.booleans()), max_size=60)


@given(copies)
def test_no_turn_is_taken_unless_all_turns_before_it_were(steps: list[tuple[int, Phase, int, bool]]) -> None:
    admission = Admission(max_inflight=2)
    turns: dict[int, list[bool]] = {}
    for root, phase, inflight, room in steps:
        past = turns.setdefault(root, [])
        reason = admission.refusal(root, len(past), phase=phase, inflight=inflight)
        if reason is None and not room:
            admission.lost(root, reason := "overload")
        if reason is None:
            assert all(past)
            assert phase.name != "paused" and inflight < 2
            assert phase.name == "live" or root % 2 == 0 or past
        past.append(reason is None)


def test_a_conversation_keeps_the_reason_it_was_closed_for_until_it_begins_anew() -> None:
    admission = Admission(max_inflight=1)
    live = Phase("live")
    assert admission.refusal(8, 0, phase=live, inflight=1) == "overload"
    assert admission.refusal(8, 1, phase=live, inflight=0) == "overload"
    assert admission.refusal(8, 0, phase=live, inflight=0) is None
    assert admission.refusal(8, 1, phase=live, inflight=0) is None


def test_a_conversation_first_seen_late_joined_late() -> None:
    admission = Admission(max_inflight=1)
    assert admission.refusal(8, 2, phase=Phase("live"), inflight=0) == "joined_late"


def test_calibration_takes_even_roots_only() -> None:
    admission = Admission(max_inflight=1)
    reasons = [admission.refusal(root, 0, phase=Phase(), inflight=0) for root in range(4)]
    assert reasons == [None, "calibration", None, "calibration"]


def test_memory_is_bounded() -> None:
    admission = Admission(max_inflight=1, remember=3)
    for root in range(0, 20, 2):
        assert admission.refusal(root, 0, phase=Phase(), inflight=0) is None
    late = [admission.refusal(root, 1, phase=Phase(), inflight=0) for root in (14, 16, 18)]
    assert late == [None, None, None]
    assert admission.refusal(0, 1, phase=Phase(), inflight=0) == "joined_late"


@given(st.lists(st.integers(0, 4), max_size=30))
def test_a_turn_whose_predecessor_never_came_is_not_taken_nor_what_follows_it(turns: list[int]) -> None:
    """A worker that dropped a turn tells nobody which conversation it was of: the next turn tells it."""
    admission = Admission(max_inflight=9)
    taken: set[int] = set()
    for turn in turns:
        reason = admission.refusal(8, turn, phase=Phase("live"), inflight=0)
        if reason is None:
            taken.add(turn)
            assert taken == set(range(max(taken) + 1))
        else:
            assert reason in ("joined_late", "turn_missing")
            taken = set()


def test_under_load_no_conversation_begins_while_those_that_run_go_on() -> None:
    admission, live = Admission(max_inflight=8), Phase("live")
    assert admission.refusal(1, 0, phase=live, inflight=5) is None
    assert admission.refusal(2, 0, phase=live, inflight=6) == "overload"
    assert admission.refusal(1, 1, phase=live, inflight=7) is None
    assert admission.refusal(1, 2, phase=live, inflight=8) == "overload"
    assert admission.refusal(1, 3, phase=live, inflight=0) == "overload"


def test_how_often_a_conversation_is_sent_is_fixed_at_its_beginning() -> None:
    admission, live = Admission(max_inflight=8), Phase("live")
    for turn, copies in enumerate((2, 1, 3)):
        assert admission.refusal(1, turn, phase=live, inflight=0, copies=copies) is None
        assert admission.copies(1) == 2
    admission.lost(1, "unsendable")
    assert admission.refusal(1, 0, phase=live, inflight=0, copies=3) is None
    assert admission.copies(1) == 3


def test_of_two_conversations_that_begin_alike_neither_cuts_the_other() -> None:
    admission, live = Admission(max_inflight=8), Phase("live")
    for turn in (0, 1, 2, 0, 3, 1):
        assert admission.refusal(1, turn, phase=live, inflight=0) is None


def test_a_conversation_of_which_a_turn_could_not_be_sent_is_closed() -> None:
    admission, live = Admission(max_inflight=8), Phase("live")
    assert admission.refusal(1, 0, phase=live, inflight=0) is None
    admission.lost(1, "unsendable")
    assert admission.refusal(1, 1, phase=live, inflight=0) == "unsendable"
