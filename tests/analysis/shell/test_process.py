"""The analysis process on real sockets: frames in, API out, the log in between."""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import aiohttp
import msgpack

from analysis.frames import framed
from analysis.process import serve_analysis
from analysis.report import render_text, report, to_json
from analysis.spec import AnalysisSpec, TextSpec
from analysis.store import LogReader
from analysis.text_files import NAME as TEXTS
from tests.analysis.shell.frames import SPEC, admin_url, analysis, analysis_spec, books, pair, status

EXPERIMENT = "/api/experiments/kv"


async def _fill(shadow: Any, calibration: int = 40, live: int = 60) -> int:
    """Pairs of both phases; how many."""
    for n in range(calibration):
        await shadow.send(pair(n, "calibration"))
    for n in range(calibration, calibration + live):
        await shadow.send(pair(n, "live"))
    return calibration + live


def _pairs_logged(log: Path) -> int:
    return sum(kind == "pair" for kind, _ in LogReader(log))


NO_TURNS = {"blocks": 0, "turns": 0, "out": []}


def test_a_replay_of_the_log_gives_the_live_ranking_byte_for_byte(tmp_path: Path) -> None:
    async def run() -> bytes:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            n = await _fill(shadow)
            await shadow.send(books(n + 5, n, arm_error=5))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == n)
            return (await running.get(EXPERIMENT))[1]

    live = asyncio.run(run())
    replayed = report(tmp_path / "state/kv/log.msgpack")
    assert to_json(replayed) == live
    assert json.loads(live)["phase"] == "live" and json.loads(live)["windows"] > 0
    assert "quick" in render_text(replayed)


def test_peers_are_told_the_phase_on_connect_and_when_it_changes(tmp_path: Path) -> None:
    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow, running.shadow() as other:
            for peer in (shadow, other):
                assert await peer.told() == [
                    "phase",
                    {"experiment": "kv", "phase": "calibration", "epoch": 1, **NO_TURNS},
                ]
            await _fill(shadow, live=0)
            for peer in (shadow, other):
                assert await peer.told() == [
                    "phase",
                    {"experiment": "kv", "phase": "live", "epoch": 1, **NO_TURNS},
                ]

    asyncio.run(run())


def test_a_restart_continues_the_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            n = await _fill(shadow)
            await shadow.send(books(n, n))
            before = await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == n)
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            assert await shadow.told() == [
                "phase",
                {"experiment": "kv", "phase": "live", "epoch": 1, **NO_TURNS},
            ]
            assert await running.until(EXPERIMENT, lambda r: True) == before
            await shadow.send(pair(n, "live"), books(n + 1, n + 1))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == n + 1)
        assert _pairs_logged(running.log) == n + 1

    asyncio.run(run())


def test_other_settings_start_a_new_epoch_and_keep_the_old_log(tmp_path: Path) -> None:
    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            await shadow.send(pair(0, "calibration"), books(1, 1))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == 1)
        async with analysis(tmp_path, replace(SPEC, margin=0.01)) as running, running.shadow() as shadow:
            assert await shadow.told() == [
                "phase",
                {"experiment": "kv", "phase": "calibration", "epoch": 2, **NO_TURNS},
            ]
            found = await running.until(EXPERIMENT, lambda r: True)
            assert (found["epoch"], found["books"]["paired"]) == (2, 0)
        assert _pairs_logged(running.log.with_name("log.epoch-1.msgpack")) == 1

    asyncio.run(run())


def test_a_torn_tail_is_cut_off_and_the_rest_continues(tmp_path: Path) -> None:
    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            await shadow.send(pair(0, "calibration"), pair(1, "calibration"), books(2, 2))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == 2)
        whole = running.log.read_bytes()
        running.log.write_bytes(whole + framed("load", msgpack.packb({"span_s": 5.0}))[:-3])
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == 2)
        assert running.log.read_bytes() == whole

    asyncio.run(run())


def test_a_log_that_is_none_is_put_aside_and_the_process_goes_on(tmp_path: Path) -> None:
    async def run() -> None:
        log = tmp_path / "state/kv/log.msgpack"
        log.parent.mkdir(parents=True)
        log.write_text("not a log at all\n")
        async with analysis(tmp_path, SPEC) as running, running.shadow() as shadow:
            await shadow.send(pair(0, "calibration"), books(1, 1))
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == 1)
        assert log.with_name("log.unreadable.msgpack").read_text() == "not a log at all\n"
        assert _pairs_logged(log) == 1

    asyncio.run(run())


