"""The order of slots where arms take turns, and what becomes of copies in them."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from analysis.measure import measure
from mirror.slots import block_of
from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import Engine, engine, tokens
from tests.mirror.staging import Stage, copy_frame, experiment, play, served_frame, shadow, until


@given(st.lists(st.text(min_size=1, max_size=4), min_size=1, max_size=4, unique=True), st.integers(1, 12))
def test_slots_alternate_the_control_and_each_candidate_in_turn(candidates: list[str], n: int) -> None:
    order = [slot.arm for k in range(n) for slot in block_of(k, candidates, calibrating=False)]
    assert order[::2] == ["control"] * n
    assert order[1::2] == [candidates[k % len(candidates)] for k in range(n)]


def test_while_calibrating_the_control_has_both_slots() -> None:
    first, second = block_of(3, ["a", "b"], calibrating=True)
    assert (first.arm, first.twin, second.arm, second.twin) == ("control", 0, "control", 1)


def words(of: Engine) -> list[bytes]:
    return [request.body for request in of.requests if request.line.startswith(b"POST")]


async def feed(stage: Stage, enough: Callable[[], bool], turns: int = 1) -> None:
    """Conversations of so many turns that begin one after another, until there is enough."""
    _, lane = await stage.worker()
    async with asyncio.timeout(60):
        number = 0
        while not enough():
            number += 1
            for turn in range(turns):
                id = f"{number}.{turn}"
                lane.write(copy_frame(id, number, turn) + served_frame(id))
                await asyncio.sleep(0.02)
    lane.close()


def live(stage: Stage) -> list[dict[str, Any]]:
    return [pair for pair in stage.analysis.of("pair") if pair["phase"] == "live"]


def test_both_answers_to_a_request_make_the_same_pair_as_side_by_side(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = experiment(*arms, slots=SlotSpec(0.3), max_inflight=10_000)
            async with shadow(tmp_path, told) as stage:
                seen: Callable[[], set[int]] = lambda: {pair["block"] for pair in live(stage)}  # noqa: E731
                await feed(stage, lambda: len(seen()) >= 4)
            pairs = live(stage)
            others = {p["block"]: {a["arm"] for a in p["answers"]} - {"control"} for p in pairs}
            assert [others[block] for block in sorted(others)][:4] == [{"c1"}, {"c2"}, {"c1"}, {"c2"}]
            for pair in pairs:
                record = measure(pair)
                first, second = pair["answers"]
                assert (first["arm"], first["order"], second["order"]) == ("control", 0, 1)
                assert record.answers[0].fault is None and record.answers[1].fault is None
                assert record.production is not None and record.outputs[second["arm"]]["exact_match"] == 1.0
                late_ns = second["sent_ns"] - first["sent_ns"] - record.shifts[second["arm"]]
                assert -50_000_000 < late_ns < 2_000_000_000  # as far apart as their slots
            sent_again = words(one) + words(two)
            assert sorted(sent_again) == sorted(set(sent_again)) and set(sent_again) <= set(words(control))

    play(run)


def test_conversations_are_whole_within_a_block_and_every_copy_is_in_the_books(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url)
            async with shadow(
                tmp_path, experiment(*arms, slots=SlotSpec(0.3), max_inflight=10_000), drain_s=0.2
            ) as stage:
                seen: Callable[[], set[int]] = lambda: {pair["block"] for pair in live(stage)}  # noqa: E731
                await feed(stage, lambda: len(seen()) >= 3, turns=3)
            turns: dict[tuple[int, int], set[int]] = {}
            for pair in stage.analysis.of("pair"):
                turns.setdefault((pair["block"], pair["root"]), set()).add(pair["turn"])
            assert turns and all(some == set(range(len(some))) for some in turns.values())
            books = stage.books
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())
            assert books["dropped"]["between_slots"] > 0

    play(run)


def test_a_calibration_repeats_the_controls_own_traffic_at_the_control(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one:
            arms = ArmSpec("control", control.url, kind="vllm"), ArmSpec("c1", one.url)
            told = experiment(*arms, slots=SlotSpec(0.3), max_inflight=10_000)
            async with shadow(tmp_path, told, phase=None) as stage:
                await feed(stage, lambda: len(stage.analysis.of("pair")) >= 2)
            for pair in stage.analysis.of("pair"):
                assert pair["phase"] == "calibration"
                assert [(a["arm"], a["twin"]) for a in pair["answers"]] == [("control", 0), ("control", 1)]
            assert not one.requests
            # each slot begins cold: what the one left in the cache the other does not find
            assert len(set(words(control))) == len(words(control))

    play(run)


def test_an_arm_that_does_not_come_costs_its_block_and_says_why(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control:
            arms = ArmSpec("control", control.url), ArmSpec("c1", "http://127.0.0.1:9")
            told = experiment(*arms, slots=SlotSpec(0.2, ready_s=0.5), max_inflight=10_000)
            async with shadow(tmp_path, told) as stage:
                await feed(stage, lambda: bool(_dropped(stage).get("arm_not_ready")))
                await until(lambda: bool(stage.analysis.of("status")))
                await until(lambda: bool(_slots(stage)["troubles"]))
                assert _slots(stage)["troubles"] == {"c1": "does not serve after 0.5 s"}
            assert not live(stage)

    play(run)


def _slots(stage: Stage) -> dict[str, Any]:
    found: dict[str, Any] = stage.analysis.of("status")[-1]["experiments"][0]["slots"]
    return found


def _dropped(stage: Stage) -> dict[str, int]:
    told = stage.analysis.of("books")
    dropped: dict[str, int] = told[-1]["dropped"] if told else {}
    return dropped


def test_a_command_changes_what_stands_at_one_address(tmp_path: Path) -> None:
    async def run() -> None:
        log = tmp_path / "log"
        async with engine(tokens) as shared:
            arms = ArmSpec("control", shared.url), ArmSpec("c1", shared.url)
            switch = ("/bin/sh", "-c", f"echo {{arm}} >> {log}; exit 0")
            told = experiment(*arms, slots=SlotSpec(0.2, switch), max_inflight=10_000)
            async with shadow(tmp_path, told) as stage:
                await feed(stage, lambda: len({pair["block"] for pair in live(stage)}) >= 3)
            assert log.read_text().split()[:4] == ["control", "c1"] * 2

    play(run)
