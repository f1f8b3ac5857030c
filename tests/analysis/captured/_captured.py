"""What is written down of a captured answer, and where are its bytes?"""

import gzip
from dataclasses import dataclass
from pathlib import Path

from analysis.transcript import TokenSource

FIXTURES = Path(__file__).parents[1] / "fixtures"
CHAT, COMPLETIONS = "/v1/chat/completions", "/v1/completions"
RESPONSES, MESSAGES = "/v1/responses", "/v1/messages"


@dataclass(frozen=True)
class Captured:
    """One captured answer: `texts` and `reasons` by choice, `events` how many token events."""

    file: str
    path: str
    texts: tuple[str, ...]
    reasons: tuple[str | None, ...]
    events: int
    tokens: int | None
    source: TokenSource | None
    prompt: int | None = None
    cached: int | None = None

    @property
    def raw(self) -> bytes:
        return (FIXTURES / self.file).read_bytes()


@dataclass(frozen=True)
class Long:
    """One captured stream of many events and of one choice, kept compressed.

    Its text `begins` and `ends` so and has so many `characters`; `complaint` is how its error begins.
    """

    file: str
    path: str
    begins: str
    ends: str
    characters: int
    events: int
    reason: str | None
    complaint: str | None = None

    @property
    def raw(self) -> bytes:
        return gzip.decompress((FIXTURES / f"{self.file}.gz").read_bytes())
