"""The gateway's own answer in place of an engine's."""

from collections.abc import Sequence

from gateway.outcome import Outcome


class Refused(Exception):
    """What a client is told; `reason` is what it is counted under.

    `kind` is the error's type for the client, `what` the request's outcome, `extra` further header lines.
    """

    def __init__(
        self, status: int, message: str, reason: str, *, kind: str = "invalid_request_error",
        what: Outcome = Outcome.CLIENT_ERROR, code: str | None = None, param: str | None = None,
        retry_after_s: int | None = None, extra: Sequence[str] = (),
    ) -> None:  # fmt: skip
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.what = what
        self.reason = reason
        self.code = code
        self.param = param
        self.retry_after_s = retry_after_s
        self.extra = extra
