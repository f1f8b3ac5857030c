"""What is sent where an experiment replays?  A recording's requests as copies, in pieces of one slot each.

What has text goes as it was recorded; what has none becomes words that share what the recorded prompts
shared (`workload.words`), as many as the control's own count of tokens says.
"""

from collections import Counter
from collections.abc import Sequence
from functools import partial
from hashlib import blake2b
from itertools import groupby
from pathlib import Path
from typing import Any, Final

import msgspec

from mirror.arms import Arm
from mirror.copyable import copyable, is_stateful
from mirror.frames import Copy
from mirror.headers import MARKER
from mirror.spec import MirrorExperiment
from mirror.traffic import Due
from wire.fetch import fetch
from wire.http1 import request_bytes
from workload.asks import CHAT, Ask, asks, at_speed
from workload.formats import read, spread
from workload.kinds import bounded, kind_of, made_up
from workload.replay import measured_scale
from workload.row import Row
from workload.words import Scale, text_of

MOST_BYTES: Final = 512 << 20  # of a recording's lines, and of one piece's requests
_MOST_TOKENS: Final = 10_000_000  # of a prompt that is made up: more than any engine takes
_ASK_S: Final = 60.0
_REASONS: Final = {
    "failed": "failed when recorded:",
    "not_copyable": "of a path that is never copied, or for which no text can be made up:",
    "too_long": "with a prompt too long to make up:",
    "not_served": "without text, of a path that the control does not serve:",
}
# How an engine refuses a first request to a path that it does not serve, or not for this model.
_NOT_SERVED: Final = frozenset({400, 404, 405, 422, 501})
_HEADERS: Final = [(b"content-type", b"application/json")]


