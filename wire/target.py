"""A request's target in absolute form, as clients write it that take the gateway for a proxy: its path."""

import re
from typing import Final

# RFC 9110 4.2: no one's name before an @, which would have a reader take one host for another.
_ABSOLUTE: Final = re.compile(
    rb"https?://(?:[A-Za-z0-9._~-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{0,5})?(?P<rest>[/?].*)?\Z",
    re.IGNORECASE | re.DOTALL,
)


def origin_form(method: bytes, target: bytes) -> bytes:
    """The target as a server is asked for it (RFC 9112 3.2.1); one that is no `http` or `https` URL stays.

    Whom it names does not matter here: fleets are chosen by the model, and engines get a Host of their own.
    """
    found = _ABSOLUTE.match(target)
    if found is None:
        return target
    rest: bytes = found["rest"] or b""
    if rest.startswith(b"/"):
        return rest
    return b"*" if not rest and method == b"OPTIONS" else b"/" + rest
