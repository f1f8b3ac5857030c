"""The tools themselves, on one scripted stream: each reports what our table says that it would.

The stream's events are 0.6 s apart, and what a tool reports must be within 0.25 s of the table: which event a
tool takes for the first or last is what is compared, not how fast this machine is. As an engine does, the
scripted one tells its usage to those that ask for it, and only to them.
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
from tests.clients.heavy import TOKENIZER, installed, ran, vllm

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
USAGE_EVENT = event(choices=[], usage=USAGE)
# Each text is one token of TOKENIZER: inference-perf counts for itself, and says of several in a chunk that
# nothing passed between them.
STREAM = [
    (0.2, event(**part(role="assistant", content=""))),
    (0.8, event(**part(reasoning_content="so "))),
    (1.4, event(**part(content="async"))),
    (2.0, event(**part(content=" limit"))),
    (2.6, event(**part(finish="stop"))),
    (3.2, USAGE_EVENT),
    (3.8, b"data: [DONE]\n\n"),
]

# `vllm bench serve`, whose program does not start where vLLM is installed as a package of another name.
VLLM_BENCH_SERVE = """
import argparse
from vllm.benchmarks.serve import add_cli_args, main
parser = argparse.ArgumentParser()
add_cli_args(parser)
main(parser.parse_args())
"""


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._whole(json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode())

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("content-length", 0))))
        unasked = not (asked.get("stream_options") or {}).get("include_usage")
        began = time.monotonic()
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        with suppress(OSError):  # genai-bench leaves when it has its usage
            for at_s, data in STREAM:
                if unasked and data == USAGE_EVENT:
                    continue
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


def row(tool: str, *, without: bytes = b"") -> Row:
    """What the table says of the stream; of the stream `without` one of its events."""
    reads = [(int(at_s * 1e9), data) for at_s, data in STREAM if data != without]
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


def test_inference_perf(tmp_path: Path) -> None:
    program, ours = installed("inference-perf") / "inference-perf", row("inference-perf")
    with scripted() as url:
        config = {
            "api": {"type": "chat", "streaming": True},
            "data": {"type": "mock"},
            "load": {"type": "constant", "num_workers": 1, "stages": [{"rate": 1, "duration": 2}]},
            "server": {"type": "vllm", "model_name": MODEL, "base_url": url, "ignore_eos": True},
            "tokenizer": {"pretrained_model_name_or_path": str(TOKENIZER)},
            "report": {"request_lifecycle": {"per_stage": False, "use_server_output_tokens": True}},
            "storage": {"local_storage": {"path": "out"}},
        }
        (tmp_path / "config.yml").write_text(json.dumps(config))  # JSON is YAML
        ran([program, "-c", "config.yml"], tmp_path, OFFLINE)
    report = json.loads((tmp_path / "out/summary_lifecycle_metrics.json").read_text())
    latency = report["successes"]["latency"]
    assert near(1000 * latency["time_to_first_token"]["min"], ours.ttft_ms)
    assert near(1000 * latency["inter_token_latency"]["mean"], ours.itl_ms)
    assert near(1000 * latency["time_per_output_token"]["min"], ours.tpot_ms)
    assert near(1000 * latency["request_latency"]["min"], ours.e2e_ms)


def test_vllm_bench_serve(tmp_path: Path) -> None:
    ours = row("vLLM bench serve")
    with scripted() as url:
        argv: list[str | Path] = [vllm(), "-c", VLLM_BENCH_SERVE, "--backend", "openai-chat"]
        argv += [
            "--base-url",
            url,
            "--endpoint",
            "/v1/chat/completions",
            "--model",
            MODEL,
            "--tokenizer",
            TOKENIZER,
        ]
        argv += ["--dataset-name", "random", "--random-input-len", "16", "--random-output-len", "5"]
        argv += ["--num-prompts", "2", "--ready-check-timeout-sec", "0", "--disable-tqdm"]
        argv += ["--save-result", "--result-filename", "out.json", "--metric-percentiles", "1"]
        ran([*argv, "--percentile-metrics", "ttft,tpot,itl,e2el"], tmp_path, OFFLINE)
    report = json.loads((tmp_path / "out.json").read_text())
    assert near(report["p1_ttft_ms"], ours.ttft_ms)
    assert near(report["mean_itl_ms"], ours.itl_ms)
    assert near(report["p1_tpot_ms"], ours.tpot_ms)
    assert near(report["p1_e2el_ms"], ours.e2e_ms)


def test_llmperf_which_asks_for_no_usage(tmp_path: Path) -> None:
    [report] = llmperf(tmp_path, {})
    ours = row("LLMPerf", without=USAGE_EVENT)
    assert near(1000 * report["ttft_s"], ours.ttft_ms)
    assert near(1000 * report["inter_token_latency_s"], ours.itl_ms)
    assert near(1000 * report["end_to_end_latency_s"], ours.e2e_ms)


def test_llmperf_when_it_is_told_the_usage_fails(tmp_path: Path) -> None:
    assert row("LLMPerf").ttft_ms is None
    with pytest.raises(
        AssertionError, match="list index out of range"
    ):  # of choices, of which usage has none
        llmperf(tmp_path, {"stream_options": {"include_usage": True}})


def llmperf(tmp_path: Path, asks: dict[str, Any]) -> list[dict[str, Any]]:
    """What LLMPerf wrote of one request that `asks` for this, too."""
    python = installed("llmperf") / "python"
    source = python.parents[1] / "src/llmperf"
    hub = tmp_path / "huggingface/hub/models--hf-internal-testing--llama-tokenizer"
    (hub / "refs").mkdir(parents=True)
    (hub / "refs/main").write_text("0")
    (hub / "snapshots").mkdir()
    (hub / "snapshots/0").symlink_to(TOKENIZER)  # it wants that one and no other; any will do
    with scripted() as url:
        env = {**OFFLINE, "HF_HOME": str(tmp_path / "huggingface"), "PYTHONPATH": f"{source}/src"}
        env |= {"OPENAI_API_BASE": f"{url}/v1", "OPENAI_API_KEY": "x", "RAY_USAGE_STATS_ENABLED": "0"}
        argv: list[str | Path] = [python, source / "token_benchmark_ray.py", "--model", MODEL]
        argv += ["--mean-input-tokens", "500", "--stddev-input-tokens", "1", "--mean-output-tokens", "16"]
        argv += ["--stddev-output-tokens", "1", "--max-num-completed-requests", "1", "--timeout", "60"]
        argv += ["--num-concurrent-requests", "1", "--results-dir", "out", "--llm-api", "openai"]
        ran([*argv, "--additional-sampling-params", json.dumps(asks)], tmp_path, env)
    [file] = (tmp_path / "out").glob("*_individual_responses.json")
    return list(json.loads(file.read_text()))
