"""How do text completions answer?  OpenAI's /v1/completions."""

from dataclasses import dataclass

from analysis.readers._choice import ChoiceDraft
from analysis.readers._openai import ChunkDialect, Part, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/v1/completions",)


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


def say(part: Part, choice: ChoiceDraft) -> tuple[bool, bool]:
    """Chunks of `text_completion`, or one of them in one piece."""
    said = words(part.text)
    if said:
        choice.texts.append(said)
    return False, bool(said)


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(ChunkDialect(say))
