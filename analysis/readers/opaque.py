"""How long did an answer take whose protocol nobody here reads?  Embeddings, rerankings and the like."""

from dataclasses import dataclass

from analysis.readers._reader import Reader
from analysis.transcript import Content

PATHS: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


class Opaque:
    """Notes the last byte and nothing else; a complete message is a finished answer."""

    def __init__(self) -> None:
        self._last_ns: int | None = None

    def feed(self, data: bytes, at_ns: int) -> None:
        if data:
            self._last_ns = at_ns

    def end(self, at_ns: int) -> Content:
        return Content(last_ns=self._last_ns, finished=True, opaque=True)


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return Opaque()
