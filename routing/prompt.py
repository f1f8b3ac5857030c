"""What prompt a request body holds.

`read` decodes the few fields that name the prompt. A body whose fields have other types than expected is no
error here: it is chained as the bytes it is, and the engine judges it.
"""

import re
from collections.abc import Callable
from typing import Final

from msgspec import MsgspecError, Raw, ValidationError
from msgspec.structs import astuple
from xxhash import xxh3_64_intdigest

from routing import bodies, canonical, loops
from routing.bodies import NO_CHAT, NO_HEAD, RARE_OF_CHAT, RARE_OF_HEAD
from routing.canonical import FRONT, named
from routing.chain import Chain, session
from routing.types import Prompt

_BOM: Final = b"\xef\xbb\xbf"
# Half an emoji, as cut by clients whose strings are UTF-16: legal JSON, but the decoder refuses it.
_HALF_PAIR: Final = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}(?!\\u[dD][c-fC-F][0-9a-fA-F]{2})"
    rb"|(?<!\\u[dD][89abAB][0-9a-fA-F]{2})\\u[dD][c-fC-F][0-9a-fA-F]{2}"
)
_MOST_PAIRS: Final = 10_000
# 8 MB of `{},` would be three million messages and seconds of work: past this, a body is taken as it is.
_LONG_BYTES: Final = 64 * 1024
_MOST_OBJECTS: Final = 20_000
_MOST_FIELDS: Final = 200_000
_FIELD_BYTES: Final = 5  # `"":0,`
_MOST_TOKENS: Final = 2**63 - 1
_Reader = Callable[[bytes | memoryview, bytes], Prompt]


class Unreadable(Exception):
    """The body cannot be routed by: not JSON, not an object, or its model is not a name."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def read(path: str, body: bytes | memoryview, key: bytes) -> Prompt:
    """The prompt of a request to `path` (a query is ignored). `key` is the deployment's secret.

    Raises `Unreadable`, whose reason is fit to be told to the client, and nothing else.
    """
    reader = _READERS.get(path)
    if reader is None:
        reader = _READERS.get(path.partition("?")[0])
    if body[:3] == _BOM:
        body = body[3:]
    if len(body) > _LONG_BYTES:
        whole = bytes(body)
        if _more_than(whole, b"{", _MOST_OBJECTS) or (
            len(whole) > _FIELD_BYTES * _MOST_FIELDS and _more_than(whole, b":", _MOST_FIELDS)
        ):
            reader = None
    try:
        return _read(reader, body, key)
    except Unreadable:
        broken = bytes(body)
        if not 0 < broken.count(b"\\ud") + broken.count(b"\\uD") <= _MOST_PAIRS:
            raise
        return _read(reader, _HALF_PAIR.sub(rb"\\ufffd", broken), key)


def _more_than(text: bytes, byte: bytes, most: int) -> bool:
    """Whether a byte is in it more often. To leave them out and see what is left takes a fifth of `count`."""
    return len(text) > most and len(text) - len(text.replace(byte, b"", most + 1)) > most


def _read(reader: _Reader | None, body: bytes | memoryview, key: bytes) -> Prompt:
    if reader is not None:
        try:
            return reader(body, key)
        except (MsgspecError, RecursionError):
            pass  # another shape than expected, or not JSON: the loose reading tells which
    return _as_it_is(body, key)


def _chat(body: bytes | memoryview, key: bytes) -> Prompt:
    return _talk(bodies.chat.decode(body), b"chat", key)


def _anthropic(body: bytes | memoryview, key: bytes) -> Prompt:
    return _talk(bodies.chat.decode(body), b"messages", key)


def _talk(asked: bodies.Chat, kind: bytes, key: bytes) -> Prompt:
    fields = astuple(asked)
    if fields[RARE_OF_CHAT] == NO_CHAT and fields[RARE_OF_HEAD] == NO_HEAD:
        model = asked.model
        chain = Chain(kind if model is None else b"%b\xf9%b" % (kind, model.encode()), key)
    else:
        chain = Chain(_head(asked, kind) + _shape(asked), key)
        chain.add(named(b"tools", asked.tools) + named(b"functions", asked.functions))
        chain.add(named(b"documents", asked.documents))
        if asked.system:
            chain.add(FRONT + canonical.text_or_parts(asked.system, chain))
    root, turns, open_at = None, 0, -1
    opening = loops.opening(asked.messages)
    for said in asked.messages:
        if said is opening:
            open_at = len(chain.hashes)
        canonical.add_message(said, chain)
        role = said.role
        if role == "assistant":
            turns += 1
        elif root is None and role == "user":
            root = chain.link
    prompt = _prompt(asked, chain, root, turns, asked.max_completion_tokens or asked.max_tokens)
    prompt.open_at = open_at
    return prompt


def _shape(asked: bodies.Chat) -> bytes:
    """What else the template is told, or is told of how the prompt ends."""
    shape = named(b"reasoning_effort", asked.reasoning_effort) + named(b"thinking", asked.thinking)
    shape += named(b"chat_template", asked.chat_template)
    shape += named(b"chat_template_kwargs", asked.chat_template_kwargs)
    if asked.tool_choice and bytes(asked.tool_choice) != b'"auto"':  # which is what it is when left out
        shape += named(b"tool_choice", asked.tool_choice)
    shape += named(b"add_generation_prompt", asked.add_generation_prompt)
    shape += named(b"continue_final_message", asked.continue_final_message)
    return shape + named(b"mm_processor_kwargs", asked.mm_processor_kwargs)


def _responses(body: bytes | memoryview, key: bytes) -> Prompt:
    asked = bodies.responses.decode(body)
    # What a previous response holds is the engine's to know: its id stands for it, and for at least one turn.
    previous = named(b"previous_response_id", asked.previous_response_id)
    chain = Chain(_head(asked, b"responses") + previous + named(b"reasoning", asked.reasoning), key)
    add = chain.add
    add(named(b"tools", asked.tools))
    if asked.instructions:
        add(FRONT + canonical.text_or_parts(asked.instructions, chain))
    root, turns = None, 1 if previous else 0
    if isinstance(asked.input, str):
        canonical.add_message(bodies.Message("user", asked.input), chain)
    else:
        for item in asked.input or ():
            add(canonical.item(item, chain))
            role = bytes(item.get("role", b""))
            if role == b'"assistant"':
                turns += 1
            elif root is None and role == b'"user"':
                root = chain.link
    return _prompt(asked, chain, root, turns, asked.max_output_tokens)


def _plain(body: bytes | memoryview, key: bytes) -> Prompt:
    asked = bodies.plain.decode(body)
    head = _head(asked, b"plain") + named(b"suffix", asked.suffix)
    if asked.image_data:
        head += named(b"image_data", asked.image_data)
    chain = Chain(head, key)
    for name, raw in (
        (b"prompt", asked.prompt),
        (b"text", asked.text),
        (b"inputs", asked.inputs),
        (b"input_ids", asked.input_ids),
        (b"token_ids", asked.token_ids),
    ):
        if not raw:
            continue
        given = bytes(raw)
        if given[:1] == b'"':
            chain.add(canonical.TEXT + bodies.string.decode(given).encode())
        elif given != b"null":  # token ids, or several prompts: as they are, with no length before them
            chain.add(canonical.JSON + name + given)
    sampling = asked.sampling_params or asked.parameters
    most = asked.max_tokens or asked.n_predict
    if sampling is not None:
        most = sampling.max_new_tokens or sampling.max_tokens or most
    return _prompt(asked, chain, None, 0, most)


def _as_it_is(body: bytes | memoryview, key: bytes) -> Prompt:
    if not len(body):
        raise Unreadable("the body is empty, where a JSON object was expected")
    try:
        asked = bodies.loose.decode(body)
    except RecursionError:
        raise Unreadable("the body is nested too deeply to be read") from None
    except ValidationError:
        raise Unreadable("the body is JSON, but not an object") from None
    except MsgspecError as error:
        raise Unreadable(f"the body is not JSON: {error}") from None
    model = None
    if asked.model and bytes(asked.model) != b"null":
        try:
            model = bodies.string.decode(asked.model)
        except (MsgspecError, RecursionError):
            raise Unreadable("`model` is not a string of valid text") from None
    head = bodies.Head(model, *(getattr(asked, name) for name in _BESIDE_MODEL))
    chain = Chain(_head(head, b"raw"), key)
    chain.add(body)
    prompt = _prompt(head, chain, None, 0, asked.max_tokens)
    prompt.is_raw = True
    return prompt


_BESIDE_MODEL: Final = bodies.Head.__struct_fields__[1:]


def _head(asked: bodies.Head, kind: bytes) -> bytes:
    model = asked.model
    head = kind if model is None else b"%b\xf9%b" % (kind, model.encode())
    if (
        asked.cache_salt
        or asked.extra_key
        or asked.lora_path
        or asked.add_special_tokens
        or asked.truncate_prompt_tokens
    ):
        head += named(b"cache_salt", asked.cache_salt) + named(b"extra_key", asked.extra_key)
        head += named(b"lora_path", asked.lora_path)
        head += named(b"add_special_tokens", asked.add_special_tokens)
        head += named(b"truncate_prompt_tokens", asked.truncate_prompt_tokens)
    return head


def named_by(prompt: Prompt, name: bytes, key: bytes) -> Prompt:
    """The prompt of a session that the request's head names, which counts more than what its body says."""
    prompt.session = session(name, xxh3_64_intdigest(key))
    return prompt


