"""What `bench.worked` tries: vLLM against itself, against a handicap, and with other arithmetic."""

import json
from pathlib import Path
from typing import Any

import pytest

from bench.worked import compare, parsed
from tests.e2e.servers import installed

pytestmark = [pytest.mark.engines, pytest.mark.timeout(1200)]


def found(out: Path, candidate: str) -> dict[str, Any]:
    """What the report says of the candidate after some minutes of traffic."""
    few = ("--requests", "360", "--per-s", "1.2")  # so slow that two cores keep up with all three engines
    compare(parsed(["--engines", str(installed("vllm")), "--out", str(out), *few]), candidate)
    report = json.loads((out / f"{candidate}.report.json").read_text())
    [told] = report["candidates"]
    assert told["n"] > 100, report["books"]
    whole: dict[str, Any] = told
    return whole


def test_an_engine_is_never_called_different_from_itself(tmp_path: Path) -> None:
    told = found(tmp_path, "same")
    assert {one["label"] for one in told["verdicts"].values()} <= {"EQUIVALENT", "UNDECIDED"}
    assert told["outputs"]["label"] != "DIVERGES"


def test_an_engine_that_reads_prompts_slowly_is_never_called_faster_and_its_first_token_comes_later(
    tmp_path: Path,
) -> None:
    told = found(tmp_path, "slow-prefill")
    assert "FASTER" not in {one["label"] for one in told["verdicts"].values()}
    first = told["verdicts"]["ttft"]
    assert first["label"] in ("SLOWER", "UNDECIDED") and (first["ratio"] is None or first["ratio"] > 1)


def test_other_arithmetic_is_seen_in_the_answers_and_never_called_the_same(tmp_path: Path) -> None:
    told = found(tmp_path, "float32")
    assert told["outputs"]["label"] != "SAME"
    exact = told["outputs"]["exact_match"]
    assert exact["value"] < exact["floor"]
