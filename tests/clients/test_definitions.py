"""The tools themselves, on one scripted stream: each reports what our table says that it would.

The stream's events are 0.6 s apart, and what a tool reports must be within 0.25 s of the table: which event a
tool takes for the first or last is what is compared, not how fast this machine is. inference-perf, vLLM's
bench and LLMPerf are not among those that are installed here: their rows follow their sources alone.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from analysis.definitions import Row, definitions
from tests.clients.heavy import TOKENIZER, installed, ran

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]
OFFLINE = {"HF_HUB_OFFLINE": "1"}
WITHIN_MS = 250.0
MODEL = "scripted"


def event(**fields: Any) -> bytes:
    chunk = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": MODEL, **fields}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def part(finish: str | None = None, **delta: Any) -> dict[str, Any]:
    return {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}


USAGE = {"prompt_tokens": 64, "completion_tokens": 5, "total_tokens": 69}
STREAM = [
    (0.2, event(**part(role="assistant", content=""))),
    (0.8, event(**part(reasoning_content="so "))),
    (1.4, event(**part(content="one "))),
    (2.0, event(**part(content="two "))),
    (2.6, event(**part(finish="stop"))),
    (3.2, event(choices=[], usage=USAGE)),
    (3.8, b"data: [DONE]\n\n"),
]


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._whole(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("content-length", 0)))
        began = time.monotonic()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):  # genai-bench leaves when it has its usage
            for at_s, data in STREAM:
                time.sleep(max(0.0, began + at_s - time.monotonic()))
                self.wfile.write(b"%x\r\n%b\r\n" % (len(data), data))
            self.wfile.write(b"0\r\n\r\n")

    def _whole(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


@contextmanager
def scripted() -> Iterator[str]:
    """The stream's server, at this URL until the block ends."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join(10)
        server.server_close()


def row(tool: str) -> Row:
    reads = [(int(at_s * 1e9), data) for at_s, data in STREAM]
    return {one.tool: one for one in definitions(reads, 0, int(3.8e9))}[tool]


def near(reported_ms: float, expected_ms: float | None) -> bool:
    print(f"reported {reported_ms:.1f} ms, the table says {expected_ms}")
    return expected_ms is not None and abs(reported_ms - expected_ms) < WITHIN_MS


def test_aiperf(tmp_path: Path) -> None:
    program, ours = installed("aiperf") / "aiperf", row("AIPerf")
    with scripted() as url:
        argv: list[str | Path] = [program, "profile", "-m", MODEL, "--url", url, "--endpoint-type", "chat"]
        argv += ["--streaming", "--tokenizer", TOKENIZER, "--use-server-token-count", "--concurrency", "1"]
        argv += [
            "--isl",
            "64",
            "--osl",
            "16",
            "--request-count",
            "2",
            "--ui-type",
            "none",
            "--workers-max",
            "1",
        ]
        ran([*argv, "--artifact-dir", "out"], tmp_path)
    report = json.loads((tmp_path / "out/profile_export_aiperf.json").read_text())
    assert near(report["time_to_first_token"]["min"], ours.ttft_ms)
    assert near(report["inter_token_latency"]["min"], ours.itl_ms)
    assert near(report["request_latency"]["min"], ours.e2e_ms)


def test_genai_bench(tmp_path: Path) -> None:
    program, ours = installed("genai-bench") / "genai-bench", row("genai-bench")
    with scripted() as url:
        argv: list[str | Path] = [program, "benchmark", "--api-backend", "openai", "--api-base", url]
        argv += [
            "--api-key",
            "x",
            "--api-model-name",
            MODEL,
            "--model",
            MODEL,
            "--model-tokenizer",
            TOKENIZER,
        ]
        argv += ["--task", "text-to-text", "--traffic-scenario", "D(64,16)", "--num-concurrency", "1"]
        argv += ["--max-time-per-run", "1", "--max-requests-per-run", "2", "--server-engine", "vLLM"]
        argv += ["--server-gpu-type", "H200", "--server-gpu-count", "1", "--server-version", "v0"]
        argv += ["--experiment-base-dir", "out", "--experiment-folder-name", "one", "--log-dir", "out"]
        ran(argv, tmp_path, OFFLINE)
    [file] = (tmp_path / "out/one").glob("D64_16_*.json")
    single = json.loads(file.read_text())["individual_request_metrics"][0]
    assert near(1000 * single["ttft"], ours.ttft_ms)
    assert near(1000 * single["tpot"], ours.tpot_ms)
    assert near(1000 * single["e2e_latency"], ours.e2e_ms)


def test_guidellm(tmp_path: Path) -> None:
    program, ours = installed("guidellm") / "guidellm", row("GuideLLM")
    with scripted() as url:
        argv: list[str | Path] = [program, "run", "--backend", f"kind=openai_http,target={url},model={MODEL}"]
        argv += ["--profile", "kind=concurrent,streams=1", "--constraint", "kind=max_requests,count=2"]
        argv += ["--tokenizer", f"kind=hf_auto,model={TOKENIZER}", "--disable-progress"]
        argv += ["--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=16"]
        ran([*argv, "--output", "kind=json,path=out.json"], tmp_path, OFFLINE)
    [report] = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    metrics = report["metrics"]

    def least(metric: str) -> float:
        return float(metrics[metric]["successful"]["min"])

    assert near(least("time_to_first_token_ms"), ours.ttft_ms)
    assert near(least("inter_token_latency_ms"), ours.itl_ms)
    assert near(least("time_per_output_token_ms"), ours.tpot_ms)
    assert near(1000 * least("request_latency"), ours.e2e_ms)
