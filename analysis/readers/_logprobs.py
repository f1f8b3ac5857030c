"""How sure was an engine of each token?  Logprobs as chat completions and as completions spell them."""

from collections.abc import Sequence

import msgspec

from analysis.transcript import TokenLogprob


class _Alternative(msgspec.Struct):
    token: str
    logprob: float


class _Entry(msgspec.Struct):
    token: str
    logprob: float
    top_logprobs: list[_Alternative] | None = None


class _Logprobs(msgspec.Struct):
    content: list[_Entry] | None = None
    refusal: list[_Entry] | None = None
    tokens: list[str] | None = None
    token_logprobs: list[float | None] | None = None
    top_logprobs: list[dict[str, float] | None] | None = None


_read = msgspec.json.Decoder(_Logprobs)


def logprobs_of(raw: msgspec.Raw) -> Sequence[TokenLogprob]:
    """The tokens of a `logprobs` field; none where it is null, or what nobody can read: it is no fault."""
    if len(raw) <= 4:  # null
        return ()
    try:
        found = _read.decode(raw)
    except (msgspec.MsgspecError, RecursionError):
        return ()
    entries = (found.content or []) + (found.refusal or [])
    if entries:
        return [
            TokenLogprob(e.token, e.logprob, tuple((a.token, a.logprob) for a in e.top_logprobs or ()))
            for e in entries
        ]
    tokens, values = found.tokens or [], found.token_logprobs or []
    if len(tokens) != len(values):
        return ()
    tops = found.top_logprobs or []
    if len(tops) != len(tokens):
        tops = [None] * len(tokens)
    return [
        TokenLogprob(token, value, tuple((top or {}).items()))
        for token, value, top in zip(tokens, values, tops, strict=True)
        if value is not None  # the first token of an echoed prompt has none
    ]
