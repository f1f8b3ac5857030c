"""What does an SGLang engine say of its load?  Its scheduler's LoadStat, as it changes and every second."""

from collections.abc import Sequence
from typing import Final

import msgspec

from routing.events.board import Load

# The fields behind the tag, as far as they are of use; newer ones may be missing.
_RUNNING, _QUEUED, _USED, _MOST, _RANK, _UNCACHED = range(1, 7)
_HIGHEST: Final = (1 << 63) - 1


def load(payload: bytes, at_ns: int) -> Load | None:
    """The load in a message's last frame, heard at `at_ns`; None for what is none."""
    try:
        said = msgspec.msgpack.decode(payload)
    except (msgspec.DecodeError, ValueError, TypeError, RecursionError):
        return None
    if not isinstance(said, list) or len(said) <= _MOST or said[0] != "LoadStat":
        return None
    numbers = [_number(said, at) for at in (_RUNNING, _QUEUED, _USED, _MOST)]
    if None in numbers:
        return None
    running, queued, used, most = (number or 0 for number in numbers)
    uncached = _number(said, _UNCACHED)
    return Load(at_ns, running, queued, used, most, uncached or 0)


def _number(said: Sequence[object], at: int) -> int | None:
    found = said[at] if at < len(said) else None
    return found if type(found) is int and 0 <= found <= _HIGHEST else None
