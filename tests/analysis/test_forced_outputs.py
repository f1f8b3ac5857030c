"""Distributions over the control's own tokens, as the forced phase compares them."""

import json
from math import log
from typing import Any

import pytest

from analysis.forced import ForcedPhase
from analysis.measure import measure
from analysis.stats.windows import Windows
from tests.analysis.fleet import MS, pair_frame

PATH = "/inference/v1/generate"


def answer(arm: str, at_ns: int, logprob: float) -> dict[str, Any]:
    """Four tokens, each of this logprob with one alternative, one event a token."""
    reads: list[list[Any]] = []
    for n in range(4):
        place = {
            "token": f"token_id:{n}",
            "logprob": logprob,
            "top_logprobs": [{"token": f"token_id:{n}", "logprob": logprob}, {"token": "x", "logprob": -3.0}],
        }
        choice = {
            "index": 0,
            "token_ids": [n],
            "logprobs": {"content": [place]},
            "finish_reason": "length" if n == 3 else None,
        }
        event = b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"
        reads.append([at_ns + (10 + 10 * n) * MS, event])
    return {
        "arm": arm, "twin": 0, "order": 0, "sent_ns": at_ns, "head_ns": at_ns + MS, "status": 200,
        "content_type": "text/event-stream", "reads": reads, "end_ns": reads[-1][0], "ending": "complete",
        "forced": True,
    }  # fmt: skip


def test_what_is_forced_is_compared_token_by_token_in_nats() -> None:
    windows = Windows(10**9, 10**9)
    phase = ForcedPhase(10_000, ["quick"], windows, alpha=0.05, margin=0.03)
    for n in range(200):
        at_ns = n * 100 * MS
        arms = [answer("control", at_ns, log(0.5)), answer("quick", at_ns, log(0.4))]
        phase.add(measure(pair_frame(arms, phase="forced", at_ns=at_ns, path=PATH)))
    outputs = phase.show()["outputs"]["quick"]
    r = 0.4 / 0.5
    assert outputs["kl_k3"]["value"] == pytest.approx(r - 1 - log(r))
    assert outputs["logprob_gap"]["value"] == pytest.approx(0.5 / 0.4)
    assert outputs["flips"]["value"] == 0.0
    assert 0.0 < outputs["kl_top"]["value"] < 0.05
