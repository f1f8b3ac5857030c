"""Where are two answers in the same place?  Their logprobs up to and with the first token that differs."""

from collections.abc import Iterator
from math import exp, log

from analysis.metrics._metric import matched
from analysis.transcript import Content, TokenLogprob

_LEAST = 1e-12  # what is left of a distribution beside its likeliest tokens, at least


def same_contexts(control: Content, candidate: Content) -> Iterator[tuple[TokenLogprob, TokenLogprob]]:
    """The tokens both chose after the same tokens, of all choices; the last of each may differ."""
    for ours, theirs in matched(control, candidate):
        for a, b in zip(ours.logprobs or (), theirs.logprobs or (), strict=False):
            yield a, b
            if a.token != b.token:
                break


def margin(token: TokenLogprob) -> float | None:
    """By how many nats the likeliest token was ahead of the next; None where fewer than two are told."""
    ranked = sorted((logprob for _, logprob in token.top), reverse=True)
    return ranked[0] - ranked[1] if len(ranked) > 1 else None


def likeliest(token: TokenLogprob) -> str | None:
    """The token that was the likeliest there, None where no alternatives are told."""
    return max(token.top, key=lambda pair: pair[1])[0] if token.top else None


def coarse(a: TokenLogprob, b: TokenLogprob) -> tuple[list[float], list[float]] | None:
    """Both distributions over the tokens told by both, and one more for all the rest; None without any."""
    ours, theirs = dict(a.top), dict(b.top)
    told = ours.keys() & theirs.keys()
    if not told:
        return None
    # No probability is above 1, whatever an engine says: exp would overflow.
    p, q = [exp(min(0.0, ours[token])) for token in told], [exp(min(0.0, theirs[token])) for token in told]
    return [*p, max(_LEAST, 1.0 - sum(p))], [*q, max(_LEAST, 1.0 - sum(q))]


def divergence(p: list[float], q: list[float]) -> float:
    """Kullback and Leibler's of p from q, in nats."""
    return sum(a * log(a / max(b, _LEAST)) for a, b in zip(p, q, strict=True) if a > 0.0)
