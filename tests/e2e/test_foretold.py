"""What routing says vLLM has cached, against the `cached_tokens` of vLLM on the CPU."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from bench.bridge.__main__ import parsed, run
from bench.bridge.errors import Told, found_share, too_high_share
from tests.e2e.servers import HERE, free_port, vllm

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]

TOOLS = (
    "--chat-template",
    str(HERE / "tools.jinja"),
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "hermes",
)


def flags(*more: str) -> tuple[str, ...]:
    publish, replay = (f"tcp://*:{free_port()}" for _ in range(2))
    events = {
        "enable_kv_cache_events": True,
        "publisher": "zmq",
        "endpoint": publish,
        "replay_endpoint": replay,
    }
    room = ("--enable-prefix-caching", "--max-num-seqs", "8", "--max-model-len", "4096")
    return (*room, "--kv-events-config", json.dumps(events), *more)


def foretold(engines: Sequence[str], *more: str) -> list[Told]:
    """Conversations of the bench; its tables go to standard output."""
    named = [word for url in engines for word in ("--engine", url)]
    return asyncio.run(
        run(parsed([*named, "--scale", "0.6", "--pause", "0.5", "--concurrency", "2", *more]))
    ).told


def test_what_is_cached_is_found_and_nothing_else_is_said_to_be(tmp_path: Path) -> None:
    with vllm(tmp_path, *flags()) as engine:
        told = foretold([engine], "--alive", "6", "--talks", "50")
    assert found_share(told) >= 0.95 and too_high_share(told) <= 0.01


def test_it_holds_under_heavy_eviction(tmp_path: Path) -> None:
    with vllm(tmp_path, *flags("--num-gpu-blocks-override", "160")) as engine:
        # Events of what was just evicted come after the answer: what is measured is what is made of them.
        told = foretold([engine], "--alive", "10", "--talks", "40", "--concurrency", "1", "--settle", "0.2")
    assert found_share(told) >= 0.97 and too_high_share(told) <= 0.03


def test_it_holds_for_loops_of_tools_over_two_engines(tmp_path: Path) -> None:
    with vllm(tmp_path, *flags(*TOOLS)) as one, vllm(tmp_path, *flags(*TOOLS)) as other:
        told = foretold([one, other], "--alive", "6", "--talks", "30", "--kinds", "tools,chat")
    assert {one.engine for one in told} == {0, 1}
    assert found_share(told) >= 0.95 and too_high_share(told) <= 0.01
