"""How fast was an answer?  TTFT, ITL, TPOT and E2E of one transcript; missing is None, never 0."""

from collections.abc import Sequence
from dataclasses import dataclass
from operator import sub
from statistics import median

from analysis.transcript import TokenEvent, Transcript


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
    """One choice's token events: the gaps between instants at which any came, and the tokens of the first."""

    gaps_ns: list[int]
    first_tokens: int


def gaps_ms(transcript: Transcript) -> list[float]:
    """The raw gaps between arrivals, choice by choice. Events of one read arrived together: no gap."""
    return timing_and_gaps_ms(transcript)[1]


def timing(transcript: Transcript) -> Timing:
    """The latencies of one answer, whether or not it failed."""
    return timing_and_gaps_ms(transcript)[0]


def timing_and_gaps_ms(transcript: Transcript) -> tuple[Timing, list[float]]:
    """Both at once, for less."""
    first, last = transcript.first_token_ns, transcript.last_token_ns
    choices = _choices(transcript.content.token_events)
    gaps = [gap / 1e6 for one in choices for gap in one.gaps_ns]
    total = transcript.content.completion_tokens
    span_ns = sum(sum(one.gaps_ns) for one in choices)
    later = 0 if total is None else total - sum(one.first_tokens for one in choices)
    found = Timing(
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
    return found, gaps


def _choices(events: Sequence[TokenEvent]) -> list[_Arrivals]:
    """Events come in the order in which they arrived."""
    if len({event.choice for event in events}) < 2:
        return [_arrivals(events)] if events else []
    apart: dict[int, list[TokenEvent]] = {}
    for event in events:
        apart.setdefault(event.choice, []).append(event)
    return [_arrivals(own) for own in apart.values()]


def _arrivals(events: Sequence[TokenEvent]) -> _Arrivals:
    """Of one choice's, of which there is at least one."""
    instants_ns = [event.at_ns for event in events]
    gaps_ns = list(map(sub, instants_ns[1:], instants_ns))
    tokens = events[0].tokens or 1
    for event, gap_ns in zip(events[1:], gaps_ns, strict=False):
        if gap_ns:
            break
        tokens += event.tokens or 1
    return _Arrivals([gap for gap in gaps_ns if gap] if 0 in gaps_ns else gaps_ns, tokens)


def _ms(begin_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None or end_ns <= begin_ns else (end_ns - begin_ns) / 1e6
