"""Why there is no figure is said once, of all figures and arms that it holds of."""

from typing import Any

from analysis.cost.rows import notes


def figure(withheld: str | None) -> dict[str, Any]:
    return {"value": None if withheld else 1.0, "lower": None, "upper": None, "withheld": withheld}


def arm(gpus: str | None, price: str | None, at: dict[float, str | None]) -> dict[str, Any]:
    return {
        "gpus": {"count": None, "names": [], "withheld": gpus},
        "per_hour": figure(price),
        "curve": [
            {
                "multiplier": load,
                "energy": {"why": None},
                "slo": {"value": None},
                **{
                    key: {"total": figure(why)}
                    for key in ("tokens_per_gpu_s", "per_million", "joules_per_token")
                },
            }
            for load, why in at.items()
        ],
    }


def test_a_reason_is_told_once_with_its_figures_and_its_arms() -> None:
    few = "too few"
    arms = {name: arm(None, None, {1.0: None, 1.5: few}) for name in ("control", "fast")}
    assert notes({"arms": arms, "axes": []}) == [
        "control, fast, tokens per gpu s at 1.5x, per million at 1.5x, joules per token at 1.5x: too few"
    ]


def test_where_no_figure_is_known_what_all_lack_is_told_and_no_single_load() -> None:
    arms = {name: arm("no GPUs", "no prices", {1.0: "few", 1.5: "fewer"}) for name in ("control", "fast")}
    assert notes({"arms": arms, "axes": []}) == [
        "control, fast, GPUs: no GPUs",
        "control, fast, price: no prices",
    ]
