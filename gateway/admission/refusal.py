"""What a client is told whose request is not admitted: which limit, and when to come again."""

from dataclasses import dataclass

# Every reason there is: a metric's label.
KEY_REQUESTS = "key_requests"
KEY_TOKENS = "key_prompt_tokens"
KEY_CONCURRENCY = "key_concurrency"
ALL_REQUESTS = "all_requests"
ALL_TOKENS = "all_prompt_tokens"
ALL_CONCURRENCY = "all_concurrency"
TOO_MANY_TOKENS = "prompt_above_burst"
FLEET_FULL = "fleet_full"
QUEUE_ENTRIES = "queue_entries"
QUEUE_BYTES = "queue_bytes"
QUEUE_WAIT = "queue_wait"
SHED = "shed"
STOPPING = "stopping"
NO_KEY = "no_key"
UNKNOWN_KEY = "unknown_key"
REASONS = (
    KEY_REQUESTS, KEY_TOKENS, KEY_CONCURRENCY, ALL_REQUESTS, ALL_TOKENS, ALL_CONCURRENCY, TOO_MANY_TOKENS,
    FLEET_FULL, QUEUE_ENTRIES, QUEUE_BYTES, QUEUE_WAIT, SHED, STOPPING, NO_KEY,
    UNKNOWN_KEY,
)  # fmt: skip

_MOST_RETRY_AFTER_S = 3600


@dataclass(frozen=True, slots=True)
class Refused:
    """An answer of the gateway's own, as `answers.refusal` writes it.

    429 is the key's own limit, 503 the gateway's or a fleet's, 413 what no waiting makes fit, 401 nobody.
    """

    status: int
    type: str
    reason: str
    message: str
    retry_after_s: int | None = None
    degraded: str | None = None  # for `x-shadowlane-degraded`


def limited(reason: str, message: str, lacks_ns: int) -> Refused:
    """A key is above a limit of its own."""
    return Refused(429, "rate_limit_error", reason, message, whole_seconds(lacks_ns))


def overloaded(reason: str, message: str, lacks_ns: int, degraded: str | None = None) -> Refused:
    """The gateway or a fleet is out of room, whoever asks."""
    return Refused(503, "overloaded_error", reason, message, whole_seconds(lacks_ns), degraded)


def too_large(prompt_tokens: int, burst: int, whose: str) -> Refused:
    """No waiting helps: the bucket never holds as much."""
    message = f"the prompt is about {prompt_tokens} tokens, and {whose} may ask {burst} at once"
    return Refused(413, "request_too_large", TOO_MANY_TOKENS, message)


def unidentified(credential: bytes) -> Refused:
    """What one is told who is not known."""
    if credential:
        return Refused(401, "authentication_error", UNKNOWN_KEY, "the API key is not known here")
    message = "an API key is needed: Authorization: Bearer KEY"
    return Refused(401, "authentication_error", NO_KEY, message)


def whole_seconds(ns: int) -> int:
    """Retry-After's value: whole seconds, rounded up, at least 1."""
    return max(1, min(_MOST_RETRY_AFTER_S, -(-ns // 1_000_000_000)))
