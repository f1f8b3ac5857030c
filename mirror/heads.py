"""What is known of a copy when it is sent?  The fields with which its pair begins."""

from typing import Any

from mirror.admit import Phase
from mirror.frames import Copy
from mirror.slots import Block


def copy_head(
    copy: Copy,
    at_ns: int,
    phase: Phase,
    *,
    mark: str | None,
    block: Block | None,
    duplicate: int,
    asked: dict[str, bytes],
) -> dict[str, Any]:
    """Of a copy that is sent at `at_ns`.  `mark`: why it is not judged; `asked`: what shapes answers."""
    return {
        "phase": phase.name if block is None else block.phase,
        "epoch": phase.epoch,
        "mark": mark,
        "block": None if block is None else block.number,
        "duplicate": duplicate,
        "at_ns": at_ns,
        "received_ns": copy.received_ns,
        "production_sent_ns": copy.sent_ns,
        "path": copy.path.partition("?")[0],
        "stream": copy.stream,
        "root": copy.root,
        "turn": copy.turn,
        "asked": asked,
        "golden": copy.golden,
    }
