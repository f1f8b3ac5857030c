"""AIPerf and GuideLLM, unchanged, read a recording as it was written, and send what its rows say."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.recording.clerk import Clerk
from gateway.recording.spec import RecordSpec
from mirror.frames import Copy, Served
from tests.clients.heavy import TOKENIZER, installed, ran
from tests.clients.stage import Stage, grown, staged
from tests.clients.stage import until as wait_until
from tests.recording.staging import KEY, answer, chat
from workload.packed import Lines
from workload.row import Row, from_line

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]
BLOCK_TOKENS = 64


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    """A gateway that asks for no keys."""
    with staged(tmp_path_factory.mktemp("recordings"), keys=False) as made:
        yield made


@pytest.fixture
def recording(tmp_path: Path) -> tuple[Path, list[Row]]:
    """Two conversations of three turns and one request that failed, as the recorder writes them."""
    path = tmp_path / "recording.jsonl"
    file = Lines(path, "none")
    clerk = Clerk(RecordSpec("", "", KEY, block_tokens=BLOCK_TOKENS), 0, lambda line: file.add(line))
    at_ns = 0
    for talk in ("one", "two"):
        said = [f"system words of {talk} " * 40]
        for turn in range(3):
            body, at_ns = chat(*said, model="emulated"), at_ns + 150_000_000
            id, path_asked = f"{talk}{turn}", "/v1/chat/completions"
            clerk.took(
                Copy("recording", id, path_asked, [], body, at_ns, at_ns, len(talk), turn, True), at_ns
            )
            _head, *pieces = answer("fine words", len(body) // 4, 5 + turn)
            reads = [(at_ns + 5_000_000, piece) for piece in pieces]
            instants = (at_ns, at_ns, at_ns + 1_000_000, at_ns + 9_000_000, "complete")
            clerk.took(Served("recording", id, 200, "text/event-stream", reads, True, *instants), at_ns)
            said += ["fine words " * 10, f"and then {turn} " * 20]
    at_ns += 150_000_000
    body, refusal = chat("refused words " * 40, model="emulated"), b'{"error": {"message": "busy"}}'
    clerk.took(Copy("recording", "no", "/v1/chat/completions", [], body, at_ns, at_ns, 9, 0, True), at_ns)
    instants = (at_ns, at_ns, at_ns + 1_000_000, at_ns + 2_000_000, "complete")
    reads = [(at_ns + 1_000_000, refusal)]
    clerk.took(Served("recording", "no", 503, "application/json", reads, False, *instants), at_ns)
    clerk.close()
    file.close()
    written = [from_line(line) for line in path.read_bytes().splitlines()]
    assert sorted(Counter(row.status for row in written).items()) == [(200, 6), (503, 1)]
    return path, written


def sent(stage: Stage, before: dict[str, int], requests: int) -> dict[str, int]:
    wait_until(stage.is_free)
    wait_until(lambda: grown(before, stage.engine()).get("request_success", 0) >= requests)
    return grown(before, stage.engine())


def near(found: int, rows: list[Row]) -> bool:
    """The tools make text by a tokenizer that is not the engine's, which counts up to twice as many."""
    asked = sum(row.input_length for row in rows)
    return 0.5 * asked < found < 2.0 * asked + 60 * len(rows)


def test_aiperf_replays_it_at_its_instants(
    stage: Stage, tmp_path: Path, recording: tuple[Path, list[Row]]
) -> None:
    program, (path, rows), before = installed("aiperf") / "aiperf", recording, stage.engine()
    argv: list[str | Path] = [
        program,
        "profile",
        "-m",
        "emulated",
        "--url",
        stage.url,
        "--endpoint-type",
        "chat",
        "--streaming",
    ]
    argv += ["--tokenizer", TOKENIZER, "--use-server-token-count", "--ui-type", "none", "--workers-max", "2"]
    argv += ["--input-file", path, "--custom-dataset-type", "mooncake_trace", "--fixed-schedule"]
    argv += ["--isl-block-size", str(BLOCK_TOKENS), "--no-gpu-telemetry", "--artifact-dir", "out"]
    ran(argv, tmp_path)
    report = json.loads((tmp_path / "out/profile_export_aiperf.json").read_text())
    assert report["error_summary"] == [] and int(report["request_count"]["avg"]) == len(rows)
    made = sent(stage, before, len(rows))
    assert near(made["prompt_tokens"], rows)


def test_guidellm_replays_it_at_its_instants(
    stage: Stage, tmp_path: Path, recording: tuple[Path, list[Row]]
) -> None:
    program, (path, rows), before = installed("guidellm") / "guidellm", recording, stage.engine()
    argv: list[str | Path] = [
        program,
        "run",
        "--backend",
        f"kind=openai_http,target={stage.url},model=emulated",
    ]
    argv += ["--profile", "kind=replay,time_scale=0.001", "--tokenizer", f"kind=hf_auto,model={TOKENIZER}"]
    data = f"kind=mooncake,hash_id_block_size={BLOCK_TOKENS},source.kind=json_file,source.path={path}"
    argv += ["--data", data, "--output", "kind=json,path=b.json", "--disable-progress"]
    ran(argv, tmp_path, {"HF_HUB_OFFLINE": "1"})
    report = json.loads((tmp_path / "b.json").read_text())
    totals = report["benchmarks"][0]["metrics"]["request_totals"]
    # It sends all of them, as the engine counts, and may leave the last one out of its own report.
    assert totals["errored"] == 0 and totals["successful"] >= len(rows) - 1
    made = sent(stage, before, len(rows))
    assert near(made["prompt_tokens"], rows)
