"""Where engines differ from one another on the wire, and which kind differs how."""

from dataclasses import dataclass
from importlib import import_module


@dataclass(frozen=True, slots=True)
class Dialect:
    """One kind of engine.

    `probe_path`: a cheap GET that is 200 when the engine can serve.  `metrics_path`: its metrics as
    Prometheus text.  `takes_cache_salt`,
    `tells_token_ids`: request fields it understands, which others would refuse; `tells_token_ids_whole`: the
    latter of answers in one piece only.
    """

    probe_path: str = "/health"
    metrics_path: str = "/metrics"
    takes_cache_salt: bool = False
    tells_token_ids_whole: bool = False
    tells_token_ids: bool = False


def dialect(kind: str) -> Dialect:
    """The dialect of a kind; of one not known (or "auto") the plainest.  LookupError never."""
    try:
        module = import_module(f"wire.engines.{kind}")
    except ModuleNotFoundError:
        return Dialect(probe_path="/v1/models")
    found: Dialect = module.DIALECT
    return found
