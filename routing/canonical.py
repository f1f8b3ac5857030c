"""A prompt's canonical bytes: what two requests have in common when an engine could share their prefix.

Text stands as UTF-8 behind a tag byte that UTF-8 never uses, so a text ends where the next tag begins and two
prompts never have the same bytes. JSON taken as it is (tools, a tool call) has its length before it. Nothing
long stands behind its own length, or a shared beginning of two different texts would not be seen.

Taken as the same prompt: a field absent, null or empty list; a text, and the list of that one text part;
with and without `cache_control` marks on text, thinking, tool use and tool results.
"""

from collections.abc import Sequence

from msgspec import Raw

from routing import bodies
from routing.chain import Chain

MESSAGE = b"\xf8"
TEXT = b"\xf9"
DIGEST = b"\xfa"
JSON = b"\xfb"
FRONT = b"\xfc"
BLOCK = b"\xfd"
END = b"\xfe"
_TEXT_TYPES = frozenset({"text", "input_text", "output_text"})
_NOTHING = (b"null", b"[]")


def named(name: bytes, raw: Raw) -> bytes:
    """A field as the JSON it is, by its name; nothing when it is absent, null or an empty list."""
    if not raw:
        return b""
    value = bytes(raw)
    if value in _NOTHING:
        return b""
    return b"%b%b=%b%b" % (JSON, name, len(value).to_bytes(8, "big"), value)


def message(said: bodies.Message, chain: Chain) -> bytes:
    """One chat message: who, what, and the tool calls."""
    content = said.content
    if isinstance(content, str):
        whole = b"\xf8%b\xf9%b" % (said.role.encode(), content.encode())
    else:
        whole = MESSAGE + said.role.encode()
        if content:
            whole += parts(content, chain)
    if (
        said.tool_calls
        or said.tool_call_id
        or said.name
        or said.reasoning_content
        or said.reasoning
        or said.function_call
    ):
        whole += named(b"tool_calls", said.tool_calls) + named(b"tool_call_id", said.tool_call_id)
        whole += named(b"name", said.name) + named(b"function_call", said.function_call)
        whole += named(b"reasoning_content", said.reasoning_content) + named(b"reasoning", said.reasoning)
    return whole


def parts(contents: Sequence[Raw], chain: Chain) -> bytes:
    """Content parts, in order. Raises msgspec's errors where one is not an object."""
    return b"".join([_part(raw, chain) for raw in contents])


def text_or_parts(raw: Raw, chain: Chain) -> bytes:
    """A field that is a text or a list of parts; whatever else it is stands as JSON."""
    start = bytes(memoryview(raw)[:1])
    if start == b'"':
        return TEXT + bodies.string.decode(raw).encode()
    if start == b"[":
        return parts(bodies.items.decode(raw), chain)
    return named(b"", raw)


def _part(raw: Raw, chain: Chain) -> bytes:
    part = bodies.part.decode(raw)
    if part.text is not None and part.type in _TEXT_TYPES:
        return TEXT + part.text.encode()
    if part.type == "tool_result":
        what = text_or_parts(part.content, chain) if part.content else b""
        marks = named(b"tool_use_id", part.tool_use_id) + named(b"is_error", part.is_error)
        return BLOCK + marks + what + END
    if part.type == "tool_use":
        call = named(b"id", part.id) + named(b"name", part.name) + named(b"input", part.input)
        return BLOCK + b"tool_use" + call + END
    if part.type == "thinking":
        thought = named(b"thinking", part.thinking) + named(b"signature", part.signature)
        return BLOCK + b"thinking" + thought + END
    return DIGEST + chain.digest(memoryview(raw))
