"""The shapes that OpenAI-like answers share: usage, errors, tool calls, token ids."""

from typing import Any

import msgspec

from analysis.readers._draft import Draft


class Details(msgspec.Struct):
    """Of the prompt's tokens, those read from a cache."""

    cached_tokens: int | None = None


class Usage(msgspec.Struct):
    """Token counts, under any of the names in use."""

    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    prompt_tokens_details: Details | None = None


class Timings(msgspec.Struct):
    """llama.cpp's own counts, which come even where no usage was asked for."""

    cache_n: int | None = None
    prompt_n: int | None = None
    predicted_n: int | None = None


class Function(msgspec.Struct):
    """A called function, or a fragment of it."""

    name: str | None = None
    arguments: Any = None


class Tool(msgspec.Struct):
    """A tool call, or a fragment of it."""

    index: int | None = None
    id: str | None = None
    function: Function | None = None


def words(value: Any) -> str:
    """The text of a field that is a string, null, or (in some engines) a JSON value."""
    if isinstance(value, str):
        return value
    return "" if value is None else msgspec.json.encode(value).decode()


def reason(value: Any) -> str | None:
    """A finish reason, which some engines give as an object with a type."""
    if isinstance(value, dict):
        value = value.get("type")
    return value if isinstance(value, str) and value else None


def take_usage(draft: Draft, at_ns: int, begun: int, usage: Usage | None, timings: Timings | None) -> None:
    """Books the counts that came with a chunk; `begun` is the number of token events before that chunk."""
    if usage is not None:
        details = usage.prompt_tokens_details
        cached = details.cached_tokens if details is not None else None
        draft.usage(at_ns, usage.prompt_tokens, usage.completion_tokens, cached, begun=begun)
    elif timings is not None and timings.predicted_n is not None:
        prompt = None if timings.prompt_n is None else timings.prompt_n + (timings.cache_n or 0)
        draft.usage(at_ns, prompt, timings.predicted_n, timings.cache_n, begun=begun)
    elif draft.events > begun:
        draft.uncounted()


def complaint(error: Any) -> str:
    """What an error object says."""
    if isinstance(error, dict) and isinstance(error.get("message"), str):
        return str(error["message"])
    return words(error)
