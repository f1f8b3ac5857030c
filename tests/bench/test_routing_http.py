"""The routing bench's client over HTTP says what the trace says, and reads answers to their end."""

import asyncio
import json
from dataclasses import fields, replace
from pathlib import Path

import pytest

from bench.routing import said
from bench.routing.asks import Talk
from bench.routing.http import Clients
from bench.routing.measures import Measures
from bench.routing.report import read
from bench.routing.rounds import Rounds
from bench.routing.setting import Setting
from bench.routing.traces import drawn
from bench.routing.world import Plan, Run
from emulator.server import start
from emulator.text import Tokenizer


def test_a_body_is_the_talk_so_far_with_the_answers_that_were_given() -> None:
    talk = Talk(16, 4.0)
    talk.say((1, 30))
    talk.say((2, 10))
    first = talk.asked((3, 5), 0, 0)
    talk.say((4, 7))
    second = talk.asked((5, 6), 0, 1, first)
    body = json.loads(said.body(second, {3: "So it was."}))
    assert [(one["role"], one["content"]) for one in body["messages"]] == [
        ("system", said.text(1, 30)),
        ("user", said.text(2, 10)),
        ("assistant", "So it was."),
        ("user", said.text(4, 7)),
    ]
    assert body["max_tokens"] == 6
    assert json.loads(said.body(second, {}))["messages"][2]["content"] == said.text(3, 5)


def test_a_piece_is_as_many_tokens_for_an_emulated_engine() -> None:
    assert len(Tokenizer().encode(said.text(7, 250))) == 250
    assert said.text(7, 250).startswith(said.text(7, 50))


def test_clients_hear_every_answer_of_a_fleet_of_one() -> None:
    setting = Setting(engines=1, warm=0.0, base_ms=1.0, prefill_tokens_per_s=1e6)
    trace = drawn("multi-turn", 5, setting.block_size)
    trace.talk_s = 0.0  # nobody is in the middle of anything
    first, again = asyncio.run(_replayed(Plan(trace, 20.0, 12, setting, 5), times=2))
    for ran in (first, again):
        assert ran.outcomes
        assert all(one.arrived_s < one.first_s < one.ended_s for one in ran.outcomes)
    assert all(one.cached_tokens > 0 for one in again.outcomes), "each begins as one that was computed"


async def _replayed(plan: Plan, times: int) -> list[Run]:
    """The same traffic so many times to one engine."""
    engine = await start(replace(plan.setting.params(0), model="m"))
    try:
        async with asyncio.timeout(100):
            return [await Clients(f"{engine.url}/v1/chat/completions", plan).run() for _ in range(times)]
    finally:
        await engine.close()


class Bench:
    """Runs that come to what was asked for."""

    def __init__(self) -> None:
        self.ran: list[tuple[str, int]] = []

    def one(self, router: str, seed: int) -> Measures:
        if len(self.ran) == 3:
            raise KeyboardInterrupt
        self.ran.append((router, seed))
        return figures(seed + len(router) / 10)


def figures(value: float) -> Measures:
    return Measures(**dict.fromkeys((field.name for field in fields(Measures)), value))


def test_a_run_that_was_cut_goes_on_where_it_was(tmp_path: Path) -> None:
    rounds = Rounds("http", ("ours", "others"), 1.0, range(2), tmp_path / "runs.jsonl")
    cut, after = Bench(), Bench()
    with pytest.raises(KeyboardInterrupt):
        list(rounds.run("all-unique", cut.one))
    whole = list(rounds.run("all-unique", after.one))
    assert len(cut.ran) == 3 and len(after.ran) == 1
    assert {*cut.ran, *after.ran} == {(router, seed) for router in ("ours", "others") for seed in (0, 1)}
    assert whole == [
        [(1.0, router, figures(seed + len(router) / 10)) for router in ("ours", "others")] for seed in (0, 1)
    ]
    assert read([tmp_path / "runs.jsonl"])["all-unique", "http"] == {
        seed: {(load, router): ran for load, router, ran in rows} for seed, rows in enumerate(whole)
    }


def test_what_was_measured_on_other_traffic_is_run_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.jsonl"
    list(Rounds("http", ("ours",), 1.0, range(1), path).run("all-unique", Bench().one))
    for trace, setting, load in (
        ("agents", "http", 1.0),
        ("all-unique", "dynamo", 1.0),
        ("all-unique", "http", 0.5),
    ):
        again = Bench()
        list(Rounds(setting, ("ours",), load, range(1), path).run(trace, again.one))
        assert again.ran == [("ours", 0)]


def test_after_its_time_no_run_is_begun_and_no_round_told_that_is_not_whole(tmp_path: Path) -> None:
    path, bench = tmp_path / "runs.jsonl", Bench()
    list(Rounds("http", ("ours",), 1.0, range(1), path).run("agents", bench.one))
    late = Rounds("http", ("ours", "others"), 1.0, range(1), path, until_s=0.0)
    assert list(late.run("agents", bench.one)) == [] and bench.ran == [("ours", 0)]
