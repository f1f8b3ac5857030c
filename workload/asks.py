"""What is to be sent, and when?  Requests of any recording or trace as one kind of thing, in schedule order.

A pure iterator: no clock, no sockets.  `workload.replay` sends what it gives.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from workload.blocks import blocks_of
from workload.row import Row, Sampling

CHAT = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Ask:
    """One request at its instant, `at_s` seconds after the schedule's beginning.

    It is not sent before `after`, the request whose conversation it continues, has ended.  `body` is what was
    recorded, None where the text is not known: then `blocks`, `block_tokens` tokens each but for the last,
    tell what it shares with others.  `shared` is how many of its first tokens are `after`'s whole prompt, 0
    where it does not begin with it.  `cached_tokens` are what the recorded engine had in its cache.
    """

    at_s: float
    id: str
    prompt_tokens: int
    output_tokens: int
    after: str | None = None
    session: str | None = None
    blocks: tuple[int, ...] = ()
    block_tokens: int = 512
    shared: int = 0
    body: dict[str, Any] | None = None
    path: str = CHAT
    model: str | None = None
    sampling: Sampling | None = None
    cached_tokens: int | None = None


def asks(rows: Iterable[Row], block_tokens: int) -> Iterator[Ask]:
    """The rows as requests in the order of their instants, the first one at 0."""
    ordered = sorted(rows, key=lambda row: row.timestamp)
    before: dict[str, Row] = {}
    for number, row in enumerate(ordered):
        parent = before.get(row.parent) if row.parent is not None else None
        id = row.id if row.id is not None and row.id not in before else f"row-{number}"
        before[id] = row
        yield Ask(
            at_s=(row.timestamp - ordered[0].timestamp) / 1e3,
            id=id,
            prompt_tokens=max(1, row.input_length),
            output_tokens=max(1, row.output_length),
            after=row.parent if parent is not None else None,
            session=row.session,
            blocks=tuple(row.hash_ids),
            block_tokens=block_tokens,
            shared=0 if parent is None else _shared(parent, row, block_tokens),
            body=row.request,
            path=row.path or CHAT,
            model=row.model,
            sampling=row.sampling,
            cached_tokens=row.cached_tokens,
        )


def at_speed(requests: Iterable[Ask], speed: float) -> Iterator[Ask]:
    """The same, `speed` times as fast."""
    if not speed > 0:
        raise ValueError(f"speed must be above 0, not {speed!r}")
    return (replace(ask, at_s=ask.at_s / speed) for ask in requests)


def block_hits(requests: Iterable[Ask]) -> float | None:
    """The share of prompt tokens in blocks that an earlier request had: the hit rate of an endless cache.

    None where no request has blocks.
    """
    seen: set[int] = set()
    hit = total = 0
    for ask in requests:
        total += ask.prompt_tokens if ask.blocks else 0
        held = 0
        for block in ask.blocks:
            if block not in seen:
                break
            held += 1
        hit += min(ask.prompt_tokens, held * ask.block_tokens)
        seen.update(ask.blocks)
    return hit / total if total else None


def _shared(parent: Row, row: Row, block_tokens: int) -> int:
    """The parent's prompt, where this one begins with all whole blocks of it and goes on."""
    whole = parent.input_length // block_tokens
    grown = row.input_length > parent.input_length
    same = row.hash_ids[:whole] == parent.hash_ids[:whole] and len(parent.hash_ids) >= whole
    enough = len(row.hash_ids) >= blocks_of(parent.input_length, block_tokens)
    return parent.input_length if grown and same and enough else 0
