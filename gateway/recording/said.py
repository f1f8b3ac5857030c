"""What does a request's body say?  Its prompt as bytes, in the order engines see it, and what it asks for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

import msgspec

from workload.row import Sampling

_ROLE, _TEXT, _OTHER = b"\xf8", b"\xf9", b"\xfa"
_DIGEST_BYTES = 16
_KEPT_SALTS = ("cache_salt", "extra_key", "lora_path")


@dataclass(frozen=True, slots=True)
class Said:
    """One request.  `seed` is what sets it apart from others with the same text; `prompt` counts as text."""

    prompt: bytes
    seed: bytes
    model: str | None
    task: str
    stream: bool
    max_tokens: int | None
    sampling: Sampling


def said(path: str, body: bytes) -> Said | None:
    """What the body of a request to `path` says; None where it is no object, or nested too deep."""
    try:
        asked: Any = msgspec.json.decode(body)
        return _said(path, asked) if isinstance(asked, dict) else None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _said(path: str, asked: Mapping[str, Any]) -> Said:
    model = asked.get("model")
    salts = [asked[name] for name in _KEPT_SALTS if asked.get(name)]
    most = asked.get("max_completion_tokens") or asked.get("max_tokens") or asked.get("max_output_tokens")
    return Said(
        prompt=b"".join(_pieces(asked)),
        seed=msgspec.json.encode([model if isinstance(model, str) else None, *salts]),
        model=model if isinstance(model, str) else None,
        task=_task(path, asked),
        stream=asked.get("stream") is True,
        max_tokens=most if isinstance(most, int) and not isinstance(most, bool) and most > 0 else None,
        sampling=_sampling(asked),
    )


def _pieces(asked: Mapping[str, Any]) -> Iterator[bytes]:
    for name in ("tools", "functions", "documents"):
        if asked.get(name):
            yield _OTHER + msgspec.json.encode(asked[name])
    for name in ("system", "instructions"):
        if asked.get(name):
            yield _ROLE + b"system" + _content(asked[name])
    for name in ("messages", "input"):
        said = asked.get(name)
        if isinstance(said, str):
            yield _ROLE + b"user" + _TEXT + _plain(said)
        elif isinstance(said, list):
            yield from map(_message, said)
    for name in ("prompt", "text", "inputs", "input_ids", "token_ids"):
        said = asked.get(name)
        if isinstance(said, str):
            yield _TEXT + _plain(said)
        elif said is not None:
            yield _OTHER + msgspec.json.encode(said)


def _message(message: Any) -> bytes:
    if not isinstance(message, dict):
        return _OTHER + msgspec.json.encode(message)
    role = message.get("role")
    if not isinstance(role, str):
        return _OTHER + msgspec.json.encode(message)
    whole = _ROLE + _plain(role) + _content(message.get("content"))
    for name in ("tool_calls", "tool_call_id", "function_call", "reasoning_content", "reasoning"):
        if message.get(name):
            whole += _OTHER + msgspec.json.encode(message[name])
    return whole


def _content(content: Any) -> bytes:
    if isinstance(content, str):
        return _TEXT + _plain(content)
    if content is None:
        return b""
    if not isinstance(content, list):
        return _OTHER + msgspec.json.encode(content)
    return b"".join(map(_part, content))


def _part(part: Any) -> bytes:
    if isinstance(part, dict):
        text = part.get("text")
        if isinstance(text, str) and part.get("type") in ("text", "input_text", "output_text"):
            return _TEXT + _plain(text)
    # An image is not text: it stands for itself by its digest.
    return _OTHER + blake2b(msgspec.json.encode(part), digest_size=_DIGEST_BYTES).digest()


def _plain(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _task(path: str, asked: Mapping[str, Any]) -> str:
    """The kind of work, of a closed set: plain, chat, tools, json, or vision."""
    if asked.get("tools") or asked.get("functions"):
        return "tools"
    shape = asked.get("response_format")
    if isinstance(shape, dict) and shape.get("type") in ("json_object", "json_schema"):
        return "json"
    messages = asked.get("messages") or asked.get("input")
    if isinstance(messages, list):
        return "vision" if any(map(_shows, messages)) else "chat"
    return "chat" if path.startswith("/v1/responses") else "plain"


def _shows(message: Any) -> bool:
    content = message.get("content") if isinstance(message, dict) else None
    parts: Sequence[Any] = content if isinstance(content, list) else ()
    return any(isinstance(part, dict) and "image" in str(part.get("type")) for part in parts)


def _sampling(asked: Mapping[str, Any]) -> Sampling:
    given = {name: asked.get(name) for name in Sampling.__struct_fields__}
    kept = {name: value for name, value in given.items() if _is_number(value)}
    try:
        return msgspec.convert(kept, Sampling)
    except msgspec.ValidationError:
        return Sampling()


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
