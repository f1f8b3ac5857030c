"""How fast was an answer?  TTFT, ITL, TPOT and E2E of one transcript; missing is None, never 0."""

from dataclasses import dataclass
from itertools import pairwise
from statistics import median

from analysis.transcript import Transcript


@dataclass(frozen=True, slots=True)
class Timing:
    """One answer's latencies in ms.

    TTFT: first token - sent (`ttft_user_ms`: - received). ITL: the median gap between arrivals of tokens.
    TPOT: (last - first) / (N - n1), with N completion tokens over all choices and n1 in the first arrival.
    E2E: last token - sent; for an answer in one piece its last byte.
    """

    ttft_ms: float | None
    ttft_user_ms: float | None
    itl_ms: float | None
    tpot_ms: float | None
    e2e_ms: float | None


def gaps_ms(transcript: Transcript) -> list[float]:
    """The raw gaps between arrivals. Events of one read arrived together: one arrival, no gap."""
    arrivals = sorted({event.at_ns for event in transcript.content.token_events})
    return [(later - sooner) / 1e6 for sooner, later in pairwise(arrivals)]


def timing(transcript: Transcript) -> Timing:
    """The latencies of one answer, whether or not it failed."""
    first, last = transcript.first_token_ns, transcript.last_token_ns
    gaps = gaps_ms(transcript)
    return Timing(
        ttft_ms=_ms(transcript.sent_ns, first),
        ttft_user_ms=_ms(transcript.received_ns, first),
        itl_ms=median(gaps) if gaps else None,
        tpot_ms=_tpot_ms(transcript),
        e2e_ms=_ms(transcript.sent_ns, last),
    )


def _tpot_ms(transcript: Transcript) -> float | None:
    events = transcript.content.token_events
    total = transcript.content.completion_tokens
    if not events or total is None:
        return None
    first, last = events[0].at_ns, events[-1].at_ns
    in_first = sum(event.tokens or 1 for event in events if event.at_ns == first)
    if total <= in_first or last <= first:
        return None
    return (last - first) / 1e6 / (total - in_first)


def _ms(begin_ns: int, end_ns: int | None) -> float | None:
    return None if end_ns is None or end_ns <= begin_ns else (end_ns - begin_ns) / 1e6
