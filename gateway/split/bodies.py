"""What each engine of a pair is sent: the client's body with a few members set, by vLLM's way or SGLang's.

vLLM (NixlConnector and its kin): the engine that prefills is asked for one token and to keep the KV
(`do_remote_decode`); its answer's `kv_transfer_params` say where the KV lies, and go as they are into what
the other engine is asked.  SGLang: both are asked the same, with the place and the number of a room in
which they meet.  Nothing of this is taken from a client: it would name hosts that engines then connect to.
"""

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from gateway.split.splice import Object

TRANSFER: Final = "kv_transfer_params"
HOST, PORT, ROOM = "bootstrap_host", "bootstrap_port", "bootstrap_room"
OURS: Final = (TRANSFER, HOST, PORT, ROOM)

_CHAT: Final = frozenset({"/v1/chat/completions", "/chat/completions"})
_COMPLETIONS: Final = frozenset({"/v1/completions"})
PATHS: Final[Mapping[str, frozenset[str]]] = {
    "vllm": _CHAT | _COMPLETIONS,
    "sglang": _CHAT | _COMPLETIONS | {"/generate"},
}
_KEEP: Final = (
    b'{"do_remote_decode":true,"do_remote_prefill":false,"remote_engine_id":null,'
    b'"remote_block_ids":null,"remote_host":null,"remote_port":null}'
)
# What a single token cannot have, and what asks for events.
_NOT_FOR_ONE_TOKEN: Final = ("stream_options", "min_tokens", "min_completion_tokens", HOST, PORT, ROOM)


def whole(asked: Object) -> bytes:
    """For one engine that does all: nothing in it speaks of another."""
    return asked.spliced({}, OURS)


def to_prefill(asked: Object) -> bytes:
    """vLLM's first leg: one token, and its KV kept to be fetched."""
    put = {"max_tokens": b"1", "stream": b"false", TRANSFER: _KEEP}
    if asked.has("max_completion_tokens"):
        put["max_completion_tokens"] = b"1"
    return asked.spliced(put, _NOT_FOR_ONE_TOKEN)


def handed(asked: Object, transfer: bytes | None) -> bytes:
    """vLLM's second leg: all the client asked, and where the KV lies; None: nowhere, it is computed again."""
    if transfer is None:
        return whole(asked)
    return asked.spliced({TRANSFER: transfer}, (HOST, PORT, ROOM))


def meeting(path: str, asked: Object, host: str, port: int, room: Callable[[], int]) -> bytes:
    """SGLang's legs, both: a room of their own for each sequence; `room` draws a number."""
    where, count = msgspec.json.encode(host), _sequences(path, asked)
    if count is None:
        put = {HOST: where, PORT: b"%d" % port, ROOM: b"%d" % room()}
    else:
        put = {
            HOST: b"[%b]" % b",".join([where] * count),
            PORT: b"[%b]" % b",".join([b"%d" % port] * count),
            ROOM: b"[%b]" % b",".join(b"%d" % room() for _ in range(count)),
        }
    return asked.spliced(put, (TRANSFER,))


class _Answer(msgspec.Struct):
    kv_transfer_params: msgspec.Raw = msgspec.Raw()


def transfer_of(answer: bytes) -> bytes | None:
    """Where the KV lies, as vLLM's first answer says; None where it says nothing of it."""
    try:
        said = bytes(msgspec.json.decode(answer, type=_Answer).kv_transfer_params)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return said if said[:1] == b"{" and said != b"{}" else None


def is_one_sequence(asked: Object) -> bool:
    """Whether it asks for one answer to one prompt, of which nothing but the answer is wanted.

    vLLM's KV is handed over once: to one sequence.  What is told of the prompt itself (its log probabilities,
    its text before the answer) only an engine that has computed it can tell.
    """
    prompt = asked.raw("prompt") or b""
    return (
        _number(asked, "n") <= 1
        and _number(asked, "best_of") <= 1
        and not any(_is_set(asked, key) for key in ("use_beam_search", "echo", "prompt_logprobs"))
        and (prompt[:1] != b"[" or prompt[1:].lstrip()[:1].isdigit())  # tokens are one prompt, lists several
    )


def _is_set(asked: Object, key: str) -> bool:
    return asked.raw(key) not in (None, b"null", b"false", b"0")


def _number(asked: Object, key: str) -> int:
    raw = asked.raw(key) or b""
    return int(raw[:9]) if raw.isdigit() else 1


def _sequences(path: str, asked: Object) -> int | None:
    """How many sequences it asks of SGLang; None where it asks for one, and not in a list."""
    if path in _CHAT:
        count = _number(asked, "n")
        return count if count > 1 else None
    for key in ("prompt", "text", "input_ids"):
        raw = asked.raw(key)
        if raw is not None and raw[:1] == b"[" and not raw[1:].lstrip()[:1].isdigit():
            try:
                return len(msgspec.json.decode(raw, type=list[msgspec.Raw])) or None
            except (msgspec.MsgspecError, RecursionError):
                return None
    return None
