"""Real engines as launched arms: started, warmed up, compared, and ended with all their processes."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.e2e import servers
from tests.e2e.servers import HERE, free_port, get, installed, started

pytestmark = [pytest.mark.engines, pytest.mark.timeout(900)]

VLLM = (
    "--model {model} --served-model-name tiny --host {host} --port {port} --enforce-eager"
    " --max-model-len 2048 --block-size 32 --enable-prompt-tokens-details --max-num-seqs 8"
)


def command(engine: str) -> dict[str, Any]:
    folder = installed(engine)
    if engine == "vllm":
        words = [str(folder / "vllm/bin/python"), "-m", "vllm.entrypoints.openai.api_server"]
        words += VLLM.replace("{model}", str(HERE / "tiny-llama")).split()
        return {"command": words, "env": servers.VLLM_ENV}
    words = [str(folder / "llamacpp/bin/python"), str(HERE / "llamacpp_server.py")]
    return {"command": [*words, str(folder / servers.MODEL), "{port}", "tiny", "2"]}


def below(pid: int) -> set[int]:
    """All processes below one, by /proc."""
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        for task in Path(f"/proc/{waiting.pop()}/task").glob("*/children"):
            try:
                more = {int(child) for child in task.read_text().split()} - found
            except OSError:
                continue
            found |= more
            waiting += more
    return found


@pytest.mark.parametrize("engine", ["llamacpp", "vllm"])
def test_an_engine_is_launched_warmed_compared_and_ended_with_all_its_processes(
    tmp_path: Path, engine: str
) -> None:
    arm = {"launch": {**command(engine), "ready_s": 600}, "gpus": 0}
    port, admin_port, engine_port = free_port(), free_port(), free_port()
    trial = {"name": "t", "sample": {"rate": 1.0}, "control": arm, "candidates": [{"name": "x", **arm}]}
    settings = {
        "listen": f"127.0.0.1:{port}",
        "admin": f"127.0.0.1:{admin_port}",
        "state_dir": str(tmp_path / "state"),
        "fleets": [{"model": "tiny", "engines": [f"http://127.0.0.1:{engine_port}"]}],
        "experiments": [trial],
    }
    (tmp_path / "a.yaml").write_text(json.dumps(settings))
    admin, env = f"http://127.0.0.1:{admin_port}", {"PYTHONPATH": str(HERE.parents[1])}
    emulator = [sys.executable, "-m", "emulator", "--model", "tiny", "--port", str(engine_port)]
    serve = [sys.executable, "-P", "-m", "gateway.cli", "serve", "-c", str(tmp_path / "a.yaml")]
    with (
        started(emulator, env, tmp_path / "e.log", f"http://127.0.0.1:{engine_port}/health", 180),
        started(serve, env, tmp_path / "s.log", admin + "/readyz", 180) as pid,
    ):
        deadline_s = time.monotonic() + 600
        engines: list[dict[str, Any]] = []
        while [one["state"] for one in engines] != ["ready", "ready"]:
            assert time.monotonic() < deadline_s and "given up" not in (tmp_path / "s.log").read_text(), (
                tmp_path / "s.log"
            ).read_text()[-3000:]
            time.sleep(1)
            engines = ((get(admin + "/api/status") or {}).get("launched") or {}).get("engines", [])
        assert {one["kind"] for one in engines} == {engine}
        with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="unused", timeout=60) as client:
            books: dict[str, Any] = {}
            while books.get("paired", 0) < 3:
                assert time.monotonic() < deadline_s, books
                client.completions.create(model="tiny", prompt=f"One, {time.monotonic()}", max_tokens=4)
                time.sleep(0.5)
                books = (get(admin + "/api/experiments/t") or {}).get("books") or {}
        there = below(pid)
        assert len(there) >= 2 * (3 if engine == "vllm" else 2)  # keepers, engines, and what these start
    assert [one for one in there if os.path.exists(f"/proc/{one}/exe")] == []
