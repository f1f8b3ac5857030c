"""`shadowlane rank` says what arms cost: from a log as it is written, in every form."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
from msgspec.structs import replace as changed

from analysis.measure import PairRecord
from analysis.store import NAME, Header, LogWriter
from gateway.cli import main
from tests.analysis.cost.recordings import S, gpu
from tests.analysis.trials import CALIBRATION, SPEC, records

EVIL = "<b>|q*"
WATTS = {"control": 500.0, EVIL: 450.0, "same": 500.0, "slow": 600.0}
BEGIN_NS = 10**12


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three candidates at ten requests a second, each on a GPU that is read every second."""
    folder = tmp_path_factory.mktemp("cost") / "trial"
    spec = replace(SPEC, candidates=(EVIL, "same", "slow"))
    writer = LogWriter(folder / NAME, Header(1, spec))
    writer.open()
    second = 0
    for record in records(1500):
        while BEGIN_NS + second * S <= record.at_ns:
            for arm, watts in WATTS.items():
                told = [gpu(second, watts, 1000 + watts * second, f"GPU-{arm}")]
                body = {"arm": arm, "at_ns": BEGIN_NS + second * S, "source": "nvml", "gpus": told}
                writer.append("gpu", body)
                writer.append("engine", counts(arm, second))
            second += 1
        writer.append("pair", _renamed(record))
    writer.close()
    return folder


def counts(arm: str, second: int) -> dict[str, object]:
    """An engine that decodes for twenty at a time; the slow one has too little room and preempts."""
    said = {"kind": "vllm", "running": 20.0, "queued": 0.0, "kv_usage": 0.4, "preemptions": 0.0}
    if arm == "slow":
        said |= {"queued": 5.0, "kv_usage": 0.99, "preemptions": 3.0 * second}
    tokens = {"steps": 50.0 * second, "computed_tokens": 10.0 * second, "generated_tokens": 990.0 * second}
    instants = {"at_ns": BEGIN_NS + second * S, "busy_ns": 21 * second * S, "late_ms": 0.5}
    return {"arm": arm, **instants, "said": said | tokens}


def _renamed(record: PairRecord) -> PairRecord:
    answers = tuple(changed(a, arm=EVIL) if a.arm == "quick" else a for a in record.answers)
    outputs = {EVIL if arm == "quick" else arm: scores for arm, scores in record.outputs.items()}
    return changed(record, answers=answers, outputs=outputs)


@pytest.fixture
def prices(tmp_path: Path) -> Path:
    path = tmp_path / "prices.yaml"
    path.write_text("gpus: {H200: 3.6}\narms: [{name: slow, per_hour: 1.8}]\n")
    return path


def said(capsys: pytest.CaptureFixture[str], *flags: object) -> tuple[int, str]:
    status = main(["rank", *map(str, flags)])
    return status, capsys.readouterr().out


