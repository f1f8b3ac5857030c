"""Which SLO is meant?  One of MLPerf Inference's server limits by its name, or two bounds in ms."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from analysis.spec import ExperimentSpec

# What an arm must reach to be called within an SLO: MLPerf's limits are 99th percentiles.
TARGET: Final = 0.99


@dataclass(frozen=True, slots=True)
class Slo:
    """Upper bounds in ms, None: none."""

    ttft_ms: float | None = None
    tpot_ms: float | None = None

    def in_place_of(self, spec: ExperimentSpec) -> ExperimentSpec:
        """An experiment with these bounds instead of its own."""
        return replace(spec, slo_ttft_ms=self.ttft_ms, slo_tpot_ms=self.tpot_ms)


# p99 TTFT and TPOT of the Server and Interactive scenarios: loadgen/mlperf.conf of mlcommons/inference
# at b66003e1.
PRESETS: Final[Mapping[str, Slo]] = {
    "llama2-70b": Slo(2000.0, 200.0),
    "llama2-70b-interactive": Slo(450.0, 40.0),
    "mixtral": Slo(2000.0, 200.0),
    "llama3.1-405b": Slo(6000.0, 175.0),
    "llama3.1-405b-interactive": Slo(4500.0, 80.0),
    "llama3.1-8b": Slo(2000.0, 100.0),
    "llama3.1-8b-interactive": Slo(500.0, 30.0),
    "deepseek-r1": Slo(2000.0, 80.0),
    "deepseek-r1-interactive": Slo(1500.0, 15.0),
    "gpt-oss-120b": Slo(3000.0, 80.0),
    "gpt-oss-120b-interactive": Slo(2000.0, 15.0),
}


def parse_slo(text: str) -> Slo:
    """`llama2-70b`, or `ttft=450,tpot=40` in ms, either of them alone.  ValueError says what would do."""
    if (preset := PRESETS.get(text.strip())) is not None:
        return preset
    bounds: dict[str, float] = {}
    for part in text.split(","):
        name, _, number = (one.strip() for one in part.partition("="))
        try:
            bound = float(number)
        except ValueError:
            bound = 0.0
        if name not in ("ttft", "tpot") or name in bounds or not 0.0 < bound < float("inf"):
            raise ValueError(
                f"--slo {text!r}: write bounds in ms, as in ttft=450,tpot=40, or a limit of MLPerf's:"
                f" {', '.join(PRESETS)}"
            )
        bounds[name] = bound
    return Slo(bounds.get("ttft"), bounds.get("tpot"))
