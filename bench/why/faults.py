"""Which faults are injected, and how strongly?  Drawn at random, so that no rule can know them."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import Final

from analysis.why.rules import Cause
from emulator.params import EngineParams

# Of the engine's tokens as many stand in a step: prompts of thousands of tokens, or answers of hundreds.
_PROMPTS: Final = (1500, 4000)
_ANSWERS: Final = (250, 600)


@dataclass(frozen=True, slots=True)
class Scene:
    """An engine, its traffic, and what lies between it and the shadow.

    `host_ms`: between two steps the emulated GPU waits so long for its host.  `way_s`: a request, and each
    answer, are so long on the way.  `late`: the share of looks for which the shadow is late.  `stalled`: the
    share of each 10 s in which the scheduler admits nobody; what runs goes on.
    """

    params: EngineParams
    rate: float
    prompt: tuple[int, int]
    output: tuple[int, int]
    host_ms: float = 0.0
    way_s: float = 0.0
    late: float = 0.0
    stalled: float = 0.0


def _params(num_blocks: int, max_num_seqs: int = 256, max_model_len: int = 8192) -> EngineParams:
    return EngineParams(
        base_ms=12.0,
        ms_per_prefill_token=0.05,
        prefix_caching=False,
        num_blocks=num_blocks,
        max_num_seqs=max_num_seqs,
        max_model_len=max_model_len,
    )


def _chats(rng: Random) -> Scene:
    """Short prompts and long answers, 15 to 45 of them at a time."""
    return Scene(_params(num_blocks=16384), rng.uniform(2.5, 5.5), (40, 200), _ANSWERS)


def _kv(rng: Random) -> Scene:
    """Less room than the chats would take: about 6 s each, of 500 tokens by the end."""
    chats = _chats(rng)
    blocks = int(chats.rate * 6.0 * 350 / 16 * rng.uniform(0.2, 0.8))
    return replace(chats, params=_params(num_blocks=max(64, blocks), max_model_len=1000))


def _limited(rng: Random) -> Scene:
    """Fewer places than the chats would take."""
    chats = _chats(rng)
    seqs = max(2, int(chats.rate * 6.0 * rng.uniform(0.2, 0.9)))
    return replace(chats, params=_params(num_blocks=16384, max_num_seqs=seqs))


def _stalled(rng: Random) -> Scene:
    """Requests that would be done in a second, were they let in."""
    return Scene(
        _params(num_blocks=16384), rng.uniform(1.0, 4.0), (40, 200), (10, 60), stalled=rng.uniform(0.4, 0.95)
    )


# From strong faults to such as hardly show.
SCENES: Final[Mapping[Cause, Callable[[Random], Scene]]] = {
    "compute": lambda rng: Scene(_params(num_blocks=65536), rng.uniform(4.0, 7.0), _PROMPTS, (5, 30)),
    "memory_bandwidth": _chats,
    "kv_capacity": _kv,
    "scheduling": _limited,
    "cpu": lambda rng: replace(_chats(rng), rate=rng.uniform(1.5, 3.0), host_ms=rng.uniform(4.0, 25.0)),
    "network": lambda rng: replace(_chats(rng), way_s=rng.uniform(0.5, 6.0)),
    "client": lambda rng: replace(_chats(rng), late=rng.uniform(0.05, 0.8)),
    "stalled": _stalled,
    "idle": lambda rng: Scene(_params(num_blocks=16384), rng.uniform(0.05, 0.6), (40, 200), (10, 60)),
}
