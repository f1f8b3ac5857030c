"""A candidate that left the race gets no more copies, and the others get what they got."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import Engine, engine, tokens
from tests.mirror.staging import Stage, copy_frame, experiment, phase_frame, play, served_frame, shadow, until
from tests.mirror.test_slots import feed, live


def asked(of: Engine) -> list[Any]:
    """What an engine was asked, in an order of its own."""
    bodies = [json.loads(request.body) for request in of.requests if request.line.startswith(b"POST")]
    return sorted(bodies, key=lambda body: json.dumps(body))


def is_out(stage: Stage, name: str) -> Callable[[], bool]:
    return lambda: name in stage.serving.comparisons["fp8-kv"].phase.out


def closes(books: dict[str, Any]) -> bool:
    return bool(books["admitted"] == books["paired"] + sum(books["dropped"].values()) and not books["open"])


def test_side_by_side_it_ends_what_it_was_sent_and_the_others_get_the_rest_alike(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as quick, engine(tokens) as slow:
            arms = ArmSpec("control", control.url), ArmSpec("quick", quick.url), ArmSpec("slow", slow.url)
            async with shadow(tmp_path, experiment(*arms), "live") as stage:
                _, lane = await stage.worker()
                for root in (1, 2):
                    lane.write(copy_frame(f"{root}.0", root) + served_frame(f"{root}.0"))
                await until(lambda: len(slow.requests) == 2)
                stage.analysis.tell(phase_frame("fp8-kv", "live", out=["slow"]))
                await until(is_out(stage, "slow"))
                for id, root, turn in (("1.1", 1, 1), ("2.1", 2, 1), ("3.0", 3, 0)):
                    lane.write(copy_frame(id, root, turn) + served_frame(id))
                await until(lambda: len(stage.analysis.of("pair")) == 5)
                await until(lambda: _arm(stage, "slow")["spared"] == 3)
                lane.close()
            assert (len(control.requests), len(slow.requests)) == (5, 2)
            assert asked(control) == asked(quick)  # conversations that had begun go on with them
            pairs = {
                pair["id"]: {answer["arm"] for answer in pair["answers"]}
                for pair in stage.analysis.of("pair")
            }
            assert pairs["1.0"] == pairs["2.0"] == {"control", "quick", "slow"}
            assert pairs["1.1"] == pairs["2.1"] == pairs["3.0"] == {"control", "quick"}
            assert closes(stage.books) and stage.books["dropped"] == {}

    play(run)


def _arm(stage: Stage, name: str) -> dict[str, Any]:
    told = stage.analysis.of("status")
    arms = told[-1]["experiments"][0]["arms"] if told else []
    found: dict[str, Any] = next((arm for arm in arms if arm["arm"] == name), {"spared": 0})
    return found


def test_where_arms_take_turns_the_slots_go_to_the_others(tmp_path: Path) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as one, engine(tokens) as two:
            arms = ArmSpec("control", control.url), ArmSpec("c1", one.url), ArmSpec("c2", two.url)
            told = experiment(*arms, slots=SlotSpec(0.2), max_inflight=10_000)
            async with shadow(tmp_path, told) as stage:
                stage.analysis.tell(phase_frame("fp8-kv", "live", out=["c1"]))
                await until(is_out(stage, "c1"))
                seen: Callable[[], set[int]] = lambda: {pair["block"] for pair in live(stage)}  # noqa: E731
                await feed(stage, lambda: len(seen()) >= 3)
            late = [pair for pair in live(stage) if pair["block"] > 0]  # the first may have begun before
            assert late and {a["arm"] for pair in late for a in pair["answers"]} == {"control", "c2"}
            assert closes(stage.books)

    play(run)


def test_a_candidate_that_comes_back_gets_no_conversation_of_which_the_others_had_the_beginning(
    tmp_path: Path,
) -> None:
    async def run() -> None:
        async with engine(tokens) as control, engine(tokens) as back:
            arms = ArmSpec("control", control.url), ArmSpec("back", back.url)
            async with shadow(tmp_path, experiment(*arms), "live") as stage:
                _, lane = await stage.worker()
                stage.analysis.tell(phase_frame("fp8-kv", "live", out=["back"]))
                await until(is_out(stage, "back"))
                lane.write(copy_frame("1.0", 1) + served_frame("1.0"))
                await until(lambda: len(stage.analysis.of("pair")) == 1)
                stage.analysis.tell(phase_frame("fp8-kv", "live", epoch=2))
                await until(lambda: not is_out(stage, "back")())
                lane.write(copy_frame("1.1", 1, 1) + copy_frame("3.0", 3) + served_frame("3.0"))
                await until(lambda: len(stage.analysis.of("pair")) == 2)
                lane.write(copy_frame("3.1", 3, 1) + served_frame("3.1"))
                await until(lambda: len(stage.analysis.of("pair")) == 3)
                lane.close()
            assert [pair["id"] for pair in stage.analysis.of("pair")] == ["1.0", "3.0", "3.1"]
            assert asked(back) == asked(control)[1:] and len(back.requests) == 2
            assert stage.books["dropped"] == {"joined_late": 1} and closes(stage.books)

    play(run)
