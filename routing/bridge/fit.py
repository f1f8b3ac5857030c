"""Which prompts can be learned from, and what an engine is to be asked for their token ids.

Not learned: prompts with anything but text (an image's tokens are not its ids), with the client's own chat
template, cut short by the engine, continuing what only the engine knows. A prompt with thinking or with
tools' steps in it is told apart, since some templates rewrite just those (`routing.bridge.probe`).
"""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from routing.bridge.features import Feature
from routing.bridge.features import features as features_of
from routing.canonical import named

CHAT: Final = "/v1/chat/completions"
PLAIN: Final = "/v1/completions"
MESSAGES: Final = "/v1/messages"
RESPONSES: Final = "/v1/responses"
PATHS: Final = frozenset({CHAT, PLAIN, MESSAGES, RESPONSES})


class Fit(Struct, frozen=True):
    """A prompt that may be learned. `front_bytes` of its text chain are tools and documents."""

    path: str
    body: Mapping[str, Any]
    features: Feature
    front_bytes: int
    salt: str

    @property
    def roles(self) -> list[str]:
        """Whose each message is; none for a plain prompt."""
        return [str(said.get("role")) for said in self.body.get("messages") or ()]


# What vLLM's /tokenize takes of a chat. A prompt that is shaped by more must be asked of /render.
_TAKEN: Final = (
    "model",
    "messages",
    "tools",
    "chat_template_kwargs",
    "add_generation_prompt",
    "continue_final_message",
    "add_special_tokens",
    "mm_processor_kwargs",
)
_NOT_TAKEN: Final = ("documents", "reasoning_effort", "thinking")
_UNFIT: Final = (
    "chat_template",
    "truncate_prompt_tokens",
    "prompt_embeds",
    "functions",
    "function_call",
    "previous_response_id",
    "conversation",
)
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_raw: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def fit(path: str, body: bytes) -> Fit | str:
    """What a request's prompt may be learned as, or the reason why it may not."""
    path = path.partition("?")[0]
    if path not in PATHS:
        return "path"
    try:
        asked, raw = _decode(body), _raw(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return "unreadable"
    if any(asked.get(name) is not None for name in _UNFIT):
        return "unfit"
    salt = asked.get("cache_salt") or ""
    if not isinstance(salt, str):
        return "unfit"
    if path == PLAIN:
        if not isinstance(asked.get("prompt"), str) or asked.get("suffix"):
            return "unfit"
        return Fit(path, asked, Feature.NONE, 0, salt)
    try:
        features = features_of(asked)
    except RecursionError:  # from Python 3.12 on more is decoded than can be gone through
        return "unreadable"
    if features is None:
        return "unfit"
    front = len(named(b"tools", raw.get("tools", Raw()))) + len(
        named(b"documents", raw.get("documents", Raw()))
    )
    return Fit(path, asked, features, front, salt)


def tokenize_body(fit: Fit, model: str | None) -> dict[str, Any] | None:
    """What /tokenize is asked; None when it would not see all that shapes the prompt.

    `model`: the engine's own name for the model, where that differs.
    """
    asked = fit.body
    if fit.path not in (CHAT, PLAIN):
        return None
    if fit.path == PLAIN:
        body = {name: asked[name] for name in ("model", "prompt", "add_special_tokens") if name in asked}
    else:
        if any(asked.get(name) not in (None, "", [], {}) for name in _NOT_TAKEN):
            return None
        if asked.get("tool_choice") not in (None, "auto"):
            return None
        body = {name: asked[name] for name in _TAKEN if asked.get(name) is not None}
    if model is not None:
        body["model"] = model
    return body


def render_body(fit: Fit, model: str | None) -> dict[str, Any]:
    """What /render is asked: the request, not streamed. `model` as for `tokenize_body`."""
    body = {name: value for name, value in fit.body.items() if name not in ("stream", "stream_options")}
    if model is not None:
        body["model"] = model
    return body
