"""litellm, AIPerf, genai-bench, GuideLLM and Locust, unchanged: what they report is what was counted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.clients.heavy import TOKENIZER, Books, Told, installed, ran
from tests.clients.stage import Stage, staged

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]
HERE = Path(__file__).parent
OFFLINE = {"HF_HUB_OFFLINE": "1"}


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that asks for no keys: some of these tools can send none."""
    with staged(tmp_path_factory.mktemp("heavy"), keys=False) as made:
        yield made


def test_litellm(stage: Stage, tmp_path: Path) -> None:
    python, books = installed("litellm") / "python", Books(stage)
    env = {"LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    said = ran([python, HERE / "litellm_calls.py", stage.url], tmp_path, env)
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert {line["call"]: line["error"] for line in lines if "error" in line} == {
        "unknown model": "NotFoundError",
        "bad parameter": "BadRequestError",
        "no engine": "ServiceUnavailableError",
    }
    answers = {line["call"]: line for line in lines if "error" not in line}
    chats = [answers[name]["text"] for name in ("chat", "chat stream", "async stream", "vllm", "messages")]
    assert len(set(chats)) == 1 and chats[0] and answers["completion"]["text"]
    books.agree_with(
        Told(
            len(answers),
            sum(line["prompt"] for line in answers.values()),
            sum(line["output"] for line in answers.values()),
        ),
        refused=3,
    )


@pytest.mark.parametrize("api", ["chat", "completions", "messages"])
def test_aiperf(stage: Stage, tmp_path: Path, api: str) -> None:
    program, books = installed("aiperf") / "aiperf", Books(stage)
    argv: list[str | Path] = [
        program,
        "profile",
        "-m",
        "emulated",
        "--url",
        stage.url,
        "--endpoint-type",
        api,
        "--streaming",
    ]
    argv += ["--tokenizer", TOKENIZER, "--use-server-token-count", "--concurrency", "2", "--isl", "64"]
    argv += ["--request-count", "8", "--osl", "16", "--ui-type", "none", "--workers-max", "2"]
    ran([*argv, "--server-metrics", f"{stage.admin}/metrics", "--artifact-dir", "out"], tmp_path)
    report = json.loads((tmp_path / "out/profile_export_aiperf.json").read_text())
    assert "shadowlane_requests" in (tmp_path / "out/server_metrics_export.json").read_text()
    assert report["error_summary"] == [] and report["is_complete"]
    assert 0 < report["time_to_first_token"]["avg"] < report["request_latency"]["avg"]
    names = ("request_count", "total_usage_prompt_tokens", "total_usage_completion_tokens")
    told = Told(*(int(report[name]["avg"]) for name in names))
    assert told.requests == 8
    books.agree_with(told)


def test_genai_bench(stage: Stage, tmp_path: Path) -> None:
    program, books = installed("genai-bench") / "genai-bench", Books(stage)
    argv: list[str | Path] = [
        program,
        "benchmark",
        "--api-backend",
        "openai",
        "--api-base",
        stage.url,
        "--api-key",
        "x",
    ]
    argv += ["--api-model-name", "emulated", "--model", "emulated", "--model-tokenizer", TOKENIZER]
    argv += ["--task", "text-to-text", "--traffic-scenario", "D(64,16)", "--num-concurrency", "2"]
    argv += ["--max-time-per-run", "1", "--max-requests-per-run", "8", "--server-engine", "vLLM"]
    argv += ["--server-gpu-type", "H200", "--server-gpu-count", "1", "--server-version", "v0"]
    argv += ["--experiment-base-dir", "out", "--experiment-folder-name", "one", "--log-dir", "out"]
    ran(argv, tmp_path, OFFLINE)
    [file] = (tmp_path / "out/one").glob("D64_16_*.json")
    report = json.loads(file.read_text())
    totals, single = report["aggregated_metrics"], report["individual_request_metrics"]
    assert totals["num_error_requests"] == 0 and totals["num_completed_requests"] == len(single)
    prompt = sum(one["num_input_tokens"] for one in single)
    books.agree_with(Told(len(single), prompt, sum(one["num_output_tokens"] for one in single)))


def test_guidellm(stage: Stage, tmp_path: Path) -> None:
    program, books = installed("guidellm") / "guidellm", Books(stage)
    argv: list[str | Path] = [
        program,
        "run",
        "--backend",
        f"kind=openai_http,target={stage.url},model=emulated",
    ]
    argv += ["--profile", "kind=concurrent,streams=2", "--constraint", "kind=max_requests,count=8"]
    argv += ["--tokenizer", f"kind=hf_auto,model={TOKENIZER}", "--disable-progress"]
    argv += ["--data", "kind=synthetic_text,prompt_tokens=64,output_tokens=16"]
    ran([*argv, "--output", "kind=json,path=out.json"], tmp_path, OFFLINE)
    [report] = json.loads((tmp_path / "out.json").read_text())["benchmarks"]
    metrics = report["metrics"]
    assert metrics["request_totals"] == {"successful": 8, "errored": 0, "incomplete": 0, "total": 8}
    prompt = metrics["prompt_token_count"]["successful"]["total_sum"]
    output = metrics["output_token_count"]["successful"]["total_sum"]
    books.agree_with(Told(8, int(prompt), int(output)))


def test_locust(stage: Stage, tmp_path: Path) -> None:
    program, books = installed("locust") / "locust", Books(stage)
    argv: list[str | Path] = [
        program,
        "-f",
        HERE / "locustfile.py",
        "--headless",
        "-u",
        "4",
        "-r",
        "4",
        "-t",
        "3s",
        "-H",
    ]
    ran([*argv, stage.url, "--stop-timeout", "20", "--json-file", "out", "--only-summary"], tmp_path)
    report = {entry["name"]: entry for entry in json.loads((tmp_path / "out.json").read_text())}
    chats = report["/v1/chat/completions"]
    assert chats["num_failures"] == 0
    sums = [int(report[name]["total_content_length"]) for name in ("prompt", "output")]
    books.agree_with(Told(chats["num_requests"], *sums))
