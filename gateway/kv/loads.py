"""What do engines say of their load?  Taken from the board into what routing sees of each."""

from collections.abc import Iterable
from typing import Final

from gateway.fleets.fleet import Fleet
from routing.events.reader import Reader

FRESH_NS: Final = 3_000_000_000
"""What an engine said of its load counts so long; it says something every second."""


def look(known: Reader, fleets: Iterable[Fleet], now_ns: int) -> None:
    """See whether the writer lives, and what engines say of their load; about once a second."""
    known.look(now_ns)
    said = known.loads(now_ns - FRESH_NS)
    sizes = known.block_sizes()
    for engine in (engine for fleet in fleets for engine in fleet.engines):
        load, told = engine.load, said.get(engine.id)
        load.block_tokens = sizes.get(engine.id) or load.block_tokens
        if told is None:
            if not engine.tells_load:
                continue
            engine.tells_load = False
            load.running = load.queued = load.prefill_tokens = load.kv_usage = None
            continue
        engine.tells_load = True
        load.reported_bytes = load.context_bytes
        load.running, load.queued = told.running, told.queued
        load.prefill_tokens = told.prefill_tokens
        if told.most_tokens:
            load.kv_tokens = told.most_tokens
            load.kv_usage = min(1.0, told.used_tokens / told.most_tokens)
