"""How does /inference/v1/generate answer?  vLLM's scale-out endpoint: token ids out, and no text.

The ids stand for the text: two answers are the same where their ids are.
"""

from dataclasses import dataclass

from analysis.readers._choice import ChoiceDraft
from analysis.readers._openai import ChunkDialect, Part
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/inference/v1/generate",)


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


def say(part: Part, choice: ChoiceDraft) -> tuple[bool, bool]:
    """Chunks of token ids, or all of them in one piece."""
    said = "".join(f"{token} " for token in part.token_ids or ())
    if said:
        choice.texts.append(said)
    return False, bool(said)


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(ChunkDialect(say))
