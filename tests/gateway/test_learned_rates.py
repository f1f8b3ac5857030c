"""Engines are chosen without rates until one was heard often enough by any worker, and by seconds then."""

from pathlib import Path

from gateway.fleets.fleet import Fleet, Fleets
from gateway.fleets.loads import LoadTable
from gateway.usage import Usage
from routing.rates import ENOUGH, MAX_AGE_S
from routing.types import Choice
from tests.gateway.test_charges import prompt_of, worker

ANSWER_S = 1.0


def serve(fleets: Fleets, fleet: Fleet, now_s: float, tokens: int = 51) -> Choice:
    """One request, chosen for and answered by so many tokens."""
    prompt = prompt_of((1, 2), step=20_000)
    chosen = fleets.choose(fleet, prompt, now_s, ())
    assert chosen is not None
    engine, choice = chosen
    fleets.prefilled(engine, choice.uncached_bytes)
    fleets.released(engine, prompt, 0)
    sent_ns, token_ns, last_ns = (int(at_s * 1e9) for at_s in (now_s, now_s + 0.5, now_s + ANSWER_S))
    engine.streamed(choice, sent_ns, token_ns, last_ns, Usage(10_000, 0, tokens))
    return choice


def test_lmetric_decides_until_enough_answers_came_and_seconds_do_then_in_every_worker(
    tmp_path: Path,
) -> None:
    table = LoadTable.create(tmp_path / "loads", 2, 1)
    (fleets, fleet), (others, other) = (worker(table, number, 1) for number in range(2))
    for n in range(ENOUGH):
        fleets.learn(float(n))
        others.learn(float(n))
        choice = serve(fleets, fleet, float(n))
        assert choice.why == serve_why(others, other, float(n)) == "least work times batch"
        assert choice.cost_s > 100, "bytes times requests, not seconds"
    now_s = float(ENOUGH)
    fleets.learn(now_s)
    others.learn(now_s)
    choice = serve(fleets, fleet, now_s)
    assert choice.why == serve_why(others, other, now_s) == "costs least"
    assert 0.1 < choice.cost_s < 10.0
    later_s = now_s + 2 * MAX_AGE_S
    for one in (fleets, others):
        one.learn(later_s)
    assert serve(fleets, fleet, later_s).why == serve_why(others, other, later_s) == "least work times batch"
    del fleets, fleet, others, other
    table.close()


def serve_why(fleets: Fleets, fleet: Fleet, now_s: float) -> str:
    """By what another worker chooses, who hears no answers itself."""
    prompt = prompt_of((7,))
    chosen = fleets.choose(fleet, prompt, now_s, ())
    assert chosen is not None
    engine, choice = chosen
    fleets.released(engine, prompt, choice.uncached_bytes)
    return choice.why


def test_answers_under_way_take_the_room_that_answers_took_before(tmp_path: Path) -> None:
    table = LoadTable.create(tmp_path / "loads", 1, 1)
    fleets, fleet = worker(table, 0, 1, 60_000)
    for n in range(ENOUGH):
        serve(fleets, fleet, float(n), tokens=1000)  # of about four bytes
    fleets.learn(float(ENOUGH))
    held = fleets.choose(fleet, prompt_of((1, 2), step=20_000), 10.0, ())
    assert held is not None and held[1].cached_bytes == 40_000, "what was asked before is still there"
    fleets.released(held[0], prompt_of((1, 2), step=20_000), held[1].uncached_bytes)
    for n in range(8):
        assert fleets.choose(fleet, prompt_of((n + 10,)), 11.0, ()) is not None
    held = fleets.choose(fleet, prompt_of((1, 2), step=20_000), 12.0, ())
    assert held is not None and held[1].cached_bytes == 20_000, "eight short questions and their answers"
    del fleets, fleet, held
    table.close()
