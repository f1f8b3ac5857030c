"""Starts what the tests against real engines need: llama.cpp, vLLM, Shadowlane, each by its command."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
MODEL = "SmolLM2-135M-Instruct.Q4_1.gguf"
VLLM_ENV = {
    "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",
    "OMP_NUM_THREADS": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "HF_HUB_OFFLINE": "1",
    "TORCHDYNAMO_DISABLE": "1",
}

INTERPRETED_ENV = {
    "VLLM_USE_V2_MODEL_RUNNER": "1",
    "TRITON_INTERPRET": "1",
    "PYTHONPATH": str(HERE / "interpreted"),
}


def installed(engine: str) -> Path:
    """The folder with `engine` in it; skips the test, saying what to type, where it is not installed."""
    folder = Path(os.environ.get("SHADOWLANE_ENGINES_DIR", ".engines")).absolute()
    if not (folder / f"{engine}.stamp").exists():
        pytest.skip(f"{engine} is not installed: make test-engines ENGINES={engine}")
    return folder


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port: int = held.getsockname()[1]
        return port


def get(url: str, timeout_s: float = 5) -> Any:
    """GET some JSON; None when there is no 200 yet."""
    try:
        with urllib.request.urlopen(url, timeout=timeout_s) as response:
            body = response.read()
            return json.loads(body) if body else {}
    except (OSError, ValueError):
        return None


@contextmanager
def started(
    argv: Sequence[str], env: dict[str, str], log: Path, ready_url: str, within_s: float
) -> Iterator[int]:
    """Run a server until the block ends; gives its pid.  Fails with its log when it does not come up."""
    with log.open("wb") as out:
        process = subprocess.Popen(argv, env={**os.environ, **env}, stdout=out, stderr=subprocess.STDOUT)
    try:
        deadline_s = time.monotonic() + within_s
        while get(ready_url) is None:
            if process.poll() is not None or time.monotonic() > deadline_s:
                pytest.fail(f"{argv[0]} did not come up:\n{log.read_text(errors='replace')[-3000:]}")
            time.sleep(0.3)
        yield process.pid
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(10)


@contextmanager
def llamacpp(log_dir: Path, *, slots: int = 2) -> Iterator[str]:
    """A llama.cpp server with a real small model; gives its URL."""
    folder, port = installed("llamacpp"), free_port()
    argv = [str(folder / "llamacpp/bin/python"), str(HERE / "llamacpp_server.py")]
    argv += [str(folder / MODEL), str(port), "smollm2", str(slots)]
    url = f"http://127.0.0.1:{port}"
    with started(argv, {}, log_dir / f"llamacpp-{port}.log", url + "/health", 120):
        yield url


@contextmanager
def vllm(log_dir: Path, *flags: str, interpreted: bool = False) -> Iterator[str]:
    """A vLLM server on the CPU with the tiny model; gives its URL.

    `interpreted`: with vLLM's second model runner, its kernels in Triton's interpreter, some tokens a
    second: what only that one can do.
    """
    folder, port = installed("vllm"), free_port()
    argv = [str(folder / "vllm/bin/python"), "-m", "vllm.entrypoints.openai.api_server"]
    argv += ["--model", str(HERE / "tiny-llama"), "--served-model-name", "tiny", "--host", "127.0.0.1"]
    argv += ["--port", str(port), "--enforce-eager", "--max-model-len", "2048", "--block-size", "32"]
    argv += ["--enable-prompt-tokens-details", *flags]
    url = f"http://127.0.0.1:{port}"
    env = {**VLLM_ENV, **(INTERPRETED_ENV if interpreted else {})}
    with started(argv, env, log_dir / f"vllm-{port}.log", url + "/v1/models", 600):
        yield url


@dataclass(frozen=True)
class Gateway:
    """A running `shadowlane serve`."""

    url: str
    admin: str
    pid: int

    def ranking(self, experiment: str = "trial") -> dict[str, Any]:
        found = get(f"{self.admin}/api/experiments/{experiment}")
        return found if isinstance(found, dict) else {}


@contextmanager
def shadowlane(log_dir: Path, *flags: str) -> Iterator[Gateway]:
    """`shadowlane serve` with these flags, ready to serve."""
    port, admin_port = free_port(), free_port()
    argv = [sys.executable, "-P", "-m", "gateway.cli", "serve", "--listen", f"127.0.0.1:{port}"]
    argv += ["--admin", f"127.0.0.1:{admin_port}", "--state-dir", str(log_dir / "state"), *flags]
    admin = f"http://127.0.0.1:{admin_port}"
    env = {"PYTHONPATH": str(HERE.parents[1])}
    with started(argv, env, log_dir / "shadowlane.log", admin + "/readyz", 180) as pid:
        yield Gateway(f"http://127.0.0.1:{port}", admin, pid)
