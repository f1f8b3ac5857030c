"""What becomes of each request that was handed to the recording: a row, or a reason why there is none.

taken = recorded + dropped(reason) + open, at any moment.  No clock, no I/O: instants are arguments, and lines
go to a function that may refuse.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from typing import TypeVar

import msgspec

from analysis.readers._choose import reader_of
from analysis.redact import Redaction
from analysis.scrub import Done, Text
from analysis.timing import timing
from analysis.transcript import Transcript
from gateway.recording.said import Said, said
from gateway.recording.sizing import Sizes
from gateway.recording.spec import RecordSpec
from mirror.frames import Copy, Missed, Served, production_answer
from workload.blocks import block_ids, blocks_of
from workload.row import Row, to_line

UNREADABLE = "unreadable"
MEMORY = "memory"
NO_ANSWER = "no_answer"
DISK = "disk"
FORGOTTEN = "forgotten"
_SAME_ID = "same_id"

K = TypeVar("K")

_WAIT_NS = 2_000_000_000
_REMEMBER = 50_000  # conversations, and of each
_TURNS = 8


@dataclass(frozen=True, slots=True)
class Awaited:
    """A request that is under way."""

    copy: Copy
    said: Said
    since_ns: int


@dataclass(frozen=True, slots=True)
class _Turn:
    """A request, by how many answers it held and by its last whole block."""

    id: str
    answers: int
    whole: int
    last: int

    def begins(self, ids: Sequence[int]) -> bool:
        """Whether a prompt of these blocks begins with this one's whole blocks."""
        return not self.whole or (self.whole <= len(ids) and ids[self.whole - 1] == self.last)


@dataclass(frozen=True, slots=True)
class _Answered:
    copy: Copy
    said: Said
    transcript: Transcript


