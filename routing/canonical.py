"""A prompt's canonical bytes: what two requests have in common when an engine could share their prefix.

Text stands as UTF-8 behind a tag byte that UTF-8 never uses, so a text ends where the next tag begins and two
prompts never have the same bytes. JSON taken as it is (tools, a tool call) has its length before it. Nothing
long stands behind its own length, or a shared beginning of two different texts would not be seen.

Taken as the same prompt: a field absent, null or an empty list; a text, and the list of that one text part; a
part with and without a `cache_control` mark, since clients move that mark from turn to turn.
"""

from collections.abc import Sequence
from typing import Final

from msgspec import Raw
from msgspec.structs import astuple

from routing import bodies
from routing.bodies import NO_MESSAGE, RARE_OF_MESSAGE
from routing.chain import Chain

MESSAGE: Final = b"\xf8"
TEXT: Final = b"\xf9"
DIGEST: Final = b"\xfa"
JSON: Final = b"\xfb"
FRONT: Final = b"\xfc"
BLOCK: Final = b"\xfd"
END: Final = b"\xfe"
TEXT_TYPES: Final = frozenset({b'"text"', b'"input_text"', b'"output_text"'})
_WRITTEN_TYPES: Final = frozenset({b'"tool_use"', b'"thinking"'})
_LONG_ROLE: Final = 100
_NOTHING: Final = (b"null", b"[]")


def named(name: bytes, raw: Raw) -> bytes:
    """A field as the JSON it is, by its name; nothing when it is absent, null or an empty list."""
    if not raw:
        return b""
    value = bytes(raw)
    if value in _NOTHING:
        return b""
    return b"%b%b\xff%b%b" % (JSON, name, len(value).to_bytes(8, "big"), value)


def add_message(said: bodies.Message, chain: Chain) -> None:
    """Add one chat message: who, what, and the tool calls."""
    content = said.content
    is_plain = astuple(said)[RARE_OF_MESSAGE] == NO_MESSAGE
    if isinstance(content, str):
        if is_plain and len(said.role) < _LONG_ROLE:
            chain.add_text(b"\xf8%b\xf9" % said.role.encode(), content.encode())
            return
        whole = b"\xf8%b\xf9%b" % (said.role.encode(), content.encode())
    else:
        whole = MESSAGE + said.role.encode()
        if content:
            whole += parts(content, chain)
    if not is_plain:
        whole += named(b"tool_calls", said.tool_calls) + named(b"tool_call_id", said.tool_call_id)
        whole += named(b"name", said.name) + named(b"function_call", said.function_call)
        whole += named(b"reasoning_content", said.reasoning_content) + named(b"reasoning", said.reasoning)
    chain.add(whole)


def item(fields: bodies.Fields, chain: Chain) -> bytes:
    """One item of a response's input: a message, a tool's call, its output, or what else there may be."""
    role = fields.get("role")
    if role is None:
        return MESSAGE + BLOCK + _fields(fields) + END
    content = fields.get("content")
    said = b"" if content is None else text_or_parts(content, chain)
    return MESSAGE + bodies.string.decode(role).encode() + said


def parts(contents: Sequence[bodies.Fields], chain: Chain) -> bytes:
    """Content parts, in order. Raises msgspec's errors where a text is none."""
    return b"".join([_part(part, chain) for part in contents])


def text_or_parts(raw: Raw, chain: Chain) -> bytes:
    """A field that is a text or a list of parts; whatever else it is stands as JSON."""
    start = bytes(memoryview(raw)[:1])
    if start == b'"':
        return TEXT + bodies.string.decode(raw).encode()
    if start == b"[":
        return parts(bodies.parts.decode(raw), chain)
    return named(b"", raw)


def _part(part: bodies.Fields, chain: Chain) -> bytes:
    kind, text = bytes(part.get("type", b"")), part.get("text")
    if text is not None and kind in TEXT_TYPES:
        return TEXT + bodies.string.decode(text).encode()
    if kind == b'"tool_result"':
        content = part.pop("content", None)
        what = b"" if content is None else text_or_parts(content, chain)
        return BLOCK + _fields(part) + what + END
    fields = _fields(part)
    if kind in _WRITTEN_TYPES:
        return BLOCK + fields + END
    return DIGEST + chain.digest(fields)


def _fields(fields: bodies.Fields) -> bytes:
    return b"".join([named(name.encode(), raw) for name, raw in fields.items() if name != "cache_control"])
