"""How what a child is told crosses its stdin and its channel: JSON and back.

Apart from what composes it, so that a child does not load the configuration's schema.
"""

import msgspec

from analysis.spec import AnalysisSpec
from gateway.launch.spec import LaunchSpec
from gateway.recording.spec import RecordSpec
from gateway.spec import WorkerSpec
from mirror.spec import ShadowSpec


def to_json(spec: WorkerSpec | ShadowSpec | AnalysisSpec | LaunchSpec | RecordSpec) -> bytes:
    """The hand-over on a child's stdin.  It holds keys: never logged, never on disk."""
    return msgspec.json.encode(spec)


def worker_from_json(text: bytes) -> WorkerSpec:
    """What `to_json` wrote; msgspec.ValidationError says what does not fit."""
    return msgspec.json.decode(text, type=WorkerSpec)


def shadow_from_json(text: bytes) -> ShadowSpec:
    """What `to_json` wrote; msgspec.ValidationError says what does not fit."""
    return msgspec.json.decode(text, type=ShadowSpec)


def analysis_from_json(text: bytes) -> AnalysisSpec:
    """What `to_json` wrote; msgspec.ValidationError says what does not fit."""
    return msgspec.json.decode(text, type=AnalysisSpec)
