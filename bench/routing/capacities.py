"""What least_load can bear in each scene, found once and kept until anything that it rests on changes."""

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path

from bench.routing.plans import Scene, capacity

_ROOT = Path(__file__).resolve().parents[2]
_RESTS_ON = (
    "bench/routing/asks.py", "bench/routing/engine.py", "bench/routing/measures.py",
    "bench/routing/traces.py", "bench/routing/world.py",
    "emulator/scheduler.py", "emulator/kv_cache.py", "emulator/host_tier.py", "emulator/pace.py",
    "routing/policies/least_load.py",
)  # fmt: skip


def of(scenes: Sequence[Scene], pool: Executor) -> dict[Scene, float]:
    """Speeds, found where they are not known yet."""
    kept = _kept()
    names = {scene: hashlib.sha256(f"{scene} {_source()}".encode()).hexdigest()[:24] for scene in scenes}
    missing = [scene for scene in scenes if names[scene] not in kept]
    for scene, speed in zip(missing, pool.map(capacity, missing), strict=True):
        kept[names[scene]] = speed
    if missing:
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps({**_kept(), **kept}))
    return {scene: kept[name] for scene, name in names.items()}


def _kept() -> dict[str, float]:
    try:
        kept: dict[str, float] = json.loads(_file().read_text())
    except (OSError, ValueError):
        return {}
    return kept


def _file() -> Path:
    return (
        Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "shadowlane-bench/capacities.json"
    )


def _source() -> str:
    return hashlib.sha256(b"".join(_bytes())).hexdigest()


def _bytes() -> Iterator[bytes]:
    for name in _RESTS_ON:
        yield (_ROOT / name).read_bytes()
