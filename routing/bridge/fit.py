"""Which prompts can be learned from, and what an engine is to be asked for their token ids.

Not learned: prompts with anything but text (an image's tokens are not its ids), with the client's own chat
template, cut short by the engine, or of an API whose prompt the engine does not tell the ids of. A prompt
with thinking or with tools' steps in it is told apart, since some templates rewrite just those
(`routing.bridge.probe`).
"""

from collections.abc import Mapping
from enum import IntFlag
from typing import Any, Final

import msgspec
from msgspec import Raw, Struct

from routing.canonical import named

CHAT: Final = "/v1/chat/completions"
PLAIN: Final = "/v1/completions"


class Feature(IntFlag):
    """What a prompt has that some templates rewrite later."""

    NONE = 0
    THINKING = 1
    TOOLS = 2


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
        return [str(said.get("role")) for said in self.body.get("messages", ())]


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
_UNFIT: Final = ("chat_template", "truncate_prompt_tokens", "prompt_embeds", "functions", "function_call")
_decode: Final = msgspec.json.Decoder(dict[str, Any]).decode
_raw: Final = msgspec.json.Decoder(dict[str, Raw]).decode


def fit(path: str, body: bytes) -> Fit | str:
    """What a request's prompt may be learned as, or the reason why it may not."""
    path = path.partition("?")[0]
    if path not in (CHAT, PLAIN):
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
    features = _features(asked)
    if features is None:
        return "unfit"
    front = len(named(b"tools", raw.get("tools", Raw()))) + len(
        named(b"documents", raw.get("documents", Raw()))
    )
    return Fit(path, asked, features, front, salt)


def _features(asked: Mapping[str, Any]) -> Feature | None:
    """None: something of it is not text."""
    messages = asked.get("messages")
    if not isinstance(messages, list):
        return None
    found = Feature.TOOLS if asked.get("tools") else Feature.NONE
    for said in messages:
        if not isinstance(said, dict):
            return None
        if said.get("tool_calls") or said.get("role") == "tool":
            found |= Feature.TOOLS
        content = said.get("content")
        if said.get("reasoning") or said.get("reasoning_content"):
            found |= Feature.THINKING
        texts = [content]
        if isinstance(content, list):
            texts = [part.get("text") if _is_text(part) else part for part in content]
        for text in texts:
            if isinstance(text, str):
                if "</think" in text or "<think" in text:
                    found |= Feature.THINKING
            elif text is not None:
                return None
    return found


def _is_text(part: object) -> bool:
    return isinstance(part, dict) and part.get("type") == "text"


def tokenize_body(fit: Fit, model: str | None) -> dict[str, Any] | None:
    """What /tokenize is asked; None when it would not see all that shapes the prompt.

    `model`: the engine's own name for the model, where that differs.
    """
    asked = fit.body
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
