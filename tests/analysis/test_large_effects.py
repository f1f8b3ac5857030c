"""An effect beyond a factor of four is shown as large as it is, with an interval that holds it."""

from analysis.spec import ExperimentSpec
from tests.analysis.trials import altered, named, ranked, records


def test_eight_times_as_slow_is_shown_as_eight_times_and_within_its_interval() -> None:
    spec = ExperimentSpec("trial", "fleet", ("same",), calibration_s=20.0, calibration_pairs=100)
    slow = {"ttft_ms": 1600.0, "visible_ms": 1600.0, "itl_ms": 160.0, "tpot_ms": 160.0, "e2e_ms": 6400.0}
    for verdict in named(ranked(records(600, lambda r: altered(r, "same", **slow)), spec), "same")[
        "verdicts"
    ].values():
        assert verdict["label"] == "SLOWER"
        assert verdict["lower"] < 8.0 < verdict["upper"]
