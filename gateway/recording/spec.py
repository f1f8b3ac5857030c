"""What the recording process is told: plain values, built from the config by `gateway.processes.compose`."""

from dataclasses import dataclass, field

import msgspec

from workload.packed import Packing

NAME = "recording"  # what it is called among the experiments, in metrics
SOCKET = "record.sock"


@dataclass(frozen=True, slots=True)
class RecordSpec:
    """Where and how traffic is written down; with an empty `to`, nothing is.

    `key` names blocks and sessions; it is never written.  `held_bytes` bounds the requests in memory whose
    answers are awaited, `open_s` how long one is.  `keep_bytes` and `keep_s` bound what older files may take:
    the oldest are removed, and text after `text_keep_s`.  `redact` are patterns whose matches are replaced in
    text, `redact_command` is a command that text then goes through.
    """

    run_dir: str
    to: str
    key: bytes = field(repr=False)
    text: bool = False
    text_keep_s: float = 30 * 86_400.0
    redact: tuple[str, ...] = ()
    redact_command: tuple[str, ...] = ()
    block_tokens: int = 64
    packing: Packing = "zstd"
    file_bytes: int = 64 << 20
    file_s: float = 3600.0
    keep_bytes: int = 10 << 30
    keep_s: float | None = None
    copy_bytes: int = 8 << 20
    lane_bytes: int = 64 << 20
    held_bytes: int = 256 << 20
    open_s: float = 900.0


def to_json(spec: RecordSpec) -> bytes:
    """The hand-over on the process's stdin.  It holds a key: never logged, never on disk."""
    return msgspec.json.encode(spec)


def from_json(text: bytes) -> RecordSpec:
    """What `to_json` wrote; msgspec.ValidationError says what does not fit."""
    return msgspec.json.decode(text, type=RecordSpec)
