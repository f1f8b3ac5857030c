"""How an error is put into a notice: what it was, and none of the answer it was about (as `wire.errors`)."""


def told(error: BaseException) -> str:
    """The error's kind and message, at most 300 characters; of a UnicodeError not the text that was read."""
    if isinstance(error, UnicodeError):
        return f"{type(error).__name__}: {getattr(error, 'reason', 'text that cannot be read')}"
    return f"{type(error).__name__}: {error}"[:300]
