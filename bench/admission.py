"""What do keys and limits cost a request?  The whole way through admission, without a gateway.

Run: python -m bench.admission
"""

import secrets
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gateway.admission.admit import Admission
from gateway.admission.keys import hashed, new_key
from gateway.admission.table import Table
from gateway.admission.ticket import Ticket, Usage
from gateway.spec import AdmissionSpec, EngineSpec, KeySpec, RoomSpec

_ROUNDS = 60
_REQUESTS = 2000
_PLENTY: dict[str, Any] = {"requests_per_s": 1e6, "requests_burst": 10**7}
_OWN: dict[str, Any] = {
    **_PLENTY,
    "prompt_tokens_per_s": 1e9,
    "prompt_tokens_burst": 10**9,
    "concurrency": 64,
}
_ALL: dict[str, Any] = {**_PLENTY, "concurrency": 1000}


@dataclass
class _Engine:
    id: int
    spec: EngineSpec
    up: bool = True


@dataclass
class _Fleet:
    engines: list[_Engine]


@dataclass
class _Bell:
    rung: list[int] = field(default_factory=list)

    def ring(self, worker: int) -> None:
        self.rung.append(worker)

    def waits(self) -> None:
        pass


def _never(_ticket: Ticket, _refused: object) -> None:
    raise AssertionError("nothing waits here")


def cost_us(
    *,
    workers: int = 1,
    keys: int = 100,
    engines: int = 4,
    own: bool = True,
    everyone: bool = True,
    fleet: int | None = None,
    each_engine: int | None = None,
) -> float:
    """Microseconds for a request: known, admitted, seated where engines are limited, ended with usage."""
    texts = [new_key(secrets.token_bytes) for _ in range(keys)]
    known = tuple(
        KeySpec(f"k{at}", at, hashed(text), **(_OWN if own else {})) for at, text in enumerate(texts)
    )
    whole = KeySpec("everyone", 0, **(_ALL if everyone else {}))
    spec = AdmissionSpec(known, whole, (RoomSpec("m", 0, fleet),))
    specs = [EngineSpec(id, f"http://e{id}", concurrency=each_engine) for id in range(engines)]
    with tempfile.TemporaryDirectory() as folder:
        table = Table.create(Path(folder) / "admission.bin", workers, 1, engines, keys)
        served = _Fleet([_Engine(one.id, one) for one in specs])
        admission = Admission(spec, table, 0, {"m": served}, _Bell(), {})
        credential, usage = b"Bearer " + texts[keys // 2].encode(), Usage(1000, 100, 20)
        best_ns = 1 << 62
        for _ in range(_ROUNDS):
            at_ns = time.monotonic_ns()
            for _ in range(_REQUESTS):
                key = admission.identify(credential)
                assert key is not None
                ticket = admission.ask(
                    key, "m", prompt_bytes=4000, body_bytes=5000, priority=b"", at_ns=at_ns, on_turn=_never
                )
                assert isinstance(ticket, Ticket)
                if each_engine is not None:
                    admission.full("m")
                    ticket.sit(1)
                ticket.done(usage, at_ns)
            best_ns = min(best_ns, time.monotonic_ns() - at_ns)
        table.close()
    return best_ns / _REQUESTS / 1e3


if __name__ == "__main__":
    print(f"| what is limited | µs a request, best of {_ROUNDS} rounds |\n|---|---|")
    for what, how in {
        "a key is known, nothing limited": {"own": False, "everyone": False},
        "its requests, tokens and concurrency": {"everyone": False},
        "and everybody's requests and concurrency": {},
        "and the fleet's concurrency": {"fleet": 512},
        "and each engine's": {"fleet": 512, "each_engine": 64},
        "the third with 1,000 keys": {"keys": 1000},
        "the third with 64 idle engines": {"engines": 64},
        "the third with 4 workers": {"workers": 4},
        "the fifth with 4 workers": {"workers": 4, "fleet": 512, "each_engine": 64},
    }.items():
        print(f"| {what} | {cost_us(**how):.1f} |", flush=True)  # type: ignore[arg-type]
