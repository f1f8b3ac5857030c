"""What is kept of a pair of answers?  Measures only: no text survives."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter
from typing import Any, Literal

import msgspec

from analysis.aligned import Parting, partings
from analysis.asked import Asked, read_asked
from analysis.metrics._choose import LOGPROB_METRICS, every_metric
from analysis.metrics._prefix import compared_tokens
from analysis.readers._choose import reader_of
from analysis.scores import scores_of
from analysis.strip import strip_of
from analysis.timing import timing_and_gaps_ms
from analysis.tokenizer import Count, counted
from analysis.transcript import Choice, Content, Transcript

Latency = Literal["ttft", "visible", "itl", "tpot", "e2e"]
LATENCIES: tuple[Latency, ...] = ("ttft", "visible", "itl", "tpot", "e2e")
Read = tuple[Mapping[str, Any], Transcript]  # one answer of a pair's frame, and what was read of it

# Finish reasons are the engine's own strings, and those are kept only where they are known words.
_REASONS = (
    {"stop", "length", "tool_calls", "function_call", "content_filter", "abort", "error", "cancelled"}
    | {"end_turn", "max_tokens", "stop_sequence", "tool_use", "refusal"}
    | {"completed", "incomplete", "max_output_tokens"}
    | {"limit", "eos", "word", "eos_token"}
)


class AnswerMeasure(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One arm's answer as numbers: latencies in ms, None where missing; `fault` None when it succeeded.

    `visible_ms` is its first token that is no reasoning, `role_ms` its first event of any kind, `usage_ms`
    its counts of tokens; all from when it was sent.

    A Struct, as `PairRecord` is, for a log of a million is read several times as fast as into dataclasses.
    The log has the fields' values in their order: a new field comes last, and has a default.
    """

    arm: str
    twin: int
    order: int
    sent_ns: int
    end_ns: int
    status: int | None
    fault: str | None
    streamed: bool
    ttft_ms: float | None
    ttft_user_ms: float | None
    itl_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    prompt_tokens: int | None
    completion_tokens: int | None
    cached_tokens: int | None
    token_source: str | None
    finish_reason: str | None
    forced: bool | None = None  # whether it decoded the tokens it was told to; None: it was told none
    arrival_tokens: float | None = None  # how many come at a time
    more_reasons: tuple[str | None, ...] = ()  # the finish reasons of the choices after the first
    strip: bytes = b""  # when its tokens came (analysis.strip)
    visible_ms: float | None = None
    role_ms: float | None = None
    usage_ms: float | None = None

    def latency_ms(self, latency: Latency) -> float | None:
        """One of them, by its name."""
        return _LATENCY_MS[latency](self)

    def fault_of(self, latency: Latency) -> str | None:
        """Why it has no such latency where it ought to: its fault, or reasoning that never came to text."""
        if self.fault is None and latency == "visible" and self.visible_ms is None:
            return None if self.ttft_ms is None else "never_visible"
        return self.fault


_LATENCY_MS: Mapping[str, Callable[[AnswerMeasure], float | None]] = {
    latency: attrgetter(f"{latency}_ms") for latency in LATENCIES
}


# All of them, in the order of LATENCIES.
latencies_ms: Callable[[AnswerMeasure], tuple[float | None, ...]] = attrgetter(
    *(f"{latency}_ms" for latency in LATENCIES)
)