def _prompt(asked: bodies.Head, chain: Chain, root: int | None, turns: int, most: Raw) -> Prompt:
    name = asked.prompt_cache_key or asked.session_id
    return Prompt(
        asked.model,
        chain.hashes,
        chain.ends,
        chain.link if root is None else root,
        turns,
        _is_true(asked.stream) if asked.stream else False,
        _count(most) if most else None,
        _session(name, chain) if name else 0,
    )


def _session(raw: Raw, chain: Chain) -> int:
    """The same for a name in the head and in the body."""
    name = bytes(raw)
    if name == b"null":
        return 0
    if name[:1] == b'"':
        try:
            name = bodies.string.decode(name).encode()
        except (MsgspecError, UnicodeError):
            pass  # half an emoji, say: then the JSON itself stands for it
    return chain.session(name)


def _is_true(raw: Raw) -> bool:
    """As engines take it: pydantic reads a bool from 1 and from "true" as well."""
    value = bytes(raw)
    if value == b"false":
        return False
    return value == b"true" or value.strip(b'"').lower() in (b"true", b"1", b"1.0", b"yes", b"on", b"t", b"y")


def _count(raw: Raw) -> int | None:
    """A number of tokens; None where the JSON is none."""
    value = bytes(raw)
    try:
        number = int(value) if value.isdigit() else int(float(value.strip(b'"')))
    except (ValueError, OverflowError):
        return None
    return number if 0 <= number <= _MOST_TOKENS else None


_READERS: dict[str, _Reader] = {
    "/v1/chat/completions": _chat,
    "/v1/messages": _anthropic,
    "/v1/responses": _responses,
    "/v1/completions": _plain,
    "/completion": _plain,
    "/completions": _plain,
    "/generate": _plain,
    "/generate_stream": _plain,
    "/inference/v1/generate": _plain,
}
