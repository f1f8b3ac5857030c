"""What would mend a comparison of which a check failed?  One remedy for each check, by its name and mode."""

from typing import Final

MEND: Final = {
    "enough_units": "wait, or send more: a higher sample.rate, or a time of day with more traffic",
    "calibrated": (
        "give the control a machine of its own and steady traffic, then begin anew; where two engines serve"
        " as control, see that they have the same hardware and configuration"
    ),
    "warm_up": "begin anew, and let the calibration come to its end: it was cut short of calibration_pairs",
    "dispatch_lag": "give the shadow process a core of its own, or lower sample.rate",
    "production_load": "set sample.rate: auto, so that the control carries what one production engine does",
    "books": "restart the shadow process; if it comes again, report it: copies were lost uncounted",
    "load_balance": (
        "see why an arm gets fewer copies or shorter prompts: its limits, its readiness, another tokenizer or"
        " chat template"
    ),
    "dispatch_order": "restart the shadow process; if it comes again, report it: it is a fault of ours",
    "cache_parity": "wait until the caches are full, or set warm_up_s so long that they are",
    "token_bursts": "go by TPOT, which is of tokens, or have both arms say as many at a time",
    "token_source": (
        "have both engines report usage in their streams (stream_options.include_usage is asked of them), or,"
        " where neither does, set experiments[].tokenizer; TTFT and E2E need no count"
    ),
    "errors": "look at the faults of the arm that fails (its figures have them by kind), and mend that first",
    "missing": (
        "bound what is generated (max_tokens), so that the answers of a pair are not too large to be told,"
        " and begin anew"
    ),
    "gpu_clocks": "cool the GPUs, or set one clock for all arms that they can keep (nvidia-smi -lgc)",
    "harness": "give the shadow process a core of its own, or lower sample.rate or max_inflight",
    "clock": "run the gateway where CLOCK_MONOTONIC is kept (not a machine that is moved while it runs)",
    "steady": "see what changed on the way (`series` shows when), and begin anew once it is over",
}

# Where arms take turns, and where what they are sent is recorded, some of it is mended otherwise.
_IN_TURNS: Final = {
    "enough_units": (
        "wait: a block is two slots, and candidates have theirs in turn; a shorter turns.slot_s gives more of"
        " them, and begins anew"
    ),
    "calibrated": (
        "have every slot begin alike (turns.switch starts the engine again) and nothing else use its machine,"
        " then begin anew"
    ),
    "cache_parity": "set warm_up_s, which counts in each slot, so long that the caches are full",
}
_REPLAYED: Final = {
    **_IN_TURNS,
    "enough_units": (
        "raise replay.rounds, which goes on from here; or begin anew with a longer recording or a shorter"
        " turns.slot_s"
    ),
    "dispatch_lag": "give the shadow process a core of its own, or lower replay.speed",
    "harness": "give the shadow process a core of its own, or lower replay.speed or max_inflight",
}
# Where what the check names is in place already.
RATE_IS_SET: Final = (
    "wait: sample.rate is auto, and what the control had too little or too much of is made up for in minutes;"
    " the more conversations there are, the nearer it comes"
)
NOT_ASKED: Final = "nothing: arms are loaded alike, and the verdict holds at that load"

_BY_MODE: Final = {"switchback": _IN_TURNS, "replay": _REPLAYED}


def mend(name: str, mode: str = "live") -> str:
    """The remedy for a check, as an experiment of this mode has it."""
    return _BY_MODE.get(mode, MEND).get(name, MEND[name])
