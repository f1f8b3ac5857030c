"""What a worker counts: nothing is told before it was seen, and each number stands under one key."""

from gateway.outcome import Outcome
from gateway.tallies import Answered, Tallies
from gateway.usage import Usage


def test_tokens_are_added_to_the_fleets_own_and_missing_ones_make_none() -> None:
    tallies = Tallies()
    answered = Answered(tallies, "llama")
    assert tallies.all() == {}
    answered.told(Usage(5, None, 7))
    answered.told(Usage(1, None, None))
    assert tallies.all() == {("prompt_tokens", "llama"): 6, ("completion_tokens", "llama"): 7}
    answered.told(Usage(None, 0, None))
    assert tallies.all()["cached_tokens", "llama"] == 0  # which was told


def test_good_answers_are_counted_beside_the_others_by_engine() -> None:
    tallies = Tallies()
    answered = Answered(tallies, "llama")
    for engine in ("a", "b", "a"):
        answered.completed(engine)
    tallies.counts["requests", "llama", "a", Outcome.CUT] += 1
    assert tallies.all() == {
        ("requests", "llama", "a", "complete"): 2,
        ("requests", "llama", "b", "complete"): 1,
        ("requests", "llama", "a", "cut"): 1,
    }


def test_a_fleet_that_comes_again_goes_on_from_where_it_was() -> None:
    tallies = Tallies()
    for _ in range(2):  # its objects are others after a reload that took it out and one that brought it back
        again = Answered(tallies, "llama")
        again.completed("a")
        again.told(Usage(3, 2, 1))
    assert tallies.all() == {
        ("requests", "llama", "a", "complete"): 2,
        ("prompt_tokens", "llama"): 6,
        ("cached_tokens", "llama"): 4,
        ("completion_tokens", "llama"): 2,
    }
