"""How long a replay takes yet: by its slots at first, then by the blocks that have passed."""

from mirror.pace import Pace

S = 1_000_000_000


def test_before_a_block_has_passed_it_is_taken_to_be_two_slots() -> None:
    pace = Pace(300.0)
    assert pace.left_s(0, 4) == 2400.0
    pace.begins(10 * S)
    assert pace.left_s(110 * S, 4) == 2300.0


def test_then_blocks_take_what_they_took_the_coming_of_arms_included() -> None:
    pace = Pace(300.0)
    for begins, ends in ((0, 700), (700, 1600)):
        pace.begins(begins * S)
        pace.ends(ends * S)
    assert pace.left_s(1600 * S, 3) == 2400.0
    pace.begins(1600 * S)
    assert pace.left_s(1700 * S, 3) == 2300.0


def test_a_block_that_takes_longer_than_usual_leaves_those_after_it_whole_and_none_left_is_no_time() -> None:
    pace = Pace(300.0)
    pace.begins(0)
    assert pace.left_s(10_000 * S, 3) == 1200.0
    assert pace.left_s(10_000 * S, 0) == 0.0


def test_one_whose_arm_did_not_come_begins_again() -> None:
    pace = Pace(1.0)
    pace.begins(0)
    pace.begins(100 * S)
    pace.ends(104 * S)
    assert pace.left_s(104 * S, 2) == 8.0
