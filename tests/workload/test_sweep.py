"""A sweep's loads are what they say, and the largest that holds has all below it holding, too."""

import asyncio
import json
import time
from dataclasses import replace
from itertools import count
from pathlib import Path
from random import Random

import pytest

from emulator.params import EngineParams
from emulator.server import start
from workload.asks import Ask
from workload.command import main
from workload.reply import Reply
from workload.results import Slo, results
from workload.sweep import Lengths, Load, Point, curve, largest, point, said, table

FAST = EngineParams(model="m", base_ms=0.1, ms_per_prefill_token=0.0001, ms_per_seq=0.001)


class Server:
    """Serves four at a time, 20 ms each; keeps how many were there at once."""

    def __init__(self) -> None:
        self.room = asyncio.Semaphore(4)
        self.there = self.most = 0
        self.asked: list[Ask] = []

    async def send(self, ask: Ask, scheduled_s: float, _earlier: Reply | None) -> Reply:
        self.asked.append(ask)
        self.there += 1
        self.most = max(self.most, self.there)
        sent_s = time.monotonic()
        async with self.room:
            await asyncio.sleep(0.02)
        self.there -= 1
        now_s = time.monotonic()
        return Reply(scheduled_s, sent_s, now_s, 200, None, "x", (now_s,), now_s, 1, ask.prompt_tokens, 0)


def ran(kind: Load, load: float) -> tuple[Point, Server]:
    async def scene() -> tuple[Point, Server]:
        server = Server()
        made = await point(
            kind,
            load,
            Lengths(64, 8, shared=16),
            server.send,
            seconds=0.5,
            slo=Slo(ttft_ms=10_000),
            share=0.99,
            rng=Random(1),
            clock=time.monotonic,
            names=count(1),
        )
        return made, server

    return asyncio.run(scene())


@pytest.mark.parametrize("users", [1, 3])
def test_so_many_users_are_there_at_once_and_never_more(users: int) -> None:
    found, server = ran("concurrency", users)
    assert server.most == users and found.held and found.found.ok == len(server.asked) >= users


def test_a_depth_is_there_at_one_instant() -> None:
    found, server = ran("depth", 24)
    assert server.most == 24 and found.found.ok == 24


def test_a_rate_comes_whether_or_not_answers_do() -> None:
    found, server = ran("rate", 100)
    assert 25 <= len(server.asked) <= 80 and found.found.requests == len(server.asked)


def test_requests_of_a_sweep_share_their_beginning_and_nothing_else() -> None:
    _, server = ran("depth", 5)
    assert len({ask.id for ask in server.asked}) == 5
    assert all(ask.blocks == (1,) and ask.block_tokens == 16 for ask in server.asked)


def test_the_largest_load_is_the_last_before_the_first_that_broke() -> None:
    empty = results([], Slo())
    points = [Point(load, empty, held) for load, held in ((8, False), (1, True), (16, True), (4, True))]
    best = largest(points)
    assert best is not None and best.load == 4
    assert largest([Point(1, empty, False), Point(2, empty, True)]) is None
    assert "16" in table("rate", points)


def test_it_is_said_where_more_than_all_loads_might_hold_and_where_none_does() -> None:
    empty = results([], Slo())
    assert said("rate", [Point(1, empty, True), Point(2, empty, True)], 0.99).endswith(
        "all of these do, more may"
    )
    assert "2 (" in said("rate", [Point(2, empty, True), Point(4, empty, False)], 0.99)
    assert (
        said("rate", [Point(1, replace(empty, ok=1), False)], 0.9)
        == "largest rate of which 90% keep the SLO: none of these"
    )


def test_a_curve_as_json_has_every_point_its_bounds_and_the_largest_load_that_held() -> None:
    found, _ = ran("depth", 6)
    points = [found, Point(7, results([], Slo()), False)]
    made = json.loads(json.dumps(curve("depth", Lengths(64, 8), points, slo=Slo(ttft_ms=500), share=0.99)))
    assert (made["kind"], made["largest"], made["slo"]["ttft_ms"]) == ("depth", 6, 500)
    assert [(one["load"], one["held"], one["requests"]) for one in made["points"]] == [
        (6, True, 6),
        (7, False, 0),
    ]
    assert made["points"][0]["ttft"]["percentiles"]["50"] > 0 and made["points"][0]["good_share"] == 1
    assert curve("depth", Lengths(64, 8), points[1:], slo=Slo(), share=0.99)["largest"] is None


def test_the_command_writes_the_curves_of_a_server_and_the_largest_load(tmp_path: Path) -> None:
    async def scene() -> None:
        engine = await start(FAST, "127.0.0.1", 0)
        out = tmp_path / "curves.json"
        argv = [
            "workload",
            "sweep",
            "--to",
            engine.url,
            "--model",
            "m",
            "--depths",
            "2,4",
            "--json",
            str(out),
        ]
        argv += ["--prompt-tokens", "32,64", "--output-tokens", "4", "--slo-e2e-ms", "60000"]
        try:
            assert await asyncio.to_thread(main, argv) == 0
            curves = json.loads(out.read_text())["curves"]
        finally:
            await engine.close()
        assert [(one["kind"], one["prompt_tokens"], one["largest"]) for one in curves] == [
            ("depth", 32, 4),
            ("depth", 64, 4),
        ]
        assert [point["ok"] for one in curves for point in one["points"]] == [2, 4, 2, 4]
        assert abs(curves[1]["points"][1]["prompt_tokens"] - 4 * 64) <= 4 * 2

    asyncio.run(scene())


def test_a_folder_that_is_not_there_is_told_before_anything_is_sent(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["workload", "sweep", "--to", "http://127.0.0.1:0", "--depths", "1"]
    assert main([*argv, "--json", str(tmp_path / "no" / "curves.json")]) == 2
    assert "there is no folder" in capsys.readouterr().err
