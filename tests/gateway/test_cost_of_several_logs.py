"""Logs of the same arms under other loads make one curve of cost; the decision stays the first log's."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace as changed

from analysis.measure import PairRecord
from analysis.spec import ExperimentSpec
from analysis.store import NAME, Header, LogWriter
from gateway.cli import main
from tests.analysis.trials import SPEC, records

BEGIN_NS = 10**12
PAIRS = 700
BOUNDS = ("--slo", "ttft=350,tpot=35")


def written(folder: Path, spec: ExperimentSpec, slowly: int = 1) -> Path:
    """A log of pairs at ten requests a second, divided by `slowly`."""
    writer = LogWriter(folder / spec.name / NAME, Header(1, spec))
    writer.open()
    for record in records(PAIRS):
        writer.append("pair", _later(record, (record.at_ns - BEGIN_NS) * (slowly - 1)))
    writer.close()
    return folder / spec.name


def _later(record: PairRecord, by_ns: int) -> PairRecord:
    answers = tuple(changed(a, sent_ns=a.sent_ns + by_ns, end_ns=a.end_ns + by_ns) for a in record.answers)
    return changed(
        record, at_ns=record.at_ns + by_ns, received_ns=record.received_ns + by_ns, answers=answers
    )


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("loads")
    names = {"full": (SPEC, 1), "half": (SPEC, 2), "quarter": (replace(SPEC, candidates=("same", "new")), 4)}
    made = {name: written(folder, replace(spec, name=name), slowly) for name, (spec, slowly) in names.items()}
    made["others"] = written(folder, replace(SPEC, name="others", candidates=("new",)))
    made["prices"] = folder / "prices.yaml"
    arms = ", ".join(f"{{name: {arm}, per_hour: 3.6, gpus: 1}}" for arm in ("control", *SPEC.candidates))
    made["prices"].write_text(f"arms: [{arms}]\n")
    return made


def told(capsys: pytest.CaptureFixture[str], command: str, *flags: object) -> dict[str, Any]:
    assert main([command, *map(str, flags), "--json"]) == 0
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


@pytest.mark.parametrize("command", ["rank", "report"])
def test_each_log_adds_its_load_to_the_curve_of_the_arms_that_it_has(
    command: str, logs: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--prices", logs["prices"], *BOUNDS)
    alone = told(capsys, command, logs["half"], *flags)
    found = told(capsys, command, logs["half"], "--also", logs["full"], "--also", logs["quarter"], *flags)
    curves = {arm: said["curve"] for arm, said in found["cost"]["arms"].items()}
    loads = {arm: [round(level["requests_per_s"], 1) for level in curve] for arm, curve in curves.items()}
    assert loads == {
        "control": [2.5, 5.0, 10.0],
        "same": [2.5, 5.0, 10.0],
        "quick": [5.0, 10.0],
        "slow": [5.0, 10.0],
    }
    assert [level["multiplier"] for level in curves["same"]] == [0.5, 1.0, 2.0]
    dear = [level["per_million"]["total"]["value"] for level in curves["same"]]
    assert dear == pytest.approx([1000.0 / (rate * 130) for rate in (2.5, 5.0, 10.0)], rel=0.01)
    # What this log says of its own load is what it says alone, and so is all the rest.
    (own,) = alone["cost"]["arms"]["same"]["curve"]
    assert {**curves["same"][1], "multiplier": 1.0} == own
    assert found["cost"]["arms"]["same"]["max_load"]["at_least"] == pytest.approx(10.0, rel=0.02)
    assert found["cost"]["slo_said"].endswith("over 3 experiments")
    assert {k: v for k, v in found.items() if k != "cost"} == {k: v for k, v in alone.items() if k != "cost"}
    assert found["cost"]["axes"] == alone["cost"]["axes"]


@pytest.mark.parametrize("command", ["rank", "report"])
def test_logs_that_do_not_belong_together_are_refused(
    command: str, logs: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    strict = written(tmp_path, replace(SPEC, name="strict", slo_ttft_ms=100.0))
    for other, why in (
        (logs["others"], "others has no candidate of half (quick, same, slow)"),
        (strict, "strict has another SLO than half: give one for both with --slo"),
    ):
        assert main([command, str(logs["half"]), "--also", str(other)]) == 2
        assert f"shadowlane {command}: {why}" in capsys.readouterr().err
    assert main([command, str(logs["half"]), "--also", str(strict), *BOUNDS]) == 0
    assert main([command, str(logs["half"]), "--also", "nowhere"]) == 1


@pytest.mark.parametrize("command", ["rank", "report"])
def test_no_pair_counts_twice(
    command: str, logs: dict[str, Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    copy = Path(shutil.copytree(logs["half"], tmp_path / "copy"))
    longer = Path(shutil.copytree(logs["full"], tmp_path / "longer"))
    with (longer / NAME).open("ab") as file:  # it went on after the copy was made
        file.write(b"the beginning of a record")
    half, full = (logs[name] / NAME for name in ("half", "full"))
    for also, twice, of in (
        ([logs["half"]], half, half),
        ([copy], copy / NAME, half),
        ([logs["full"], half], half, half),
        ([logs["full"], logs["quarter"], longer], longer / NAME, full),
    ):
        flags = [flag for one in also for flag in ("--also", str(one))]
        assert main([command, str(logs["half"]), *flags]) == 2
        assert f"shadowlane {command}: {twice} has the pairs of {of}: give each" in capsys.readouterr().err


def test_figures_of_an_arm_that_had_other_gpus_are_withheld(
    logs: dict[str, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    watched = written(tmp_path, replace(SPEC, name="watched"))
    writer = LogWriter(watched / NAME, Header(1, replace(SPEC, name="watched")))
    writer.open((watched / NAME).stat().st_size)
    gpus = [{"uuid": "GPU-1", "name": "NVIDIA H200", "power_w": 1.0, "energy_mj": 1}]
    writer.append("gpu", {"arm": "same", "at_ns": BEGIN_NS, "source": "nvml", "gpus": gpus})
    writer.close()
    found = told(capsys, "report", logs["half"], "--also", watched, "--prices", logs["prices"], *BOUNDS)
    same, slow = (found["cost"]["arms"][name] for name in ("same", "slow"))
    assert "not the same in all logs" in same["per_hour"]["withheld"]
    assert all(level["per_million"]["total"]["value"] is None for level in same["curve"])
    assert slow["per_hour"]["value"] == 3.6
