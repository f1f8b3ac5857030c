"""Which limit does a request meet?  All are asked before anything is taken: a refusal costs nothing."""

from gateway.admission import refusal
from gateway.admission.bucket import Bucket
from gateway.admission.keys import Key, Used
from gateway.admission.refusal import Refused
from gateway.admission.table import Table
from gateway.spec import KeySpec

_AGAIN_NS = 1_000_000_000  # when a place becomes free is not known


def key_of(spec: KeySpec, table: Table, worker: int, used: Used) -> Key:
    """A key and its buckets in the shared table."""
    at = table.buckets + 2 * spec.slot
    cells = table.cells
    return Key(
        spec.name,
        spec.slot,
        weight=spec.weight,
        priority=spec.priority,
        concurrency=spec.concurrency,
        requests=None
        if spec.requests_per_s is None
        else Bucket(cells, at, spec.requests_per_s, spec.requests_burst),
        tokens=None
        if spec.prompt_tokens_per_s is None
        else Bucket(cells, at + 1, spec.prompt_tokens_per_s, spec.prompt_tokens_burst),
        held_at=table.at(table.inflight + spec.slot, worker),
        used=used,
    )


def met(key: Key, everyone: Key, table: Table, tokens: int, at_ns: int) -> Refused | None:
    """The first limit that one more request with `tokens` would break: the key's own, then everyone's."""
    if key.concurrency is not None and table.total(table.inflight + key.slot) >= key.concurrency:
        message = f"the key {key.name} may have {key.concurrency} requests at a time"
        return refusal.limited(refusal.KEY_CONCURRENCY, message, _AGAIN_NS)
    if key.requests is not None and (lacks_ns := key.requests.lacks_ns(1, at_ns)) > 0:
        message = f"the key {key.name} may ask {key.requests.per_s:g} requests a second"
        return refusal.limited(refusal.KEY_REQUESTS, message, lacks_ns)
    if key.tokens is not None and (lacks_ns := key.tokens.lacks_ns(tokens, at_ns)) > 0:
        if tokens > key.tokens.burst:
            return refusal.too_large(tokens, key.tokens.burst, f"the key {key.name}")
        message = f"the key {key.name} may ask {key.tokens.per_s:g} prompt tokens a second"
        return refusal.limited(refusal.KEY_TOKENS, message, lacks_ns)
    if (
        everyone.concurrency is not None
        and table.total(table.inflight + everyone.slot) >= everyone.concurrency
    ):
        message = f"the gateway takes {everyone.concurrency} requests at a time"
        return refusal.overloaded(refusal.ALL_CONCURRENCY, message, _AGAIN_NS)
    if everyone.requests is not None and (lacks_ns := everyone.requests.lacks_ns(1, at_ns)) > 0:
        message = f"the gateway takes {everyone.requests.per_s:g} requests a second"
        return refusal.overloaded(refusal.ALL_REQUESTS, message, lacks_ns)
    if everyone.tokens is not None and (lacks_ns := everyone.tokens.lacks_ns(tokens, at_ns)) > 0:
        if tokens > everyone.tokens.burst:
            return refusal.too_large(tokens, everyone.tokens.burst, "one")
        message = f"the gateway takes {everyone.tokens.per_s:g} prompt tokens a second"
        return refusal.overloaded(refusal.ALL_TOKENS, message, lacks_ns)
    return None


def take(key: Key, everyone: Key, tokens: int, at_ns: int) -> None:
    """Take from the rates what `met` found to be there."""
    for who in (key, everyone):
        if who.requests is not None:
            who.requests.take(1, at_ns)
        if who.tokens is not None:
            who.tokens.take(tokens, at_ns)


def give(key: Key, everyone: Key, tokens: int) -> None:
    """Give back what `take` took."""
    for who in (key, everyone):
        if who.requests is not None:
            who.requests.give(1)
        if who.tokens is not None:
            who.tokens.give(tokens)


def correct(key: Key, everyone: Key, estimated: int, told: int, at_ns: int) -> None:
    """The prompt's tokens are known now: take what was estimated too low, give back what was too high."""
    more = max(0, told) - estimated
    for bucket in (key.tokens, everyone.tokens):
        if bucket is not None and more > 0:
            bucket.owe(more, at_ns)
        elif bucket is not None and more < 0:
            bucket.give(-more)