class PairRecord(msgspec.Struct, frozen=True, array_like=True):
    """One pair as measures.

    `outputs` holds, for each arm compared with the control's twin 0, the scores of the metrics that had
    something to compare. In the calibration that is the control's twin 1, named "control": the floor.
    `compared_tokens`: for each of them, how many tokens of a choice could have been the first to differ.
    `partings`: for each of them, where its choices part from the control's.
    `mark`: why the pair is kept and not judged (warm_up, drain). `duplicate`: which copy of its request,
    where each is sent more than once. `production_sent_ns`: when production was asked. `block`: where arms
    take turns, the two slots it is of; `shifts`: by how many ns an arm's slot was later than the control's.
    """

    experiment: str
    id: str
    phase: str
    at_ns: int
    received_ns: int
    root: int
    turn: int
    answers: tuple[AnswerMeasure, ...]
    production: AnswerMeasure | None
    outputs: dict[str, dict[str, float]]
    mark: str | None = None
    duplicate: int = 0
    production_sent_ns: int | None = None
    block: int | None = None
    shifts: dict[str, int] = {}
    compared_tokens: dict[str, float] = {}
    partings: dict[str, tuple[Parting, ...]] = {}

    def answer(self, arm: str, twin: int = 0) -> AnswerMeasure | None:
        """The answer of one arm, None if the pair has none."""
        for answer in self.answers:
            if answer.arm == arm and answer.twin == twin:
                return answer
        return None


def measure(pair: Mapping[str, Any], count: Count | None = None) -> PairRecord:
    """The measures of one ["pair", ...] frame. No answer of an engine raises; KeyError if it is no frame.

    `count` tells the tokens of a text, where no engine says how many there are.
    """
    if pair.get("scored") is not None:
        return _scored(pair)
    path, received_ns = pair["path"], pair["received_ns"]
    asked = read_asked(pair.get("asked") or {})
    read = [(answer, transcript_of(answer, path, received_ns, asked, count)) for answer in pair["answers"]]
    shown = pair.get("production")
    production = None if shown is None else (shown, transcript_of(shown, path, received_ns, count=count))
    return measured(pair, read, production)


def measured(pair: Mapping[str, Any], read: Sequence[Read], production: Read | None) -> PairRecord:
    """The measures of a pair whose answers were read: of each what its frame says, and its transcript."""
    compared = _compared(read, calibration=pair["phase"] == "calibration")
    return PairRecord(
        experiment=pair["experiment"],
        id=str(pair["id"]),
        phase=pair["phase"],
        at_ns=pair["at_ns"],
        received_ns=pair["received_ns"],
        root=pair["root"],
        turn=pair["turn"],
        answers=tuple(_measure(answer, transcript) for answer, transcript in read),
        production=None if production is None else _measure(*production),
        outputs={arm: scores(*both) for arm, both in compared.items()},
        mark=pair.get("mark"),
        duplicate=pair.get("duplicate", 0),
        production_sent_ns=pair.get("production_sent_ns"),
        block=pair.get("block"),
        shifts=dict(pair.get("shifts", {})),
        compared_tokens={
            arm: n for arm, both in compared.items() if (n := compared_tokens(*both)) is not None
        },
        partings={arm: partings(*both) for arm, both in compared.items()},
    )


def _scored(pair: Mapping[str, Any]) -> PairRecord:
    """Of a pair in which the same tokens were scored: distances alone, the control's own as "control"."""
    tokens, answers = pair["scored"], []
    found: dict[tuple[str, int], Content] = {}
    for answer in pair["answers"]:
        arm, twin, status = answer["arm"], answer.get("twin", 0), answer["status"]
        fault: str | None = str(answer["ending"]).lower()
        if fault == "complete":
            told = scores_of(b"".join(data for _, data in answer["reads"]), tokens) if status == 200 else None
            fault = None if told is not None else "not scored" if status == 200 else f"status {status}"
            if told is not None:
                found[arm, twin] = Content(choices=(Choice(0, logprobs=told),))
        answers.append(_untimed(answer, arm, twin, fault))
    control = found.pop(("control", 0), None)
    compared = {} if control is None else {arm: (control, other) for (arm, _), other in found.items()}
    return PairRecord(
        experiment=pair["experiment"],
        id=str(pair["id"]),
        phase=pair["phase"],
        at_ns=pair["at_ns"],
        received_ns=pair["received_ns"],
        root=pair["root"],
        turn=pair["turn"],
        answers=tuple(answers),
        production=None,
        outputs={arm: scores(*both, LOGPROB_METRICS) for arm, both in compared.items()},
        mark=pair.get("mark"),
        duplicate=pair.get("duplicate", 0),
    )


