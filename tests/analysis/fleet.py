"""Pairs made up for tests: answers with known latencies as the shadow would report them, and as measures."""

import json
from collections.abc import Mapping
from random import Random
from typing import Any

from analysis.measure import AnswerMeasure, PairRecord

MS = 1_000_000


def chat_stream(
    words: list[str], finish: str | None = "stop", usage: Mapping[str, Any] | None = None
) -> list[bytes]:
    """The events of a chat completion, one bytes object an event: role, words, finish, usage, [DONE]."""

    def chunk(delta: Mapping[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return b"data: " + json.dumps({"choices": [choice]}).encode() + b"\n\n"

    events = [chunk({"role": "assistant", "content": ""}), *(chunk({"content": word}) for word in words)]
    if finish is not None:
        events.append(chunk({}, finish))
    if usage is not None:
        events.append(b"data: " + json.dumps({"choices": [], "usage": usage}).encode() + b"\n\n")
    return [*events, b"data: [DONE]\n\n"]


def answer_frame(
    arm: str, sent_ns: int, ttft_ms: float, itl_ms: float, words: list[str], **more: Any
) -> dict[str, Any]:
    """One answer of a ["pair", ...] frame that streams these words at this pace."""
    events = chat_stream(words, usage={"prompt_tokens": 20, "completion_tokens": len(words)})
    reads: list[list[Any]] = [[sent_ns + MS, events[0]]]
    for number, event in enumerate(events[1:]):
        reads.append([sent_ns + int((ttft_ms + number * itl_ms) * MS), event])
    return {
        "arm": arm,
        "twin": 0,
        "order": 0,
        "sent_ns": sent_ns,
        "head_ns": sent_ns + MS,
        "status": 200,
        "content_type": "text/event-stream",
        "reads": reads,
        "end_ns": reads[-1][0],
        "ending": "complete",
        **more,
    }


def pair_frame(
    answers: list[dict[str, Any]], phase: str = "live", at_ns: int = 0, **more: Any
) -> dict[str, Any]:
    """A ["pair", ...] frame."""
    return {
        "experiment": "trial",
        "id": "p1",
        "phase": phase,
        "at_ns": at_ns,
        "received_ns": at_ns,
        "path": "/v1/chat/completions",
        "stream": True,
        "root": 1,
        "turn": 0,
        "answers": answers,
        "production": None,
        **more,
    }


def answer_measure(arm: str, at_ns: int, scale: float = 1.0, **more: Any) -> AnswerMeasure:
    """An answer of 30 tokens in about 0.8 s, `scale` times as slow."""
    values: dict[str, Any] = {
        "arm": arm,
        "twin": 0,
        "order": 0,
        "sent_ns": at_ns,
        "end_ns": at_ns + 800 * MS,
        "status": 200,
        "fault": None,
        "streamed": True,
        "ttft_ms": 200.0 * scale,
        "ttft_user_ms": 201.0 * scale,
        "itl_ms": 20.0 * scale,
        "tpot_ms": 20.0 * scale,
        "e2e_ms": 800.0 * scale,
        "prompt_tokens": 100,
        "completion_tokens": 30,
        "cached_tokens": 50,
        "token_source": "usage",
        "finish_reason": "stop",
        "arrival_tokens": 1.0,
        "visible_ms": 200.0 * scale,
    }
    return AnswerMeasure(**{**values, **more})


def pair_record(
    number: int,
    scales: Mapping[str, float],
    *,
    phase: str = "live",
    gap_ms: float = 100.0,
    rng: Random,
    **more: Any,
) -> PairRecord:
    """Pair `number` of a steady stream, each arm (and the control) at its own pace."""
    at_ns = 10**12 + int(number * gap_ms * MS)
    arms = ["control", *scales]
    order = rng.sample(range(len(arms)), len(arms))
    twins = (0, 1) if phase == "calibration" else (0,)
    noise = {(arm, twin): rng.gauss(0, 0.05) for arm in arms for twin in twins}
    answers = tuple(
        answer_measure(
            arm,
            at_ns + place * MS,
            scales.get(arm, 1.0) * 2.718281828 ** noise[arm, twin],
            twin=twin,
            order=place,
        )
        for arm, place in zip(arms, order, strict=True)
        for twin in twins
    )
    same = {
        "exact_match": 1.0,
        "first_divergence": 0.0,
        "edit_similarity": 1.0,
        "length_ratio": 0.0,
        "finish_reason": 1.0,
    }
    compared = ["control"] if phase == "calibration" else list(scales)
    if phase == "calibration" and number % 20 == 10:
        same["first_divergence"] = 1e-6  # else it goes on, to see answers of the control that differ
    values: dict[str, Any] = {
        "experiment": "trial",
        "id": f"p{number}",
        "phase": phase,
        "at_ns": at_ns,
        "received_ns": at_ns,
        "root": number,
        "turn": 0,
        "answers": answers,
        "production": answer_measure("production", at_ns),
        "outputs": {arm: dict(same) for arm in compared},
    }
    return PairRecord(**{**values, **more})
