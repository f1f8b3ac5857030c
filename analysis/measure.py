"""What is kept of a pair of answers?  Measures only: no text survives."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class PairRecord:
    """One pair as measures. (Fields grow; `to_map`/`from_map` are exact inverses through msgpack.)"""

    experiment: str
    id: str
    phase: str
    at_ns: int

    def to_map(self) -> dict[str, Any]:
        """Plain values for msgpack."""
        raise NotImplementedError

    @classmethod
    def from_map(cls, values: Mapping[str, Any]) -> "PairRecord":
        """The inverse of `to_map`; KeyError or TypeError when it is not such a map."""
        raise NotImplementedError


def measure(pair: Mapping[str, Any]) -> PairRecord:
    """Measures of one ["pair", ...] frame. Never raises on what an engine answered; KeyError if the frame is not one."""
    raise NotImplementedError
