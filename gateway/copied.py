"""What does a worker keep of a request that is copied: what of its head travels, and production's answer?"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from mirror.copyable import copyable, is_stateful, may_be_stateful
from mirror.headers import copy_headers
from wire.http1 import Headers

if TYPE_CHECKING:
    from gateway.lane_link import Experiment


@dataclass(frozen=True, slots=True)
class Asked:
    """What of a request's head goes with its copies: the same for all requests with that head.

    `headers` are those that may travel; `is_copyable` is what the path and the headers say of it, and
    `may_be_stateful` whether the body may yet say otherwise.
    """

    path: str
    target: str
    headers: list[tuple[bytes, bytes]]
    is_copyable: bool
    may_be_stateful: bool


def asked(path: str, target: str, headers: Headers) -> Asked:
    """Read a head once for all its copies."""
    return Asked(path, target, copy_headers(headers), copyable(path, headers), may_be_stateful(path))


def leaves_nothing(asked: Asked, body: bytes) -> bool:
    """Whether a request leaves nothing behind at an engine, so that it may be asked there, too."""
    return asked.is_copyable and not (asked.may_be_stateful and is_stateful(asked.path, body))


class Copy:
    """A request on its way to the lane.

    `is_observed`: its experiment wants production's own answer, too; `is_kept`: somebody does, so that the
    pieces of it are to be kept as they pass.
    """

    __slots__ = (
        "experiment",
        "held_bytes",
        "id",
        "is_kept",
        "is_observed",
        "overflowed",
        "reads",
        "received_ns",
        "sent_ns",
    )

    def __init__(
        self, experiment: "Experiment", id: str, received_ns: int, sent_ns: int, *, is_observed: bool
    ) -> None:
        self.experiment = experiment
        self.id = id
        self.received_ns = received_ns
        self.sent_ns = sent_ns
        self.is_kept = self.is_observed = is_observed
        self.reads: list[tuple[int, bytes]] = []
        self.held_bytes = 0  # of memory, in `reads`
        self.overflowed = False
