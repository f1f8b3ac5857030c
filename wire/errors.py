"""How an error is put into a log: what it was, and none of the data it was about."""


def told(error: BaseException) -> str:
    """The error's kind and message, at most 300 characters.

    `repr` of a UnicodeError holds the whole text that was being read: a prompt, or a header with a key.
    """
    if isinstance(error, UnicodeError):
        reason = getattr(error, "reason", "text that cannot be read")
        return f"{type(error).__name__}: {reason} at {getattr(error, 'start', '?')}"
    return f"{type(error).__name__}: {error}"[:300]
