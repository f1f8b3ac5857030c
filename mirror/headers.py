"""Which of a client's headers may travel with a copy: an allow-list, so unknown credentials stay behind."""

from collections.abc import Iterable

MARKER = b"x-shadowlane-copy"

# What describes the body or the conversation, and nothing that names or authorises a person.  `traceparent`
# stays behind: a candidate's spans are no part of the user's trace.  `x-request-id` is derived anew by the
# sender.
_TRAVELS = frozenset(
    {
        b"content-type",
        b"content-encoding",
        b"accept",
        b"user-agent",
        b"x-session-id",
        b"x-session-affinity",
        b"anthropic-version",
        b"anthropic-beta",
    }
)


def copy_headers(headers: Iterable[tuple[bytes, bytes]]) -> list[tuple[bytes, bytes]]:
    """The headers of a copy, names in lower case, in the order they came."""
    kept = []
    for name, value in headers:
        low = bytes(name).lower()
        if low in _TRAVELS and not (b"\r" in value or b"\n" in value or b"\0" in value):
            kept.append((low, bytes(value)))
    return kept


def is_copy(headers: Iterable[tuple[bytes, bytes]]) -> bool:
    """Whether a request is itself a copy, sent by some Shadowlane: it must not be copied again."""
    return any(name.lower() == MARKER for name, _ in headers)
