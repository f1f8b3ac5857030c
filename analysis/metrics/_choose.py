"""Which metrics compare the outputs?"""

from functools import cache

from analysis.metrics import (
    edit_similarity,
    exact_match,
    final_number,
    finish_reason,
    first_divergence,
    flips,
    garbage,
    json_valid,
    kl_k3,
    kl_top,
    language,
    length_ratio,
    logprob_gap,
    loop,
    refusal,
    schema_valid,
    structured_fields,
    tool_calls,
    tools_valid,
)
from analysis.metrics._metric import Metric

_SURE_NATS = 0.2


LOGPROB_METRICS = ("logprob_gap", "kl_k3", "kl_top", "flips", "flips_when_sure")


@cache
def every_metric() -> dict[str, Metric]:
    """Every metric by its name, with default parameters, in the order in which they are shown."""
    return {
        "exact_match": exact_match.build(exact_match.Params()),
        "first_divergence": first_divergence.build(first_divergence.Params()),
        "edit_similarity": edit_similarity.build(edit_similarity.Params()),
        "length_ratio": length_ratio.build(length_ratio.Params()),
        "finish_reason": finish_reason.build(finish_reason.Params()),
        "tool_calls": tool_calls.build(tool_calls.Params()),
        "tools_valid": tools_valid.build(tools_valid.Params()),
        "structured_fields": structured_fields.build(structured_fields.Params()),
        "json_valid": json_valid.build(json_valid.Params()),
        "schema_valid": schema_valid.build(schema_valid.Params()),
        "final_number": final_number.build(final_number.Params()),
        "refusal": refusal.build(refusal.Params()),
        "loop": loop.build(loop.Params()),
        "garbage": garbage.build(garbage.Params()),
        "language": language.build(language.Params()),
        "logprob_gap": logprob_gap.build(logprob_gap.Params()),
        "kl_k3": kl_k3.build(kl_k3.Params()),
        "kl_top": kl_top.build(kl_top.Params()),
        "flips": flips.build(flips.Params()),
        "flips_when_sure": flips.build(flips.Params(_SURE_NATS)),
    }
