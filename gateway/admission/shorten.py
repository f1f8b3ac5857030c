"""How a request is made to ask for less output: its limit lowered, every other field's text as it was."""

from collections.abc import Mapping
from typing import Any

import msgspec

_Place = tuple[str, ...]
# Where each API has its limit.  What stands there is lowered; where nothing does, the first place is filled.
_MAX_TOKENS: _Place = ("max_tokens",)
_CHAT: tuple[_Place, ...] = (_MAX_TOKENS, ("max_completion_tokens",))
_LLAMACPP: tuple[_Place, ...] = (("n_predict",), _MAX_TOKENS)
_SGLANG: tuple[_Place, ...] = (("sampling_params", "max_new_tokens"),)
_TGI: tuple[_Place, ...] = (("parameters", "max_new_tokens"),)
_PLACES: Mapping[str, tuple[_Place, ...]] = {
    "/v1/chat/completions": _CHAT,
    "/chat/completions": _CHAT,
    "/v1/completions": (_MAX_TOKENS,),
    "/v1/messages": (_MAX_TOKENS,),
    "/v1/responses": (("max_output_tokens",),),
    "/inference/v1/generate": (("sampling_params", "max_tokens"),),
    "/completion": _LLAMACPP,
    "/completions": _LLAMACPP,
    "/infill": _LLAMACPP,
    "/generate": _SGLANG,
    "/generate_stream": _TGI,
}
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


def shortened(path: str, body: bytes, most_tokens: int) -> bytes | None:
    """The body of a request for `path` with its output limited to `most_tokens`, itself if it asks for less.

    None where the path has no such limit or the body cannot be read.
    """
    try:
        fields = _fields(body)
        places = _TGI if path == "/generate" and "inputs" in fields else _PLACES.get(path)
        if places is None:
            return None
        written = [place for place in places if _asks(fields, place) is not None]
        if written and all(0 <= (_asks(fields, place) or 0) <= most_tokens for place in written):
            return body
        for place in written or places[:1]:
            _lower(fields, place, most_tokens)
        return msgspec.json.encode(fields)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None


def _asks(fields: dict[str, msgspec.Raw], place: _Place) -> int | None:
    """The limit that is written there; below 0 is llama.cpp's "none"."""
    here = fields
    for step in place[:-1]:
        here = _fields(here[step]) if step in here else {}
    asked: Any = msgspec.json.decode(here[place[-1]]) if place[-1] in here else None
    return asked if isinstance(asked, int) and not isinstance(asked, bool) else None


def _lower(fields: dict[str, msgspec.Raw], place: _Place, most_tokens: int) -> None:
    first, *rest = place
    if rest:
        inner = _fields(fields[first]) if first in fields else {}
        _lower(inner, tuple(rest), most_tokens)
        fields[first] = msgspec.Raw(msgspec.json.encode(inner))
    elif not 0 <= (most_tokens + 1 if (asked := _asks(fields, place)) is None else asked) <= most_tokens:
        fields[first] = msgspec.Raw(b"%d" % most_tokens)
