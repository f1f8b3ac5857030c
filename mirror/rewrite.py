"""How a copy's body differs from the client's: by declared rewrites only, all else byte for byte the same."""

import hashlib

import msgspec

from analysis.fields import FORM
from wire.dialect import Dialect

MODEL = "model"
USAGE = "stream_options.include_usage"
TOKEN_IDS = "return_token_ids"
SALT = "cache_salt"
LOGPROBS = "logprobs"
WHOLE = "stream"

_CHAT = frozenset({"/v1/chat/completions", "/chat/completions"})
_OPENAI = frozenset({"/v1/chat/completions", "/v1/completions", "/chat/completions", "/completions"})

_FORM_BYTES = 64 << 10

# A value stays the raw text it was: numbers are not rounded, escapes not undone, unknown fields not lost.
_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_word = msgspec.json.Decoder(str)


class Body:
    """One request's body, parsed once for all arms.

    A body that is not a JSON object (an engine will refuse it, every arm alike), or that is compressed, is
    sent as it is.
    """

    def __init__(self, path: str, body: bytes, *, encoded: bool = False) -> None:
        self._body = body
        plain = path.partition("?")[0].rstrip("/")
        self._openai, self._chat = plain in _OPENAI, plain in _CHAT
        self._fields: dict[str, msgspec.Raw] | None = None
        if not encoded:
            try:
                self._fields = _fields.decode(body)
            except (msgspec.DecodeError, UnicodeDecodeError):
                pass

    def for_arm(
        self,
        model: str | None,
        dialect: Dialect,
        models: tuple[str, ...],
        salt: str | None,
        logprobs: int = 0,
        *,
        ids: bool = False,
    ) -> tuple[bytes, tuple[str, ...]]:
        """The body for one arm and the names of the rewrites applied; with none, the client's very bytes.

        `model` is the arm's own name for the model, None to leave the client's; `models` are the names it
        may replace (empty: any).  `salt` makes the prefix cache treat the copy as another tenant's, where
        the arm's engine knows how; a salt of the client's own is kept apart still.  `logprobs`: of so many
        alternatives they are asked for, where the client asks for none and offers no tools (llama.cpp refuses
        both at once).  `ids`: its tokens' ids are wanted even if they come with an answer in one piece only.
        """
        if self._fields is None:
            return self._body, ()
        changes: dict[str, tuple[str, bytes]] = {}
        if (name := self.model_for(model, models)) != self._model:
            changes["model"] = MODEL, msgspec.json.encode(name)
        if self._openai:
            whole = ids and dialect.tells_token_ids_whole
            if whole and self._streams:
                changes["stream"] = WHOLE, b"false"
                if "stream_options" in self._fields:
                    changes["stream_options"] = WHOLE, b"null"
            elif (options := self._usage_asked()) is not None:
                changes["stream_options"] = USAGE, options
            if (dialect.tells_token_ids or whole) and "return_token_ids" not in self._fields:
                changes["return_token_ids"] = TOKEN_IDS, b"true"
            if logprobs and not self._fields.keys() & {"logprobs", "top_logprobs", "tools"}:
                top = str(logprobs).encode()
                changes["logprobs"] = LOGPROBS, b"true" if self._chat else top
                if self._chat:
                    changes["top_logprobs"] = LOGPROBS, top
            if salt is not None and dialect.takes_cache_salt:
                own = _read(self._fields.get("cache_salt")) or ""
                mixed = hashlib.blake2b(f"{salt}\0{own}".encode(), digest_size=16).hexdigest()
                changes["cache_salt"] = SALT, msgspec.json.encode(mixed)
        if not changes:
            return self._body, ()
        fields = self._fields | {key: msgspec.Raw(value) for key, (_, value) in changes.items()}
        return msgspec.json.encode(fields), tuple(dict.fromkeys(name for name, _ in changes.values()))

    def model_for(self, model: str | None, models: tuple[str, ...]) -> str | None:
        """The name of the model that one arm is asked for; None where the client names none."""
        name = self._model
        return model if name is not None and model is not None and (not models or name in models) else name

    @property
    def _model(self) -> str | None:
        return None if self._fields is None else _read(self._fields.get("model"))

    def form(self) -> dict[str, bytes]:
        """What the request asks of its answer's form, in its own words: schemas and tools, not its prompt.

        Nothing where that is long: the pair is compared without.
        """
        if self._fields is None:
            return {}
        found = {name: bytes(self._fields[name]) for name in FORM if name in self._fields}
        return found if sum(map(len, found.values())) <= _FORM_BYTES else {}

    @property
    def _streams(self) -> bool:
        return self._fields is not None and bytes(self._fields.get("stream", b"")).strip() == b"true"

    def _usage_asked(self) -> bytes | None:
        """`stream_options` with the usage asked for, or None where it is already, or no stream is."""
        assert self._fields is not None
        if not self._streams:
            return None
        given = self._fields.get("stream_options")
        if given is None or bytes(given).strip() == b"null":
            return b'{"include_usage":true}'
        try:
            options = _fields.decode(given)
        except msgspec.DecodeError:
            return None
        if bytes(options.get("include_usage", b"")).strip() == b"true":
            return None
        return msgspec.json.encode(options | {"include_usage": msgspec.Raw(b"true")})


def _read(value: msgspec.Raw | None) -> str | None:
    if value is None:
        return None
    try:
        return _word.decode(value)
    except msgspec.DecodeError:
        return None
