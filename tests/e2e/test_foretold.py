"""What routing says vLLM has cached, against the `cached_tokens` of vLLM on the CPU."""

import asyncio
import json
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from bench.bridge.__main__ import Bench, parsed, run
from bench.bridge.errors import Told, found_share, too_high_share
from tests.e2e.servers import HERE, free_port, vllm

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]

RANK, BLOCK = 8, 32
PARSED = ("--enable-auto-tool-choice", "--tool-call-parser", "hermes")
TOOLS = ("--chat-template", str(HERE / "tools.jinja"), *PARSED)
THINKING = ("--chat-template", str(HERE / "thinking.jinja"), *PARSED)


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


def told_by(engines: Sequence[str], *more: str) -> Bench:
    """Conversations of the bench; its tables go to standard output."""
    named = [word for url in engines for word in ("--engine", url)]
    return asyncio.run(run(parsed([*named, "--scale", "0.6", "--pause", "0.5", "--concurrency", "2", *more])))


def foretold(engines: Sequence[str], *more: str) -> list[Told]:
    return told_by(engines, *more).told


def adapter(folder: Path, seed: int) -> Path:
    """A LoRA adapter of random numbers for the tiny model, in PEFT's files."""
    config, rng = json.loads((HERE / "tiny-llama/config.json").read_text()), Random(seed)
    hidden = config["hidden_size"]
    each = config.get("head_dim") or hidden // config["num_attention_heads"]
    outputs = {"q_proj": config["num_attention_heads"] * each, "v_proj": config["num_key_value_heads"] * each}
    head: dict[str, Any] = {}
    data = array("f")
    for layer in range(config["num_hidden_layers"]):
        for name, size in outputs.items():
            for half, shape in (("A", [RANK, hidden]), ("B", [size, RANK])):
                begin = 4 * len(data)
                data.extend(rng.gauss(0, 0.05) for _ in range(shape[0] * shape[1]))
                key = f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{half}.weight"
                head[key] = {"dtype": "F32", "shape": shape, "data_offsets": [begin, 4 * len(data)]}
    folder.mkdir()
    words = json.dumps(head).encode()
    whole = struct.pack("<Q", len(words)) + words + data.tobytes()
    (folder / "adapter_model.safetensors").write_bytes(whole)
    told = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": RANK, "lora_alpha": 16, "bias": "none"}
    told |= {"target_modules": list(outputs), "base_model_name_or_path": "tiny-llama"}
    (folder / "adapter_config.json").write_text(json.dumps(told))
    return folder


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


def test_it_holds_for_a_template_that_takes_a_loops_thinking_out_once_the_user_asks_again(
    tmp_path: Path,
) -> None:
    with vllm(tmp_path, *flags(*THINKING)) as engine:
        told = foretold([engine], "--alive", "6", "--talks", "20", "--kinds", "thinking,reasoning")
    for kind in ("thinking", "reasoning"):
        there = [one for one in told if one.kind == kind]
        assert found_share(there) >= 0.95 and too_high_share(there) <= 0.01


def test_it_holds_where_requests_wait_and_what_is_held_is_evicted_before_their_turn(tmp_path: Path) -> None:
    with vllm(tmp_path, *flags("--num-gpu-blocks-override", "260")) as engine:
        bench = told_by([engine], "--alive", "12", "--talks", "60", "--concurrency", "12", "--pause", "0.3")
    far_too_high = [one for one in bench.told if one.error > 2 * BLOCK]
    assert len(far_too_high) <= 0.03 * len(bench.told) and bench.precise.accuracy.is_trusted
    assert found_share(bench.told) >= 0.75


def test_it_holds_for_lora_adapters_beside_the_model(tmp_path: Path) -> None:
    loras = [f"{name}={adapter(tmp_path / name, seed)}" for seed, name in enumerate(("one", "two"))]
    more = ("--enable-lora", "--max-loras", "2", "--max-lora-rank", str(RANK), "--lora-modules", *loras)
    with vllm(tmp_path, *flags(*more)) as engine:
        told = foretold([engine], "--alive", "6", "--talks", "50", "--kinds", "adapted", "--loras", "one,two")
    assert found_share(told) >= 0.95 and too_high_share(told) <= 0.01


def test_of_an_engine_with_two_ranks_each_is_known(tmp_path: Path) -> None:
    """Which of them answers is the engine's choice: no more is claimed than all of them hold."""
    with vllm(tmp_path, *flags("--data-parallel-size", "2")) as engine:
        bench = told_by([engine], "--alive", "6", "--talks", "40")
    accuracy = bench.precise.accuracy
    assert accuracy.answers > 100 and accuracy.too_high <= 0.01 * accuracy.answers
    assert accuracy.is_trusted and accuracy.found_tokens >= 0.75 * accuracy.cached_tokens
