"""Which metrics compare the outputs?"""

from analysis.metrics import (
    edit_similarity,
    exact_match,
    finish_reason,
    first_divergence,
    length_ratio,
    tool_calls,
)
from analysis.metrics._metric import Metric


def every_metric() -> dict[str, Metric]:
    """Every metric by its name, with default parameters."""
    return {
        "exact_match": exact_match.build(exact_match.Params()),
        "first_divergence": first_divergence.build(first_divergence.Params()),
        "edit_similarity": edit_similarity.build(edit_similarity.Params()),
        "length_ratio": length_ratio.build(length_ratio.Params()),
        "finish_reason": finish_reason.build(finish_reason.Params()),
        "tool_calls": tool_calls.build(tool_calls.Params()),
    }
