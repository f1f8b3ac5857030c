"""What admission is told: the checked config as plain values, or None where there is nothing to limit."""

import math
from collections.abc import Mapping
from typing import Any

from config.admission import Rates
from config.schema import Config, Engine, Fleet
from gateway.admission.keys import ANONYMOUS
from gateway.admission.ledger import CLASS_NAMES
from gateway.spec import AdmissionSpec, KeySpec, RoomSpec

EVERYONE = "everyone"
_TOKENS_BURST_S = 60  # a prompt is asked at once: a burst of one second's would refuse most


def composed(
    config: Config,
    fleet_slots: Mapping[str | None, int] | None = None,
    key_slots: Mapping[str, int] | None = None,
) -> AdmissionSpec | None:
    """The spec for `config`; None where it has neither keys nor limits, so that nothing is paid for them.

    `fleet_slots` (by model) and `key_slots` (by name, that of `anonymous` too) say which column of the shared
    table each has; left out, they are counted.
    """
    admission = config.admission
    is_bounded = any(limit is not None for limit in admission.limits.model_dump().values()) or any(
        fleet.concurrency is not None or engine_limits(fleet) for fleet in config.fleets
    )
    if not config.keys and not is_bounded:
        return None
    if fleet_slots is None:
        fleet_slots = {fleet.model: at for at, fleet in enumerate(config.fleets)}
    if key_slots is None:
        key_slots = {name: at for at, name in enumerate(names(config))}
    keys = [
        KeySpec(
            name=key.name,
            slot=key_slots[key.name],
            hash=key.hash,
            weight=key.weight,
            priority=CLASS_NAMES.index(key.priority),
            **_limits(key.limits),
        )
        for key in config.keys
    ]
    if admission.anonymous or (admission.anonymous is None and not config.keys):
        keys.append(KeySpec(ANONYMOUS, key_slots[ANONYMOUS]))
    return AdmissionSpec(
        keys=tuple(keys),
        everyone=KeySpec(EVERYONE, 0, **_limits(admission.limits)),
        rooms=tuple(_room(fleet, fleet_slots[fleet.model]) for fleet in config.fleets),
        bytes_per_token=admission.bytes_per_token,
        queue_entries=admission.queue_entries,
        queue_bytes=admission.queue_bytes,
        queue_wait_s=admission.queue_wait_s,
        trickle=admission.trickle,
    )


def names(config: Config) -> list[str]:
    """Everybody who is counted apart: whoever comes without a key, and each key."""
    return [ANONYMOUS, *(key.name for key in config.keys)]


def concurrency_of(engine: Engine, fleet: Fleet) -> int | None:
    """How many requests one engine takes at a time: what it says itself, else its fleet."""
    return fleet.engine_concurrency if engine.concurrency is None else engine.concurrency


def engine_limits(fleet: Fleet) -> bool:
    """Whether any engine of a fleet takes a limited number, or one that is discovered will."""
    return fleet.engine_concurrency is not None or any(e.concurrency is not None for e in fleet.engines)


def _room(fleet: Fleet, slot: int) -> RoomSpec:
    full = fleet.when_full
    return RoomSpec(fleet.model, slot, fleet.concurrency, full.fallback, full.max_tokens, full.wait)


def _limits(rates: Rates) -> dict[str, Any]:
    """Bursts left out are a second's requests, at least one, and a minute's prompt tokens."""
    requests, tokens = rates.requests_per_s, rates.prompt_tokens_per_s
    return {
        "requests_per_s": requests,
        "requests_burst": rates.requests_burst or math.ceil(requests or 1),
        "prompt_tokens_per_s": tokens,
        "prompt_tokens_burst": rates.prompt_tokens_burst or math.ceil((tokens or 1) * _TOKENS_BURST_S),
        "concurrency": rates.concurrency,
    }
