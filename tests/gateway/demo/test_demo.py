"""The demo's cast is fair and drawn by its seed; the demo runs, ends by itself, and tells its failures."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from config.load import load
from gateway.demo import cast as demo_cast
from gateway.demo import play as demo
from gateway.demo import stage as demo_stage
from gateway.demo.children import ChildError, Children

SEEDS = range(40)


def ranking(windows: int, *labels: tuple[str | None, str | None]) -> dict[str, Any]:
    candidates = [
        {"name": str(number), "verdicts": {"tpot": {"label": tpot}}, "outputs": {"label": outputs}}
        for number, (tpot, outputs) in enumerate(labels)
    ]
    return {"windows": windows, "candidates": candidates}


def test_no_name_and_no_place_tells_which_candidate_is_which() -> None:
    casts = [demo_cast.cast(seed) for seed in SEEDS]
    assert len({members.faster for members in casts}) >= 6
    places = Counter([part.name for part in members.candidates].index(members.faster) for members in casts)
    assert set(places) == {0, 1, 2} and max(places.values()) < 0.7 * len(casts)


def test_a_seed_gives_its_cast_and_its_traffic_again() -> None:
    assert demo_cast.cast(4) == demo_cast.cast(4) != demo_cast.cast(5)
    assert (
        list(islice(demo.traffic(4), 20))
        == list(islice(demo.traffic(4), 20))
        != list(islice(demo.traffic(5), 20))
    )


@pytest.mark.parametrize("seed", SEEDS)
def test_only_the_faster_is_faster_only_the_diverging_diverges_and_no_two_share_a_seed(seed: int) -> None:
    members = demo_cast.cast(seed)
    settings = {part.name: dict(part.settings) for part in members.parts}
    seeds = [own.pop("seed") for own in settings.values()]
    assert len(set(seeds)) == len(seeds) == 6
    assert settings[members.faster].pop("speed") == demo_cast.SPEED and 1 - 1 / demo_cast.SPEED >= 0.25
    assert settings[members.diverging].pop("diverge-rate") == demo_cast.DIVERGE_RATE > 0
    assert all(own == settings["control"] for own in settings.values())


def test_the_configuration_is_one_the_gateway_takes(tmp_path: Path) -> None:
    members = demo_cast.cast(1)
    urls = {part.name: f"http://127.0.0.1:{9000 + number}" for number, part in enumerate(members.parts)}
    told = demo_cast.deployment(
        members,
        urls,
        listen="127.0.0.1:8080",
        admin="127.0.0.1:8090",
        state_dir=str(tmp_path),
        calibration_s=20.0,
    )
    config = load(None, {}, told)
    assert [arm.engine for arm in config.experiments[0].candidates] == [
        urls[part.name] for part in members.candidates
    ]


def test_it_has_concluded_when_every_candidate_has_both_words_from_enough_windows() -> None:
    words = (("FASTER", "SAME"), ("EQUIVALENT", "DIVERGES"), ("EQUIVALENT", "SAME"))
    assert demo.concluded(ranking(demo.MIN_WINDOWS, *words))
    assert not demo.concluded(ranking(demo.MIN_WINDOWS - 1, *words))
    assert not demo.concluded(ranking(99, *words[:2], ("UNDECIDED", "SAME")))
    assert not demo.concluded(ranking(99, *words[:2], ("EQUIVALENT", None)))
    assert not demo.concluded(ranking(99, *words[:2], ("EQUIVALENT", "UNDECIDED")))
    assert not demo.concluded({})


def test_it_does_not_wait_for_answers_that_seem_alike_to_be_called_so_but_for_others_to_be_called_other() -> (
    None
):
    found = ranking(99, ("FASTER", "UNDECIDED"), ("EQUIVALENT", "DIVERGES"))
    outputs = found["candidates"][0]["outputs"]
    outputs["first_divergence"] = {"excess": {"value": 0.01}}
    assert demo.concluded(found)
    outputs["first_divergence"] = {"excess": {"value": 0.03}}
    assert not demo.concluded(found)


async def start_engine(logs: Path, *flags: str) -> None:
    children = Children(logs)
    try:
        await children.engine("ember", flags, timeout_s=60.0)
    finally:
        await children.end()


def test_an_engine_that_does_not_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    with pytest.raises(ChildError, match=r"(?s)ember did not say where it listens.*no-such-flag"):
        asyncio.run(start_engine(tmp_path, "--no-such-flag"))


def test_two_demos_at_once_do_not_take_the_same_address_and_a_server_can_listen_on_a_held_one() -> None:
    with demo_stage.hold_address(0) as first:
        host, port = first.getsockname()
        with demo_stage.hold_address(port) as second, socket.socket() as server:
            assert second.getsockname()[1] != port
            server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            server.bind((host, port))
            server.listen()
            with socket.create_connection((host, port), timeout=5):
                pass


@contextmanager
def playing(page: Path, seconds: float) -> Iterator[subprocess.Popen[str]]:
    """A demo of seed 3 in a process of its own, ended if it still runs."""
    program = (
        f"from gateway.demo.play import run; raise SystemExit(run(3, html={str(page)!r}, seconds={seconds}))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "160"},
    )
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def children_of(pid: int) -> list[str]:
    """The command lines of what a demo started, as far as it still runs."""
    marks = [f"gateway.demo.child {pid} ", f"--supervisor {pid}"]
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            lines.append(path.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue  # it ended meanwhile
    return [line for line in lines if any(mark in line for mark in marks)]


def test_the_demo_runs_ends_by_itself_and_leaves_a_report_and_nothing_else(tmp_path: Path) -> None:
    page = tmp_path / "out.html"
    with playing(page, seconds=45.0) as process:
        said, _ = process.communicate(timeout=100)
        assert process.returncode == 0, said
        assert children_of(process.pid) == []
    names = [part.name for part in demo_cast.cast(3).candidates]
    for expected in (
        *names,
        "Dashboard: http://127.0.0.1:",
        "TPOT",
        "production, observed only",
        f"Report: {page}",
    ):
        assert expected in said
    assert all(name in page.read_text() for name in names)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_the_demo_and_everything_it_started(tmp_path: Path, how: signal.Signals) -> None:
    with playing(tmp_path / "out.html", seconds=60.0) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("Dashboard"):
                break
        assert len(children_of(process.pid)) == 7
        process.send_signal(how)
        said, _ = process.communicate(timeout=30)
        assert process.returncode == 130, said
        assert children_of(process.pid) == []