def test_every_form_tells_what_a_token_costs_at_the_slo(
    log: Path, prices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (log, "--prices", prices, "--slo", "ttft=350,tpot=35", "--html", tmp_path / "page.html")
    status, out = said(capsys, *flags, "--json")
    found = json.loads(out)
    cost = found["cost"]
    same = cost["arms"]["same"]
    per_s = same["curve"][0]["requests_per_s"] * 130
    assert status == 0 and cost["schema"] == 1 and same["at_slo"] == 0
    assert same["curve"][0]["per_million"]["total"]["value"] == pytest.approx(1000.0 / per_s)
    assert same["curve"][0]["joules_per_token"]["total"]["value"] == pytest.approx(500.0 / per_s, rel=1e-3)
    assert found["front"]["axes"] == ["cost", "energy"]
    # The slow arm is half as dear, so nothing beats it with certainty; without prices the quick one does.
    assert found["front"]["on"] == [EVIL, "slow"]
    assert json.loads(said(capsys, log, "--json")[1])["front"]["beaten_by"].keys() >= {
        "control",
        "same",
        "slow",
    }
    _, text = said(capsys, *flags)
    assert "cost at the SLO: TTFT ≤ 350 ms and TPOT ≤ 35 ms for 99% of answers" in text
    assert "the SLO: at the 10 requests/s it had (1x) at most 0.769 USD per million tokens" in text
    _, markdown = said(capsys, *flags, "--markdown")
    assert "**Cost** at the SLO" in markdown and "<b>" not in markdown
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Cost</h2>" in page and "<polygon" in page and "<b>|q" not in page and "<script" not in page
    assert "http://" not in page and "https://" not in page


def test_every_form_tells_what_limits_each_arm_how_certain_that_is_and_what_to_try(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = (log, "--html", tmp_path / "page.html")
    why = json.loads(said(capsys, *flags, "--json")[1])["why"]
    slow, same = why["slow"], why["same"]
    assert (slow["cause"], slow["strength"], slow["kind"]) == ("kv_capacity", "measured", "vllm")
    assert slow["signals"]["kv_usage"] == pytest.approx(0.99) and slow["shares"] == {"kv_capacity": 1.0}
    assert slow["try"][0]["flag"] == "--kv-cache-dtype fp8" and slow["not_ruled_out"] == []
    # The GPUs' readings tell nothing of kernels, so that the rest is inferred from the tokens of a step.
    assert (same["cause"], same["strength"]) == ("memory_bandwidth", "inferred")
    assert same["not_ruled_out"] == ["cpu", "compute"] and any(
        "gpus or dcgm" in one for one in same["lacking"]
    )
    assert len(same["course"]) == same["spans"] >= 3
    _, text = said(capsys, *flags)
    assert "untested on hardware" in text and "slow, try --kv-cache-dtype fp8:" in text
    assert "same, if that is so, try --quantization fp8:" in text
    _, markdown = said(capsys, *flags, "--markdown")
    assert "**Why**" in markdown and "room in the KV cache" in markdown and "<b>" not in markdown
    page = (tmp_path / "page.html").read_text()
    assert "<h2>Why</h2>" in page and "<b>|q" not in page


def test_without_prices_or_slo_the_figures_are_withheld_and_it_is_said_how_to_get_them(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, text = said(capsys, log)
    arms = f"control, {EVIL}, same, slow"
    assert f"{arms}, price: no prices are known: give a price file with --prices" in text
    assert f"{arms}: no cost at the SLO: no SLO is set: set experiments[].slo, or give --slo" in text
    assert "nothing beats, with certainty" in text and "cost, compared between arms: no prices" in text


def test_a_weight_of_cost_decides_as_the_other_weights_do(
    log: Path, prices: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    by_cost = (log, "--prices", prices, "--slo", "ttft=350,tpot=35", "--weight", "cost=1", "--accept-outputs")
    found = json.loads(said(capsys, *by_cost, "--json")[1])
    # The slow arm costs half, and is slower by less than the SLO leaves room for.
    assert (found["answer"], found["winner"]["name"]) == ("WINNER", "slow")
    assert found["weights"] == {"cost": 1.0} and found["winner"]["fresh"]["cost"]["ratio"] < 0.6
    assert found["scores"][EVIL]["ratio"] == pytest.approx(1.0, abs=0.05)
    assert found["gates"]["slow"][0]["name"] == "comparison"
    assert found["front"]["on"] == [EVIL, "slow"] and found["front"]["axes"] == ["cost", "energy"]
    both = json.loads(said(capsys, *by_cost, "--weight", "tpot=9", "--json")[1])
    assert (both["answer"], both["winner"]["name"]) == ("WINNER", EVIL)
    assert list(both["winner"]["fresh"]) == ["cost", "tpot"]
    _, text = said(capsys, *by_cost, "--html", tmp_path / "page.html")
    assert "slow wins: cost -5" in text and "score: cost 1;" in text
    _, markdown = said(capsys, *by_cost, "--markdown")
    assert "| cost vs control |" in markdown
    assert "cost vs control" in (tmp_path / "page.html").read_text()


def test_energy_may_be_weighed_without_prices(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, log, "--weight", "energy=1", "--accept-outputs", "--json")[1])
    assert found["answer"] == "WINNER" and found["winner"]["name"] == EVIL
    assert found["winner"]["fresh"]["energy"]["ratio"] == pytest.approx(0.9, abs=0.01)


@pytest.mark.parametrize(
    ("flags", "why"),
    [
        (("--weight", "cost=1"), "cost is not known: no prices are known: give a price file with --prices"),
        (("--weight", "price=1"), "write a measure (ttft, visible, itl, tpot, e2e, cost, energy)"),
        (("--slo", "llama"), "llama2-70b"),
        (("--prices", "/nowhere/prices.yaml"), "found no such file"),
    ],
)
def test_a_flag_that_is_wrong_ends_with_2_and_says_what_would_do(
    log: Path, flags: tuple[str, ...], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rank", str(log), *flags]) == 2
    assert why in capsys.readouterr().err


def test_a_weight_of_cost_where_a_price_is_missing_says_which(
    log: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "prices.yaml"
    path.write_text("gpus: {H100: 3.6}\n")
    assert main(["rank", str(log), "--weight", "cost=2", "--prices", str(path)]) == 2
    told = capsys.readouterr().err
    assert f"--weight cost=2: cost is not known: control: {path} has no price of 'NVIDIA H200'" in told


def test_the_report_tells_the_same_of_cost_and_of_limits_in_every_form(
    log: Path, prices: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    flags = ("--prices", prices, "--slo", "ttft=350,tpot=35")
    page = tmp_path / "page.html"

    def reported(*more: object) -> str:
        assert main(["report", *map(str, (log, *flags, *more))]) == 0
        return capsys.readouterr().out

    out = reported("--json")
    told, decided = json.loads(out), json.loads(said(capsys, log, *flags, "--json")[1])
    assert told["cost"] == decided["cost"] and told["why"] == decided["why"]
    assert out == reported("--json")
    text = reported("--html", page)
    assert "the SLO: at the 10 requests/s it had (1x) at most 0.769 USD per million tokens" in text
    own = "same, against the control, over all of this experiment's load, a request answered within the SLO:"
    assert f"{own} cost +0.0 %" in text
    assert "slow, try --kv-cache-dtype fp8:" in text and "untested on hardware" in text
    shown = page.read_text()
    assert "<h2>Cost</h2>" in shown and "<h2>Why</h2>" in shown and "room in the KV cache" in shown
    assert "<b>|q" not in shown and "<script" not in shown and "http://" not in shown
    assert main(["report", str(log)]) == 0
    assert "price: no prices are known" in capsys.readouterr().out
    assert main(["report", str(log), "--slo", "llama"]) == 2
    assert "shadowlane report: --slo 'llama': write bounds in ms" in capsys.readouterr().err


def test_the_calibration_is_no_part_of_any_figure(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    found = json.loads(said(capsys, log, "--json")[1])
    seconds = found["cost"]["arms"]["control"]["curve"][0]["seconds"]
    assert seconds <= 150.0 and CALIBRATION == 201
