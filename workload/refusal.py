"""Why does a server refuse a request?  In its own words, as far as it says any."""

from typing import Any, Final

import msgspec

from wire.plain import plain

_LONGEST: Final = 200  # characters


def words_of(answer: bytes) -> str | None:
    """What an answer that is an error says, in one line; None where it says nothing.

    Engines write {"error": {"message"}}, {"error"}, {"message"}, {"detail"}, or plain text.
    """
    try:
        said: Any = msgspec.json.decode(answer)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        said = answer.decode("utf-8", "replace")
    for name in ("error", "message", "detail"):
        if isinstance(said, dict):
            said = said.get(name, said)
    if not isinstance(said, str):
        return None
    line = " ".join(plain(said).split())
    return (line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}…") or None
