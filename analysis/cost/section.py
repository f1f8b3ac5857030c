"""Everything that is said of cost in one place: the SLO it holds for, each arm's figures, and the axes."""

from collections.abc import Sequence
from typing import Any

from analysis.cost.axes import Axis
from analysis.cost.figures import Recorded, arm_cost
from analysis.cost.presets import TARGET
from analysis.cost.rows import compared, notes, slo_words, summary
from analysis.spec import ExperimentSpec

# Stamped, for figures of the same name have changed their meaning in other tools.
SCHEMA = 1


def section(recorded: Recorded, spec: ExperimentSpec, found: Sequence[Axis]) -> dict[str, Any]:
    """The figures of all arms, JSON-able; `found` are the axes by which they are compared.

    `said` are the figures in sentences, `notes` why others are withheld or in doubt.
    """
    alpha = spec.alpha / max(1, len(spec.candidates))
    cost = {
        "schema": SCHEMA,
        "currency": None if recorded.prices is None else recorded.prices.currency,
        "experiments": 1 + len(recorded.more),
        "prices": None if recorded.prices is None else recorded.prices.source,
        "slo": {"ttft_ms": spec.slo_ttft_ms, "tpot_ms": spec.slo_tpot_ms, "target": TARGET},
        "arms": {arm: arm_cost(recorded, arm) for arm in ("control", *spec.candidates)},
        "axes": [axis.show(alpha) for axis in found],
    }
    return {
        **cost,
        "slo_said": slo_words(cost),
        "said": [*summary(cost), *compared(cost)],
        "notes": notes(cost),
    }