def test_a_malformed_frame_ends_its_connection_and_nothing_else(tmp_path: Path) -> None:
    bad = [
        b"\xc1",
        msgpack.packb("text"),
        msgpack.packb(["pair"]),
        msgpack.packb(["pair", 5]),
        msgpack.packb(["pair", {}]),
        msgpack.packb(["status", {"process": 5}]),
        msgpack.packb(["status", {"process": "worker-1", "engines": 7}]),
        msgpack.packb(["pair", {"experiment": "kv", "id": "x"}]),
        msgpack.packb(["books", {"experiment": "kv", "admitted": "many", "paired": 0, "dropped": {}}]),
        msgpack.packb(["pair", {**pair(0, "calibration")[1], "at_ns": "noon"}]),
        b"\xdf\xff\xff\xff\xff",
        b"\x91" * 5000,
    ]

    async def run() -> None:
        async with analysis(tmp_path, SPEC) as running, running.shadow() as good:
            assert (await good.told())[0] == "phase"
            for frame in bad:
                async with running.shadow() as peer:
                    assert (await peer.told())[0] == "phase"
                    peer.writer.write(frame + b"\xc1")
                    try:
                        assert await peer.told() is None, frame
                    except ConnectionError:
                        continue
            await good.send(["news", {}], pair(0, "calibration"), books(3, 3))  # two were malformed
            await running.until(EXPERIMENT, lambda r: r["books"]["paired"] == 1)
            found = await running.until("/api/status", lambda s: True)
            assert found["troubles"]["malformed"] >= len(bad) and found["troubles"]["unknown_kind"] == 1
        assert _pairs_logged(running.log) == 1

    asyncio.run(run())


def test_readiness_follows_the_workers_statuses(tmp_path: Path) -> None:
    async def run() -> None:
        async with analysis(tmp_path) as running, running.shadow() as worker:
            assert (await running.get("/livez"))[0] == 200
            code, body = await running.get("/readyz")
            assert code == 503 and "no gateway worker" in json.loads(body)["reasons"][0]
            for frame, ready, reason in (
                (status(up=False), False, "fleet llama"),
                (status(), True, ""),
                (status(draining=True), False, "draining"),
                (status(), True, ""),
            ):
                await worker.send(frame)
                found = await running.until("/readyz", lambda r, ready=ready: r["ready"] is ready)
                assert ready or reason in found["reasons"][0]

    asyncio.run(run())


def test_after_kill_9_every_counted_pair_is_there(tmp_path: Path) -> None:
    """The process is a real one here; what it had shown before it died is what a replay shows."""
    code = (
        "import asyncio, sys; from analysis.process import serve_analysis;"
        "from tests.analysis.shell.frames import SPEC, analysis_spec; from pathlib import Path;"
        "import uvloop; uvloop.run(serve_analysis(analysis_spec(Path(sys.argv[1]), SPEC), asyncio.Event()))"
    )

    async def run() -> bytes:
        quiet = asyncio.subprocess.DEVNULL
        child = await asyncio.create_subprocess_exec(sys.executable, "-c", code, str(tmp_path), stdout=quiet)
        try:
            run_dir = Path(analysis_spec(tmp_path).run_dir)
            url = await admin_url(run_dir)
            _, writer = await asyncio.open_unix_connection(str(run_dir / "observations.sock"))
            for n in range(30):
                writer.write(msgpack.packb(pair(n, "calibration")))
            await writer.drain()
            async with aiohttp.ClientSession() as http:
                for _ in range(1200):
                    async with http.get(url + EXPERIMENT) as answer:
                        shown = await answer.read()
                    if json.loads(shown)["pairs"] == 30:
                        break
                    await asyncio.sleep(0.025)
            writer.close()
            return shown
        finally:
            child.kill()  # SIGKILL
            await child.wait()

    shown = asyncio.run(run())
    assert json.loads(shown)["pairs"] == 30
    assert to_json(report(tmp_path / "state/kv/log.msgpack")) == shown


def test_texts_of_experiments_that_are_gone_go_at_a_start_and_at_a_reload(
    tmp_path: Path,
) -> None:
    both = replace(
        analysis_spec(tmp_path, SPEC, replace(SPEC, name="gone")),
        texts={"kv": TextSpec(99), "gone": TextSpec(99)},
    )
    one = replace(both, experiments=(SPEC,))
    stop, folders = asyncio.Event(), [tmp_path / "state" / name for name in ("kv", "gone", "before")]
    for folder in folders:
        folder.mkdir(parents=True)

    def there() -> list[str | None]:
        return [folder.name for folder in folders if (folder / TEXTS).exists()]

    async def changes() -> AsyncIterator[tuple[AnalysisSpec, Callable[[str | None], None]]]:
        seen.append(there())  # the start is over
        for folder in folders[:2]:
            (folder / TEXTS).write_bytes(b"texts")
        yield both, lambda why: seen.append([*there(), why])
        yield one, lambda why: seen.append([*there(), why])
        stop.set()

    seen: list[list[str | None]] = []
    (folders[2] / TEXTS).write_bytes(b"texts")
    asyncio.run(asyncio.wait_for(serve_analysis(both, stop, changes=changes()), 30))
    assert seen == [[], ["kv", "gone", None], ["kv", None]]
