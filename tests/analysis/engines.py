"""Answers captured from real engines, and what is in them (read off by eye, not by the readers)."""

from analysis.readers._choose import reader_of
from analysis.transcript import Content
from tests.analysis.captured._captured import CHAT, COMPLETIONS, FIXTURES, MESSAGES, RESPONSES, Captured, Long
from tests.analysis.captured.dynamo import DYNAMO
from tests.analysis.captured.llamacpp import LLAMACPP
from tests.analysis.captured.long import LONG
from tests.analysis.captured.sglang import SGLANG
from tests.analysis.captured.tfserve import TFSERVE
from tests.analysis.captured.vllm import VLLM

__all__ = [
    "CAPTURED",
    "CHAT",
    "COMPLETIONS",
    "FIXTURES",
    "LONG",
    "MESSAGES",
    "RESPONSES",
    "Captured",
    "Long",
    "read",
]

CAPTURED = (*VLLM, *LLAMACPP, *SGLANG, *DYNAMO, *TFSERVE)


def read(path: str, reads: list[tuple[int, bytes]]) -> Content:
    """What the reader of a path makes of these reads."""
    reader = reader_of(path)
    at_ns = 0
    for at_ns, data in reads:
        reader.feed(data, at_ns)
    return reader.end(at_ns)
