"""What is known of one publisher, while its messages come, go missing, are replayed and begin anew?

A publisher is an engine's data-parallel rank.  It numbers its messages from 0, and may keep the last of them
to replay.  What was missed is asked for again; what cannot be had makes all that was known of it worthless,
for a removal may be among it.  Nothing here waits: the caller asks for a replay when `wanted` says so, and
tells of its messages and its end.
"""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final

from xxhash import xxh3_64_intdigest

from routing.events.board import State
from routing.events.book import Marked
from routing.events.decode import DEVICE, Cleared, Removed, Stored, Undecodable, decode
from routing.events.holdings import Holdings
from routing.events.lower import Lower

_MOST_ATTEMPTS: Final = 3
HELD_BACK_BYTES: Final = 32 << 20
"""What may come live during a replay and is kept until its end; beyond it, it is asked for again."""


class _Replay:
    """One that runs.

    `checks`: it begins with the last message heard, to see that it is still the same process.  `quiet`: there
    is no sign that anything is amiss.
    """

    __slots__ = ("came", "checks", "quiet", "start", "useless")

    def __init__(self, start: int, *, checks: bool, quiet: bool) -> None:
        self.start = start
        self.checks = checks
        self.quiet = quiet
        self.came = 0
        self.useless = False


class Publisher:
    """One publisher's state.  `counts` and `ignored` are for the metrics, `why` says why it is DEGRADED."""

    def __init__(self, marked: Marked, *, can_replay: bool, most_blocks: int) -> None:
        self._marked = marked
        self._holdings = Holdings(marked, most_blocks)
        self._lower = Lower(marked.below, most_blocks)
        self.can_replay = can_replay
        self.counts: Counter[str] = Counter()
        self.ignored: Counter[str] = Counter()
        self.why = ""
        self.wanted: int | None = None
        """The number from which a replay is wanted; the caller sets it to None when it asks for it."""
        self.ts_s: float | None = None
        """The publisher's wall clock at its last message."""
        self._next: int | None = None  # the number expected; None before there was one
        self._complete = False  # all that it ever published, or has since it held nothing, was heard
        self._too_many = False
        self._live_last: int | None = None  # on this connection
        self._digest = 0  # of the message before `_next`
        self._replay: _Replay | None = None
        self._attempts = 0
        self._failed = False
        self._held_back: deque[tuple[int, bytes]] = deque()
        self._held_back_bytes = 0

    @property
    def state(self) -> State:
        """How far it is believed."""
        if self._replay is not None and not self._replay.quiet:
            return State.BOOTSTRAP if self._next is None else State.DEGRADED
        if self._next is None:
            return State.COLD
        return State.EXACT if self._complete and not self._failed else State.DEGRADED

    @property
    def held(self) -> int:
        """Blocks it is known to hold."""
        return self._holdings.held

    @property
    def held_below(self) -> dict[int, int]:
        """Blocks that it is known to hold in each lower tier or above."""
        return self._lower.held()

    @property
    def number(self) -> int:
        """The number of the last message taken in; -1: none."""
        return -1 if self._next is None else self._next - 1

    @property
    def replay_failed(self) -> bool:
        """Whether a replay should be tried again some time."""
        return self._failed

    # What the caller tells

    def connected(self) -> None:
        """A connection to it was made: what it published before is missing, and it may be another process."""
        self._live_last = None
        if self._replay is not None:
            self._begin_anew("reconnected")
        elif self.can_replay:
            self._go_on()
        elif self._next is not None:
            self._wipe("reconnected")
        self._tell()

    def audit(self) -> None:
        """Nothing was heard for long: ask whether it is still the same process, and whether all was heard."""
        if self.can_replay and self._replay is None and self.state is State.EXACT:
            self._go_on(quiet=True)

    def heard(self, number: int, payload: bytes) -> None:
        """A message came, as it was published."""
        if self._live_last is not None and number <= self._live_last:
            self.counts["restarts"] += 1
            self._begin_anew("restarted")
        self._live_last = number
        if self._replay is not None or not self._take(number, payload):
            self._hold_back(number, payload)
        self._tell()

    def replayed(self, number: int, payload: bytes) -> None:
        """A message came that was asked for."""
        replay = self._replay
        if replay is None or replay.useless:
            return
        replay.came += 1
        if replay.checks and replay.came == 1:
            if number != self.number or xxh3_64_intdigest(payload) != self._digest:
                self.counts["restarts"] += 1
                self._wipe("restarted")
                replay.useless = True
            return
        if self._next is None:
            self._next, self._complete, self.why = number, number == 0, "partial_replay"
        if number > self._next:
            self._lost("replay_gap", number)
        if number == self._next:
            self._apply(number, payload)

    def replay_ended(self, *, whole: bool) -> None:
        """The replay that was asked for is over; `whole`: its end was told."""
        replay, self._replay = self._replay, None
        if replay is None:
            return
        self.counts["replays" if whole else "replays_failed"] += 1
        if whole or not replay.quiet:
            self._failed = not whole
        if replay.checks and not replay.came and (whole or not replay.quiet):
            replay.useless = True
            self._wipe("restarted" if whole else "no_replay")
        if replay.useless and whole:
            self._ask(0)
        elif whole and replay.start == 0 and not replay.came:
            self._next, self._complete = 0, True  # it has published nothing yet
        elif not whole and self._next is None:
            self.why = "no_replay"
        if self._replay is None:
            self._splice()
        self._tell()

    def retry(self) -> None:
        """Ask once more for what is missing, after a replay failed."""
        if self.can_replay and self._replay is None:
            self._go_on()
            self._tell()

    def forget(self) -> None:
        """Nothing is known of it any more."""
        self._wipe("gone")
        self._replay = None
        self._held_back.clear()
        self._lower.close()
        self._tell()

    # How it is taken in

    def _begin_anew(self, why: str) -> None:
        """It is another process, or may be."""
        self._wipe(why)
        self._drop_held_back()
        if self._replay is not None:
            self._replay.useless = True

    def _take(self, number: int, payload: bytes) -> bool:
        """The next live message, with no replay under way; False: one was asked for that comes before it."""
        if self._next is None:
            if number and self.can_replay and not self._failed:
                self._ask(0)
                return False
            self._next, self._complete = number, number == 0
            self._failed = self._failed and number > 0
            self.why = self.why or "late"
        if number > self._next:
            self.counts["gaps"] += 1
            self.counts["missed"] += number - self._next
            if self.can_replay and self._attempts < _MOST_ATTEMPTS:
                self._attempts += 1
                self.why = "gap"
                self._ask(self._next)
                return False
            self._lost("gap", number)
        if number == self._next:
            self._apply(number, payload)
        else:
            self.counts["duplicates"] += 1  # a replay told it already
        return True

    def _splice(self) -> None:
        """What came live during a replay follows it."""
        while self._held_back and self._replay is None:
            number, payload = self._held_back.popleft()
            if self._take(number, payload):
                self._held_back_bytes -= len(payload)
            else:
                self._held_back.appendleft((number, payload))
        if self._replay is None:
            self._attempts = 0

    def _hold_back(self, number: int, payload: bytes) -> None:
        self._held_back.append((number, payload))
        self._held_back_bytes += len(payload)
        while self._held_back_bytes > HELD_BACK_BYTES and len(self._held_back) > 1:
            _, dropped = self._held_back.popleft()
            self._held_back_bytes -= len(dropped)
            self.counts["held_back_dropped"] += 1

    def _drop_held_back(self) -> None:
        self._held_back.clear()
        self._held_back_bytes = 0

    def _go_on(self, *, quiet: bool = False) -> None:
        """Ask for what follows the last message, if it is still the process that published that one."""
        if self._next:
            self._ask(self._next - 1, checks=True, quiet=quiet)
        else:
            self._ask(0, quiet=quiet)

    def _ask(self, start: int, *, checks: bool = False, quiet: bool = False) -> None:
        self._replay = _Replay(start, checks=checks, quiet=quiet)
        self.wanted = start

    def _apply(self, number: int, payload: bytes) -> None:
        self._next = number + 1
        self._digest = xxh3_64_intdigest(payload)
        self.counts["batches"] += 1
        try:
            batch = decode(payload)
        except Undecodable:
            self.ignored["undecodable"] += 1
            self._unsure("undecodable")
            return
        self.ignored.update(batch.ignored)
        self.ts_s = batch.ts_s
        events: list[Stored | Removed] = []
        for event in batch.events:
            if not isinstance(event, Cleared):
                events.append(event)
                continue
            self._take_in(events)
            events = []
            self.counts["cleared"] += 1
            self._clear()
            self._complete, self._too_many, self._failed, self.why = True, False, False, ""
        self._take_in(events)
        if batch.malformed:  # a removal may have been lost
            self._unsure("malformed")

    def _take_in(self, events: Sequence[Stored | Removed]) -> None:
        for reason in self._lower.take(events, self._holdings):
            self.ignored[reason] += 1
        for event in events:
            if isinstance(event, Stored):
                if event.tier == DEVICE:
                    self._store(event)
            elif event.tier == DEVICE:
                before = self._holdings.held
                unknown = self._holdings.remove(event)
                gone = before - self._holdings.held if event.wholly else len(event.hashes) - unknown
                self.counts["removed"] += gone
                if unknown:
                    self.ignored["unknown_block"] += unknown

    def _store(self, event: Stored) -> None:
        if self._too_many:
            self.ignored["too_many_blocks"] += len(event.hashes)
            return
        before = self._holdings.held
        reason = self._holdings.store(event, self._lower.holdings())
        self.counts["stored"] += self._holdings.held - before
        if reason is not None:
            self.ignored[reason] += 1
        if reason == "too_many_blocks":
            self._unsure(reason)
            self._too_many = True

    def _unsure(self, why: str) -> None:
        """What is known may be wrong, and its messages go on: begin with what they say from here."""
        self.counts["wipes"] += 1
        self._clear()
        self._complete, self.why = False, why

    def _lost(self, why: str, number: int) -> None:
        """Messages before `number` are gone for good."""
        self._unsure(why)
        self._next = number

    def _wipe(self, why: str) -> None:
        """All that is known is of a process that is gone, or may be."""
        if self._next is not None:
            self.counts["wipes"] += 1
        self._clear()
        self._next, self._complete, self._too_many = None, False, False
        self.why = why

    def _clear(self) -> None:
        self._holdings.clear()
        self._lower.clear()

    def _tell(self) -> None:
        holdings = self._holdings
        begun = self.counts["wipes"]
        self._marked.tell(self.state, holdings.block_size, holdings.ghosts, holdings.held, begun)
        self._lower.tell(self.state, begun)
