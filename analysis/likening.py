"""How are answers compared in meaning?  On a thread of its own, which asks a server; texts stay in memory."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any, Final

from analysis.embedder import Embedder, NoVectors
from analysis.measure import transcript_of
from analysis.metrics import embedding_similarity
from analysis.spec import EmbedderSpec
from analysis.transcript import Content

BUSY: Final = "busy"  # too many wait, or too large ones
TOO_MANY: Final = "too_many_texts"

_MOST_WAITING = 64
_MOST_WAITING_BYTES = 64 << 20
CONTROL: Final = "control"
_PAUSES_S = (1.0, 60.0)  # after a first failure, and at most: twice as long after each
_COMPARED = ("calibration", "live")  # in the phases between, all arms have the same tokens

Told = Callable[[dict[str, Any]], None]


@dataclass(slots=True)
class _Asking:
    """One experiment's server, as its thread knows it."""

    embedder: Embedder
    why: str | None = None  # why it gave nothing the last time it was asked
    reason: str = ""  # and of which kind that was
    pause_s: float = 0.0
    again_s: float = 0.0  # before it is not asked
    dropped: Counter[str] = field(default_factory=Counter)


class Likening:
    """Compares pairs one at a time; at most 64 wait, and 64 MiB of them.

    `told(body)` is called on the thread with what a ["similarity", ...] record holds: a pair's scores, or why
    there are none any more; and how many pairs were dropped until then, by reason.  A server that gives
    nothing is asked again after 1 s, then 2, up to 60; pairs are dropped meanwhile, for the reason it gave.
    """

    def __init__(self, now_s: Callable[[], float] = monotonic) -> None:
        self._now_s = now_s
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="similarity")
        self._lock = Lock()
        self._is_closed = False
        self._waiting = self._waiting_bytes = 0
        self._asking: dict[EmbedderSpec, _Asking] = {}

    def offer(self, spec: EmbedderSpec, frame: Mapping[str, Any], told: Told) -> None:
        """Have a pair compared, if it is one that is judged; never waits."""
        if frame["phase"] not in _COMPARED or frame.get("mark") is not None:
            return
        size = sum(len(piece) for answer in frame["answers"] for _, piece in answer["reads"])
        with self._lock:
            asking = self._asking.get(spec)
            if asking is None:
                asking = self._asking[spec] = _Asking(Embedder(spec))
            if self._waiting >= _MOST_WAITING or self._waiting_bytes + size > _MOST_WAITING_BYTES:
                asking.dropped[BUSY] += 1
                return
            self._waiting += 1
            self._waiting_bytes += size

        def compare() -> None:
            try:
                if not self._is_closed:
                    self._compare(spec, asking, frame, told)
            finally:
                with self._lock:
                    self._waiting -= 1
                    self._waiting_bytes -= size

        self._thread.submit(compare)

    def keep(self, specs: Sequence[EmbedderSpec]) -> None:
        """Forget all servers but these."""
        with self._lock:
            gone = [self._asking.pop(spec) for spec in list(self._asking) if spec not in specs]
        for one in gone:
            self._thread.submit(one.embedder.close)

    def close(self, *, wait: bool = False) -> None:
        """Compare nothing more, and give up what is under way; `wait` until the thread has ended."""
        self._is_closed = True
        with self._lock:
            embedders = [one.embedder for one in self._asking.values()]
        for embedder in embedders:
            embedder.interrupt()
            self._thread.submit(embedder.close)
        self._thread.shutdown(wait=wait)

    def _compare(self, spec: EmbedderSpec, asking: _Asking, frame: Mapping[str, Any], told: Told) -> None:
        contents = compared(frame)
        wanted = sorted(
            set[str]().union(*(embedding_similarity.texts(*both, spec.chars) for both in contents.values()))
        )
        if not contents:
            return  # nothing was said that could be compared
        if len(wanted) > spec.rows:
            self._drop(asking, TOO_MANY)
            return
        if asking.why is not None and self._now_s() < asking.again_s:
            self._drop(asking, asking.reason)
            return
        try:
            vectors = asking.embedder.vectors(wanted) if wanted else {}
        except NoVectors as error:
            self._drop(asking, error.reason)
            least, most = _PAUSES_S
            asking.pause_s = min(most, max(least, 2.0 * asking.pause_s))
            asking.again_s = self._now_s() + asking.pause_s
            asking.reason = error.reason
            if str(error) != asking.why:
                asking.why = str(error)
                told({"scores": {}, "why": asking.why, "dropped": self._dropped(asking)})
            return
        if wanted:
            asking.why, asking.pause_s = None, 0.0
        metric = embedding_similarity.build(embedding_similarity.Params(vectors, spec.chars))
        found = {arm: metric.score(*both) for arm, both in contents.items()}
        scores = {arm: score for arm, score in found.items() if score is not None}
        at = {name: frame.get(name) for name in ("id", "at_ns", "phase", "block")}
        told({**at, "scores": scores, "why": asking.why, "dropped": self._dropped(asking)})

    def _drop(self, asking: _Asking, reason: str) -> None:
        with self._lock:
            asking.dropped[reason] += 1

    def _dropped(self, asking: _Asking) -> dict[str, int]:
        with self._lock:
            return dict(sorted(asking.dropped.items()))


def compared(frame: Mapping[str, Any]) -> dict[str, tuple[Content, Content]]:
    """By arm, the control's answer and the arm's, of a pair's frame, where both came whole and say something.

    In the calibration that is the control's second answer, under its own name.
    """
    calibrating = frame["phase"] == "calibration"
    said: dict[tuple[str, int], Content] = {}
    for answer in frame["answers"]:
        key = answer["arm"], answer.get("twin", 0)
        if calibrating and key[0] != CONTROL:
            continue
        transcript = transcript_of(answer, frame["path"], frame["received_ns"])
        if transcript.fault is None and not transcript.content.said_nothing:
            said[key] = transcript.content
    control = said.get((CONTROL, 0))
    if control is None:
        return {}
    other = 1 if calibrating else 0
    return {
        arm: (control, content)
        for (arm, twin), content in said.items()
        if twin == other and (arm == CONTROL) is calibrating
    }
