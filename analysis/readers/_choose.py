"""Which reader reads the answers of a path?"""

from analysis.readers import (
    anthropic_messages,
    generate,
    llamacpp_completion,
    opaque,
    openai_chat,
    openai_completions,
    openai_responses,
    token_ids,
)
from analysis.readers._reader import Reader


def reader_of(path: str) -> Reader:
    """A new reader for one answer to a request of this path; `opaque` where none knows it."""
    path = path.partition("?")[0].rstrip("/")
    if path in openai_chat.PATHS:
        return openai_chat.build(openai_chat.Params())
    if path in openai_completions.PATHS:
        return openai_completions.build(openai_completions.Params())
    if path in openai_responses.PATHS:
        return openai_responses.build(openai_responses.Params())
    if path in anthropic_messages.PATHS:
        return anthropic_messages.build(anthropic_messages.Params())
    if path in llamacpp_completion.PATHS:
        return llamacpp_completion.build(llamacpp_completion.Params())
    if path in generate.PATHS:
        return generate.build(generate.Params())
    if path in token_ids.PATHS:
        return token_ids.build(token_ids.Params())
    return opaque.build(opaque.Params())
