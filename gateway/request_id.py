"""Which id does a request go by?  Its client's own, where that is one; else one made here."""

import re
from collections.abc import Callable
from typing import Final

_LONGEST: Final = 128
_ID: Final = re.compile(rb"[A-Za-z0-9._:/+=@~-]{1,%d}\Z" % _LONGEST)


class Ids:
    """Ids for requests that bring none: what they begin with is the process's, then they are counted."""

    __slots__ = ("_made", "_start")

    def __init__(self, start: bytes) -> None:
        self._start = start
        self._made = 0

    def new(self) -> bytes:
        self._made += 1
        return b"%b%d" % (self._start, self._made)


def request_id(given: bytes, new: Callable[[], bytes]) -> bytes:
    """The id of a request that came with `given` as its x-request-id; `b""` when it came with none.

    It goes into logs, to engines and back to the client, so one that is long, or holds anything that could
    mean something in a header, a log line or a page, is replaced by `new()`.
    """
    return given if given and _ID.match(given) else new()
