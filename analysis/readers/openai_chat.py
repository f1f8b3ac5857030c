"""How do chat completions answer?  OpenAI's /v1/chat/completions, as engines speak it."""

from dataclasses import dataclass

from analysis.readers._choice import ChoiceDraft
from analysis.readers._openai import ChunkDialect, Part, words
from analysis.readers._reader import JsonReader, Reader

PATHS = ("/v1/chat/completions", "/chat/completions")


@dataclass(frozen=True, slots=True)
class Params:
    """Nothing to set."""


def say(part: Part, choice: ChoiceDraft) -> tuple[bool, bool]:
    """Chunks of `chat.completion.chunk`, or one `chat.completion`."""
    message = part.delta if part.delta is not None else part.message
    if message is None:
        return False, False
    thought = words(message.reasoning_content) or words(message.reasoning)
    said = words(message.content) + words(message.refusal)
    called = False
    for position, tool in enumerate(message.tool_calls or ()):
        function = tool.function
        called |= choice.tool(
            tool.index if tool.index is not None else position,
            tool.id,
            function.name if function else None,
            words(function.arguments) if function else None,
        )
    if thought:
        choice.reasonings.append(thought)
    if said:
        choice.texts.append(said)
    return bool(thought), bool(said) or called


def build(_params: Params) -> Reader:
    """A reader for one answer."""
    return JsonReader(ChunkDialect(say))
