"""Whatever copies, arms and the analysis do: every admitted copy is paired, or dropped for a reason."""

import asyncio
import json
import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from mirror.lane import pack_missed
from mirror.spec import ArmSpec, SlotSpec
from tests.mirror.scripted import Request, busy, engine, hang, nonsense, reset, stall, tokens
from tests.mirror.staging import copy_frame, experiment, phase_frame, play, served_frame, shadow, until

SCRIPTS = [tokens, tokens, busy, reset, nonsense, stall, hang]

steps = st.one_of(
    st.tuples(st.just("copy"), st.integers(0, 13), st.integers(0, 2)),
    st.tuples(st.just("served"), st.integers(0, 13), st.integers(0, 2)),
    st.tuples(st.just("missed"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("phase"), st.integers(0, 3), st.just(0)),
    st.tuples(st.just("wait"), st.integers(1, 3), st.just(0)),
    st.tuples(st.just("line"), st.just(0), st.just(0)),
)
modes = st.sampled_from([{}, {"rate": 2.5, "salt": b"s"}, {"slots": SlotSpec(0.05)}])


async def by_its_words(request: Request, writer: asyncio.StreamWriter) -> None:
    """An arm that does to a conversation what its number says."""
    if not request.body:
        await busy(request, writer)
        return
    words = json.loads(request.body)["messages"][0]["content"]
    await SCRIPTS[int(words.split()[-1]) % len(SCRIPTS)](request, writer)


@settings(max_examples=12, deadline=None)
@given(st.lists(steps, max_size=40), modes)
def test_admitted_is_paired_and_dropped_at_the_end_and_no_more_than_came(
    played: list[tuple[str, int, int]], mode: dict[str, object]
) -> None:
    sent = missed = 0

    async def run() -> None:
        nonlocal sent, missed
        with tempfile.TemporaryDirectory() as folder:
            async with engine(by_its_words) as control, engine(by_its_words) as other:
                kind = "vllm" if "rate" in mode else "auto"  # only with a salt is anything sent twice
                arms = ArmSpec("control", control.url, kind), ArmSpec("c1", other.url, kind)
                told = experiment(*arms, max_inflight=8, timeout_s=0.2, first_byte_s=0.1, **mode)
                async with shadow(Path(folder), told, drain_s=0.3, held_bytes=20_000) as stage:
                    _, lane = await stage.worker()
                    for number, (what, root, turn) in enumerate(played):
                        id = f"{root}.{turn}"
                        if what == "copy":
                            sent += 1
                            lane.write(copy_frame(id, root, turn))
                        elif what == "served":
                            lane.write(served_frame(id))
                        elif what == "missed":
                            missed += root
                            lane.write(pack_missed("fp8-kv", "lane_full", root))
                        elif what == "phase":
                            phase = ("calibration", "forced", "live", "paused")[root]
                            stage.analysis.tell(phase_frame("fp8-kv", phase, number))
                        elif what == "wait":
                            await asyncio.sleep(0.05 * root)
                        else:
                            lane.write(
                                copy_frame(f"last {number}", root)[:20]
                            )  # a worker that dies in a word
                            lane.close()
                            _, lane = await stage.worker()
                    await lane.drain()
                    lane.close()
                    await until(lambda: bool(stage.analysis.of("status")))
            books = stage.books
            assert books["open"] == 0
            assert books["admitted"] == books["paired"] + sum(books["dropped"].values())
            assert len(stage.analysis.of("pair")) == books["paired"]
            assert missed + sent <= books["admitted"] <= missed + 6 * sent  # twice, forced, three times
            assert books["dropped"].get("lane_full", 0) == missed

    play(run)
