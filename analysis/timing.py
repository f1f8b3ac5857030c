"""How fast was an answer?  TTFT, ITL, TPOT and E2E of one transcript; missing is None, never 0."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from analysis.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer's latencies in ms.

    TTFT: first token - sent (`ttft_user_ms`: - received). ITL: the median gap between arrivals of tokens.
    TPOT: (last - first) / (N - n1), with N completion tokens and n1 in the first arrival; of several choices
    the sums of both. E2E: last token - sent; for an answer in one piece its last byte. `arrival_tokens`: how
    many tokens come at a time after the first arrival, where ITL is the gap between more than single ones.
    `visible_ms`: first token that is no reasoning - sent. `role_ms`, `usage_ms`: the first event of any kind,
    and the one with the counts of tokens, - sent.
    """

    ttft_ms: float | None
    ttft_user_ms: float | None
    itl_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None
    arrival_tokens: float | None
    visible_ms: float | None
    role_ms: float | None
    usage_ms: float | None


@dataclass(slots=True)
class _Arrivals:
    """One choice's token events: the instants at which any came, each once, and the tokens of the first."""

    instants_ns: list[int]
    first_tokens: int

    @property
    def span_ns(self) -> int:
        return self.instants_ns[-1] - self.instants_ns[0]


def gaps_ms(transcript: Transcript) -> list[float]:
    """The raw gaps between arrivals, choice by choice. Events of one read arrived together: no gap."""
    return [gap for one in _choices(transcript) for gap in _gaps_ms(one)]


def timing(transcript: Transcript) -> Timing:
    """The latencies of one answer, whether or not it failed."""
    first, last = transcript.first_token_ns, transcript.last_token_ns
    choices = _choices(transcript)
    gaps = [gap for one in choices for gap in _gaps_ms(one)]
    total = transcript.content.completion_tokens
    span_ns = sum(one.span_ns for one in choices)
    later = 0 if total is None else total - sum(one.first_tokens for one in choices)
    return Timing(
        ttft_ms=_ms(transcript.sent_ns, first),
        ttft_user_ms=_ms(transcript.received_ns, first),
        itl_ms=median(gaps) if gaps else None,
        tpot_ms=span_ns / 1e6 / later if span_ns and later > 0 else None,
        e2e_ms=_ms(transcript.sent_ns, last),
        arrival_tokens=later / len(gaps) if gaps and later > 0 else None,
        visible_ms=_ms(transcript.sent_ns, transcript.first_visible_ns),
        role_ms=_ms(transcript.sent_ns, transcript.content.role_ns),
        usage_ms=_ms(transcript.sent_ns, transcript.content.usage_ns),
    )


def _choices(transcript: Transcript) -> list[_Arrivals]:
    found: dict[int, _Arrivals] = {}
    for event in transcript.content.token_events:  # in the order in which they came
        arrivals = found.get(event.choice)
        if arrivals is None:
            found[event.choice] = _Arrivals([event.at_ns], event.tokens or 1)
        elif event.at_ns != arrivals.instants_ns[-1]:
            arrivals.instants_ns.append(event.at_ns)
        elif len(arrivals.instants_ns) == 1:
            arrivals.first_tokens += event.tokens or 1
    return list(found.values())


def _gaps_ms(choice: _Arrivals) -> list[float]:
    return [(later - sooner) / 1e6 for sooner, later in pairwise(choice.instants_ns)]


def _ms(begin_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None or end_ns <= begin_ns else (end_ns - begin_ns) / 1e6