class _NotServed(Exception):
    """The control refuses any request to a path."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status


class Replayable:
    """A recording that was read."""

    def __init__(self, experiment: MirrorExperiment, rows: Sequence[Row], block_tokens: int) -> None:
        assert experiment.replay is not None and experiment.slots is not None
        self._experiment = experiment
        self._spec = experiment.replay
        self.left_out: Counter[str] = Counter()  # by reason
        kept = [row for row in rows if self._is_kept(row)]
        self._turn = {(row.session, row.id): row.turn for row in kept if row.session is not None}
        listed = [ask for ask in at_speed(asks(kept, block_tokens), self._spec.speed) if self._is_wanted(ask)]
        self._asks = listed if self._spec.requests is None else listed[: self._spec.requests]
        if not self._asks:
            raise ValueError(f"{', '.join(self._spec.files)}: no request that could be replayed{self._why()}")
        self._slot_s = experiment.slots.seconds
        slots = groupby(range(len(self._asks)), key=lambda at: int(self._asks[at].at_s // self._slot_s))
        self._pieces = [(slot, list(places)) for slot, places in slots]
        self._scales: dict[str, Scale] = {}
        self._not_served: dict[str, int] = {}  # by path: how the control refused it
        self._sizes = self._counted_sizes()

    @property
    def sizes(self) -> Sequence[int]:
        """How many requests each piece has, of as many pieces as the recording fills slots; without those
        that the control does not serve, once that is known."""
        return self._sizes

    async def get_ready(self, control: Arm) -> None:
        """Learn how many tokens the control makes of a word.  ValueError: it does not answer."""
        for path, n in Counter(ask.path for ask in self._asks if ask.body is None).items():
            if path in self._scales or path in self._not_served:
                continue
            try:
                self._scales[path] = await measured_scale(partial(self._counted, control, path))
            except _NotServed as refusal:
                self._not_served[path] = refusal.status
                self.left_out["not_served"] += n
                self._sizes = self._counted_sizes()
        if not any(self._sizes):
            told = ", ".join(f"{path} ({status})" for path, status in self._not_served.items())
            raise ValueError(f"the control serves no path of the recording's requests: {told}")

    def piece(self, number: int) -> Sequence[Due]:
        """The requests of a piece, by their distance from its beginning."""
        slot, places = self._pieces[number]
        due: list[Due] = []
        size = 0
        for place in filter(self._is_served, places):
            ask = self._asks[place]
            copy = self._copy(ask)
            size += len(copy.body)
            if size > MOST_BYTES:
                raise ValueError(f"the requests of {self._slot_s:g} s are more than {MOST_BYTES} bytes")
            due.append(Due(round((ask.at_s - slot * self._slot_s) * 1e9), copy))
        return due

    def status(self) -> dict[str, Any]:
        """JSON-able: what is sent to each arm, and what is left out, by reason."""
        return {"requests": sum(self._sizes), "pieces": len(self._pieces), "left_out": dict(self.left_out)}

    def _why(self) -> str:
        """Why none is left."""
        said = ", ".join(f"{_REASONS[reason]} {n}" for reason, n in self.left_out.items())
        if said:
            return f" ({said}); record requests that are served, or replay another recording"
        return "; raise `seconds` or `requests`"

    def _is_kept(self, row: Row) -> bool:
        if row.status not in (None, 200):
            self.left_out["failed"] += 1  # production had no answer to it either
        elif not _is_copyable(row):
            self.left_out["not_copyable"] += 1
        elif row.request is None and row.input_length > _MOST_TOKENS:
            self.left_out["too_long"] += 1
        else:
            return True
        return False

    def _counted_sizes(self) -> list[int]:
        return [sum(map(self._is_served, places)) for _slot, places in self._pieces]

    def _is_served(self, place: int) -> bool:
        ask = self._asks[place]
        return ask.body is not None or ask.path not in self._not_served

    def _is_wanted(self, ask: Ask) -> bool:
        seconds = self._spec.seconds
        return seconds is None or ask.at_s * self._spec.speed < seconds

    def _copy(self, ask: Ask) -> Copy:
        body = dict(ask.body) if ask.body is not None else self._made_up(ask)
        names = self._spec.names
        said = body.get("model") or ask.model
        body["model"] = said if said and (not names or said in names) else (*names, "default")[0]
        turn = 0 if ask.session is None else self._turn.get((ask.session, ask.id), 0)
        name = ask.id if ask.session is None else ask.session
        return Copy(
            experiment=self._experiment.name,
            id=ask.id,
            path=ask.path,
            headers=_HEADERS,
            body=msgspec.json.encode(body),
            received_ns=0,
            sent_ns=0,
            root=int.from_bytes(blake2b(name.encode(), digest_size=8).digest(), "big"),
            turn=turn,
            stream=body.get("stream") is True,
        )

    def _made_up(self, ask: Ask) -> dict[str, Any]:
        kind, scale = kind_of(ask.path), self._scales.get(ask.path, Scale())
        assert kind is not None  # by `_is_copyable`
        text = text_of(ask.blocks, ask.block_tokens, ask.prompt_tokens, scale, name=ask.id)
        return bounded(kind, made_up(ask, text or "so"), ask.output_tokens)

    async def _counted(self, control: Arm, path: str, text: str) -> int | None:
        spec, kind = control.spec, kind_of(path)
        body = made_up(Ask(0.0, "", 1, 1, path=path), text)
        body["model"] = spec.model or (*self._spec.names, "default")[0]
        if kind is not None and kind.most is not None:
            body[kind.most] = 1
        headers = [
            ("host", control.origin.authority),
            ("content-type", "application/json"),
            (MARKER.decode(), self._experiment.name),
            *spec.headers,
        ]
        request = request_bytes("POST", control.origin.path + path, headers, msgspec.json.encode(body))
        got = await fetch(control.pool, request, _ASK_S, limit_bytes=1 << 20)
        if got.status in _NOT_SERVED:
            raise _NotServed(got.status)
        if got.status != 200:
            said = got.status or got.ending
            raise ValueError(f"the control does not answer a first request to {path}: {said}")
        try:
            usage = msgspec.json.decode(got.body)["usage"]
            return int(usage["prompt_tokens"] if "prompt_tokens" in usage else usage["input_tokens"])
        except (msgspec.MsgspecError, UnicodeDecodeError, KeyError, TypeError, ValueError):
            return None


def _is_copyable(row: Row) -> bool:
    path = row.path or CHAT
    if row.request is None:
        return kind_of(path) is not None and copyable(path)
    return copyable(path, stateful=is_stateful(path, msgspec.json.encode(row.request)))


def replayable(experiment: MirrorExperiment) -> Replayable:
    """Read an experiment's recording.  ValueError (`workload.traces.TraceError`) says why it cannot be."""
    spec = experiment.replay
    assert spec is not None
    found = read([Path(file) for file in spec.files], most_bytes=MOST_BYTES)
    if not found.timed:
        raise ValueError(f"{spec.files[0]}: it tells no instants; `shadowlane workload generate` gives some")
    rows = spread(found.rows) if found.bucketed else found.rows
    return Replayable(experiment, rows, found.block_tokens)