def _untimed(answer: Mapping[str, Any], arm: str, twin: int, fault: str | None) -> AnswerMeasure:
    return AnswerMeasure(
        arm=arm, twin=twin, order=answer.get("order", 0), sent_ns=answer["sent_ns"], end_ns=answer["end_ns"],
        status=answer["status"], fault=fault, streamed=False, ttft_ms=None, ttft_user_ms=None, itl_ms=None,
        tpot_ms=None, e2e_ms=None, prompt_tokens=None, completion_tokens=None, cached_tokens=None,
        token_source=None, finish_reason=None,
    )  # fmt: skip


def transcript_of(
    answer: Mapping[str, Any],
    path: str,
    received_ns: int,
    asked: Asked | None = None,
    count: Count | None = None,
) -> Transcript:
    """One answer of a pair's frame, read. No answer of an engine raises."""
    reader = reader_of(path)
    for at_ns, data in answer["reads"]:
        reader.feed(data, at_ns)
    content = replace(reader.end(answer["end_ns"]), asked=asked)
    return Transcript(
        received_ns=received_ns,
        sent_ns=answer["sent_ns"],
        head_ns=answer["head_ns"],
        end_ns=answer["end_ns"],
        status=answer["status"],
        ending=str(answer["ending"]).lower(),
        content=content if count is None else counted(content, count),
    )


def _measure(answer: Mapping[str, Any], transcript: Transcript) -> AnswerMeasure:
    (clock, gaps_ms), content = timing_and_gaps_ms(transcript), transcript.content
    reasons = [_known(choice.finish_reason) for choice in content.choices]
    return AnswerMeasure(
        arm=answer["arm"],
        twin=answer.get("twin", 0),
        order=answer.get("order", 0),
        sent_ns=transcript.sent_ns,
        end_ns=transcript.end_ns,
        status=transcript.status,
        fault=transcript.fault,
        streamed=content.streamed,
        ttft_ms=clock.ttft_ms,
        ttft_user_ms=clock.ttft_user_ms,
        itl_ms=clock.itl_ms,
        tpot_ms=clock.tpot_ms,
        e2e_ms=clock.e2e_ms,
        prompt_tokens=content.prompt_tokens,
        completion_tokens=content.completion_tokens,
        cached_tokens=content.cached_tokens,
        token_source=content.token_source,
        finish_reason=reasons[0] if reasons else None,
        forced=answer.get("forced"),
        arrival_tokens=clock.arrival_tokens,
        more_reasons=tuple(reasons[1:]),
        strip=strip_of(gaps_ms),
        visible_ms=clock.visible_ms,
        role_ms=clock.role_ms,
        usage_ms=clock.usage_ms,
    )


def _known(reason: str | None) -> str | None:
    return reason if reason is None or reason in _REASONS else "other"


def _compared(read: Sequence[Read], *, calibration: bool) -> dict[str, tuple[Content, Content]]:
    """The control's twin 0 and every arm, where both succeeded; when calibrating, its twin 1."""
    twins = {(answer["arm"], answer.get("twin", 0)): transcript for answer, transcript in read}
    control = twins.get(("control", 0))
    if control is None or control.fault is not None:
        return {}
    if calibration:
        others = {"control": twins.get(("control", 1))}
    else:
        others = {arm: found for (arm, twin), found in twins.items() if arm != "control" and twin == 0}
    return {
        arm: (control.content, other.content)
        for arm, other in others.items()
        if other is not None and other.fault is None
    }


def scores(control: Content, other: Content, names: Sequence[str] | None = None) -> dict[str, float]:
    """Every comparison that these two answers allow, or those of these names."""
    metrics = every_metric()
    found = {name: metrics[name].score(control, other) for name in names or metrics}
    return {name: score for name, score in found.items() if score is not None}