class Clerk:
    """Turns frames of the lane into lines.

    `began_ns` is the recording's beginning, on the clock of the frames, if no request of the first frame came
    before it.  `write(line)` gives None, or the
    reason why it could not.  `ratios` are the bytes a token of each model takes, as far as they are
    known; what is learned is added.  `scrub(text, done)` calls `done` with what of a row's text may be
    written.
    """

    def __init__(
        self,
        spec: RecordSpec,
        began_ns: int,
        write: Callable[[bytes], str | None],
        ratios: dict[str, float] | None = None,
        *,
        scrub: Callable[[Text, Done], None] | None = None,
    ) -> None:
        self._spec = spec
        self._began_ns = began_ns
        self._write = write
        self._scrub = scrub
        self._scrubbing = 0
        self._forgotten: OrderedDict[str, None] = OrderedDict()  # ids of requests
        self._wordless: OrderedDict[int, None] = OrderedDict()  # conversations whose text is not to be kept
        self._redaction = Redaction(spec.redact)
        self._open: OrderedDict[str, Awaited] = OrderedDict()
        self._held_bytes = 0
        self._unsized: list[_Answered] = []  # answered before it was known how long a token is
        self._unsized_ns = 0
        self._talks: OrderedDict[int, list[_Turn]] = OrderedDict()  # each conversation's last turns
        self._sizes = Sizes({} if ratios is None else ratios)
        self.taken = 0
        self.recorded = 0
        self.dropped: Counter[str] = Counter()

    @property
    def ratios(self) -> Mapping[str, float]:
        """The bytes a token of each model takes, where it is known and fixed."""
        return self._sizes.settled

    @property
    def open(self) -> int:
        """Requests whose rows are not written yet."""
        return len(self._open) + len(self._unsized) + self._scrubbing

    def took(self, frame: Copy | Served | Missed, now_ns: int) -> None:
        """One frame of the lane."""
        if isinstance(frame, Missed):
            self.taken += frame.n
            self.dropped[frame.reason] += frame.n
        elif isinstance(frame, Copy):
            if not self.taken:  # it was kept until somebody was there to write it down
                self._began_ns = min(self._began_ns, frame.received_ns)
            self.taken += 1
            self._begin(frame, now_ns)
        elif (awaited := self._open.pop(frame.id, None)) is not None:
            self._held_bytes -= len(awaited.copy.body)
            self._answered(awaited, frame, now_ns)

    def look(self, now_ns: int) -> None:
        """Give up those that nobody answers, and write what has waited long enough for its tokens' length."""
        while self._open:
            id, awaited = next(iter(self._open.items()))
            if now_ns - awaited.since_ns < self._spec.open_s * 1e9:
                break
            self._give_up(id)
        if self._unsized and now_ns - self._unsized_ns >= _WAIT_NS:
            self._size_up()

    def forget(self, ids: AbstractSet[str]) -> None:
        """Write none of these requests that are under way, and no text of what goes on from them."""
        roots = {one.copy.root for id, one in self._open.items() if id in ids}
        roots |= {one.copy.root for one in self._unsized if one.copy.id in ids}
        roots |= {root for root, turns in self._talks.items() if any(turn.id in ids for turn in turns)}
        for id in ids & self._open.keys():
            self._held_bytes -= len(self._open.pop(id).copy.body)
            self.dropped[FORGOTTEN] += 1
        kept = [one for one in self._unsized if one.copy.id not in ids]
        self.dropped[FORGOTTEN] += len(self._unsized) - len(kept)
        self._unsized = kept
        _remember(self._forgotten, ids)
        _remember(self._wordless, roots)

    def close(self) -> None:
        """Nothing more comes: what has no answer has none."""
        self._size_up()
        for id in list(self._open):
            self._give_up(id)

    def _begin(self, copy: Copy, now_ns: int) -> None:
        if copy.id in self._forgotten:
            self.dropped[FORGOTTEN] += 1
            return
        if copy.id in self._open:  # a client may send one id twice at once
            self.dropped[_SAME_ID] += 1
            return
        if self._held_bytes + len(copy.body) > self._spec.held_bytes:
            self.dropped[MEMORY] += 1
            return
        read = said(copy.path, copy.body)
        if read is None:
            self.dropped[UNREADABLE] += 1
            return
        self._open[copy.id] = Awaited(copy, read, now_ns)
        self._held_bytes += len(copy.body)

    def _give_up(self, id: str) -> None:
        awaited = self._open.pop(id)
        self._held_bytes -= len(awaited.copy.body)
        self.dropped[NO_ANSWER] += 1

    def _answered(self, awaited: Awaited, served: Served, now_ns: int) -> None:
        answer = _Answered(awaited.copy, awaited.said, _transcript(awaited.copy.path, served))
        if _model(answer) in self.ratios:
            self._put(answer)
            return
        if not self._unsized:
            self._unsized_ns = now_ns
        self._unsized.append(answer)
        tokens = answer.transcript.content.prompt_tokens
        if self._sizes.learn(_model(answer), len(answer.said.prompt), tokens):
            self._size_up()

    def _size_up(self) -> None:
        """Settle how many bytes a token takes, for the models of what waits, and write it."""
        waiting, self._unsized = self._unsized, []
        self._sizes.settle({_model(one) for one in waiting} - set(self.ratios))
        for one in waiting:
            self._put(one)

    def _put(self, answered: _Answered) -> None:
        row = self._row(answered)
        if self._scrub is None or (row.request is None and row.answer is None):
            self._finish(row)
        else:
            self._scrubbing += 1
            self._scrub(Text(row.request, row.answer), partial(self._scrubbed, row))

    def _scrubbed(self, row: Row, text: Text) -> None:
        self._scrubbing -= 1
        row = msgspec.structs.replace(row, request=text.request, answer=text.answer)
        if row.id in self._forgotten:
            self.dropped[FORGOTTEN] += 1
        else:
            self._finish(row)

    def _finish(self, row: Row) -> None:
        reason = self._write(to_line(row))
        if reason is None:
            self.recorded += 1
        else:
            self.dropped[reason] += 1

    def _row(self, answered: _Answered) -> Row:
        copy, asked, transcript = answered.copy, answered.said, answered.transcript
        content, clock, size = transcript.content, timing(transcript), self._spec.block_tokens
        ratio = self._sizes.of(_model(answered))
        cut = self._sizes.cut(_model(answered), counted=content.prompt_tokens is not None)
        cut_bytes = max(1, round(cut * size))
        tokens = content.prompt_tokens or max(1, round(len(asked.prompt) / ratio))
        text = _answer_text(transcript)
        has_text = self._spec.text and copy.root not in self._wordless
        output = content.completion_tokens
        estimate = round(len(text.encode("utf-8", "replace")) / ratio) if text else asked.max_tokens
        ids = block_ids(
            asked.prompt,
            seed=asked.seed,
            key=self._spec.key,
            cut_bytes=cut_bytes,
            count=blocks_of(tokens, size),
        )
        return Row(
            timestamp=max(0.0, round((copy.received_ns - self._began_ns) / 1e6, 3)),
            input_length=tokens,
            output_length=output or max(1, estimate or 1),
            hash_ids=ids,
            id=copy.id,
            session=self._named(copy.root),
            parent=self._parent(copy, ids, len(asked.prompt) // cut_bytes),
            turn=copy.turn,
            model=asked.model,
            path=copy.path.partition("?")[0],
            task=asked.task,
            stream=asked.stream,
            max_tokens=asked.max_tokens,
            sampling=asked.sampling,
            input_tokens_from="usage" if content.prompt_tokens else "estimate",
            output_tokens_from="usage" if output else "estimate",
            cached_tokens=content.cached_tokens,
            status=transcript.status,
            ending=transcript.fault or "complete",
            finish=next((c.finish_reason for c in content.choices if c.finish_reason is not None), None),
            ttft_ms=_rounded(clock.ttft_ms),
            tpot_ms=_rounded(clock.tpot_ms),
            e2e_ms=_rounded(clock.e2e_ms),
            request=self._redaction.request(copy.body) if has_text else None,
            answer=self._redaction.text(text) if has_text else None,
        )

    def _parent(self, copy: Copy, ids: Sequence[int], pieces: int) -> str | None:
        """The latest request of the conversation whose prompt this one, of so many whole pieces, begins with.

        Two conversations may have begun with the same words: a turn is a parent only where its last whole
        block is in this prompt, too.
        """
        turns = self._talks.setdefault(copy.root, [])
        self._talks.move_to_end(copy.root)
        before = [turn for turn in turns if turn.answers < copy.turn and turn.begins(ids)]
        whole = max(0, min(len(ids) - 1, pieces))
        turns.append(_Turn(copy.id, copy.turn, whole, ids[whole - 1] if whole else 0))
        del turns[:-_TURNS]
        if len(self._talks) > _REMEMBER:
            self._talks.popitem(last=False)
        return max(before, key=lambda turn: turn.answers).id if before else None

    def _named(self, root: int) -> str:
        content = (root & (1 << 64) - 1).to_bytes(8, "big")
        return blake2b(content, digest_size=8, key=self._spec.key[:64], person=b"sl-session").hexdigest()


def _remember(known: "OrderedDict[K, None]", fresh: AbstractSet[K]) -> None:
    known.update(dict.fromkeys(fresh))
    while len(known) > _REMEMBER:
        known.popitem(last=False)


def _transcript(path: str, served: Served) -> Transcript:
    answer, reader = production_answer(served), reader_of(path)
    for at_ns, piece in answer["reads"]:
        reader.feed(piece, at_ns)
    return Transcript(
        received_ns=served.received_ns,
        sent_ns=served.sent_ns,
        head_ns=served.head_ns,
        end_ns=served.end_ns,
        status=served.status,
        ending=str(answer["ending"]).lower(),
        content=reader.end(served.end_ns),
    )


def _answer_text(transcript: Transcript) -> str:
    return "".join(choice.reasoning + choice.text for choice in transcript.content.choices)


def _model(answered: _Answered) -> str:
    return answered.said.model or ""


def _rounded(value_ms: float | None) -> float | None:
    return None if value_ms is None else round(value_ms, 3)
