"""What is taken out of text before it is written: whatever the operator's patterns match."""

import re
from collections.abc import Sequence
from typing import Any

import msgspec

REPLACED = "[redacted]"


class Redaction:
    """Replaces the matches of `patterns` (regular expressions) in every string of a request or an answer."""

    def __init__(self, patterns: Sequence[str]) -> None:
        self._patterns = [re.compile(pattern) for pattern in patterns]

    def text(self, text: str) -> str:
        """The text without what matches."""
        for pattern in self._patterns:
            text = pattern.sub(REPLACED, text)
        return text

    def request(self, body: bytes) -> dict[str, Any] | None:
        """The body as an object, every string in it redacted; names of fields stay, and so does the model's
        name: it stands beside the text, too, and without it nobody could send the request again.

        None where it is no object, or nested deeper than can be gone through.
        """
        try:
            said = msgspec.json.decode(body)
            clean = self._clean(said)
        except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            return None
        if not isinstance(clean, dict):
            return None
        if isinstance(said.get("model"), str):
            clean["model"] = said["model"]
        return clean

    def _clean(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, list):
            return [self._clean(one) for one in value]
        if isinstance(value, dict):
            return {name: self._clean(one) for name, one in value.items()}
        return value
