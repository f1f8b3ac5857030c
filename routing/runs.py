"""What one engine was sent, as a tree of runs, in the order in which it lets go of them.

A run is the links that one request added to what was there: its prompt's end, mostly one turn of a talk. Runs
that continue another hold it: only a run without continuation can go, and goes from its end. So a touch
stamps one run, the one where the prompt ends, and not each link of it; the order in which links are evicted
is the same as if every link had been stamped from the prompt's end to its beginning. For a run that was
continued is at least as recent as its continuations, and takes over the stamp of the last of them to go.

As engines do, it keeps what they work on: a prompt in flight goes last, and is the most recent one when its
request ends, not when it was sent. Its answer stands behind it, and takes its room.
"""

from bisect import bisect_right
from collections.abc import Sequence
from typing import Final

from routing.recency import Recency, Run, Trunk, take_out
from routing.roots import Roots, tighten

_SURE: Final = -1
_SMALL: Final = 4096
_SIZES: Final = tuple(range(_SMALL))
"""A size that is often seen is one object, not one for each run that has it."""
_ANSWERS: Final = tuple(range(0, -_SMALL, -1))


def held_of(chain: Sequence[int], entries: dict[int, Run]) -> int:
    """How many of a chain's first links are held, of which the first one is."""
    low, high = 1, len(chain)  # chain[:low] is held; bisect for how far
    while low < high:
        middle = (low + high) // 2
        if chain[middle] in entries:
            low = middle + 1
        else:
            high = middle
    return low


class Runs:
    """One engine's runs. `roots`, which all engines share, has those that begin a chain, by its first link;
    `entries` has all other links.

    Queues hold the runs where a prompt ended, by when one last did, and those whose continuations went:
    `_busy` those that are in use, `_idle` the others.
    """

    __slots__ = (
        "_busy",
        "_idle",
        "_least_bytes",
        "_roots",
        "_told_s",
        "capacity_bytes",
        "entries",
        "held_bytes",
        "trunk",
        "used_bytes",
    )

    def __init__(self, engine: int, capacity_bytes: int, least_bytes: int, roots: Roots) -> None:
        """`least_bytes`: what a link counts at the least against the capacity."""
        self._roots = roots
        self._least_bytes = least_bytes
        self.capacity_bytes = capacity_bytes
        self.trunk = Trunk(engine)
        self.entries = self.trunk.entries
        self.held_bytes = 0
        self.used_bytes = 0  # of prompts in flight, what they share counted once
        self._idle = Recency()
        self._busy = Recency()
        self._told_s = 0.0  # the last instant that was told

    def touch(self, chain: Sequence[int], ends: Sequence[int], at_s: float, is_ours: bool) -> None:
        """Make the chain the most recent, as far as it can fit at all. `is_ours`: in use until `release`."""
        fits = len(chain)
        if not fits:
            return
        if ends[-1] > self.capacity_bytes or fits * self._least_bytes > self.capacity_bytes:
            fits = min(bisect_right(ends, self.capacity_bytes), self.capacity_bytes // self._least_bytes)
            if fits <= 0:
                return
        entries = self.entries
        low, high = 1, fits  # chain[:low] is held, if any; bisect for how far
        run: Run | None = None
        while low < high:
            middle = (low + high) // 2
            found = entries.get(chain[middle])
            if found is None:
                high = middle
            else:
                run = found
                low = middle + 1
        if run is None:
            run = self._roots.own(chain[0], self.trunk)
            if run is None:
                low = 0
        if run is not None and run.last != chain[low - 1]:
            run = self._split(run, chain[low - 1])
        if run is None or low < fits:
            run = self._added(run, chain, ends, low, fits)
        elif run.unsure != _SURE:
            run.unsure += 1
        run.at_s = self._told_s = at_s
        if is_ours and fits == len(chain):
            self._use(run)
        (self._busy if run.users else self._idle).add(run)

    def release(self, link: int) -> None:
        """One request in flight less ends in `link`. What was evicted meanwhile was released then."""
        self._release(self._ending(link))

    def held(self, chain: Sequence[int]) -> int:
        """How many of the chain's first links are here; it has one at least."""
        return 0 if self._roots.own(chain[0], self.trunk) is None else held_of(chain, self.entries)

    def in_use(self, chain: Sequence[int]) -> int:
        """How many of the chain's first links requests in flight have, too."""
        entries = self.entries
        low, high = 1, len(chain)
        while low < high:
            middle = (low + high) // 2
            run = entries.get(chain[middle])
            if run is not None and run.users:
                low = middle + 1
            else:
                high = middle
        if low > 1:
            return low
        run = self._roots.own(chain[0], self.trunk)
        return 1 if run is not None and run.users else 0

    def answer(self, link: int, size: int) -> None:
        """So many bytes are the answer to what ends in `link`, or will be. Of several the last counts."""
        run = self._ending(link)
        if run is None or run.kept > 0 or run.last != link:
            return
        self.held_bytes += size + run.kept
        run.kept = _ANSWERS[size] if size < _SMALL else -size
        if self.held_bytes > self.capacity_bytes:
            self.evict()

    def confirm(self, link: int) -> None:
        """What ends in `link` is held, and so is what it continues."""
        run = self._ending(link)
        while run is not None and run.unsure != _SURE:
            run.unsure = _SURE
            run = run.parent

    def retract(self, link: int) -> None:
        """One request less was sent what ends in `link`: gone when it was the last, and none was answered."""
        run = self._ending(link)
        if run is None or run.unsure == _SURE:
            return
        if run.unsure > 0:
            run.unsure -= 1
        while run is not None and run.unsure == 0 and run.kept <= 0:
            parent = run.parent
            self._remove(run, oldest=False)
            run = parent

    def expire(self, before_s: float) -> None:
        """Let go of what was touched before then, and is not in use."""
        run = self._idle.oldest
        while run is not None and run.at_s < before_s:
            if run.kept > 0:
                take_out(run)
            else:
                self._remove(run, oldest=True)
            run = self._idle.oldest

    def evict(self) -> None:
        """Let go of what was touched longest ago, and of what is in use last, until the rest fits."""
        while self.held_bytes > self.capacity_bytes:
            run = self._idle.oldest
            if run is None:
                run = self._busy.oldest
            if run is None:
                return
            if run.kept > 0:
                take_out(run)  # what continues it is younger, and so is it
                continue
            surplus = self.held_bytes - self.capacity_bytes
            if run.kept < 0:
                gone = min(surplus, -run.kept)
                run.kept += gone
                self.held_bytes -= gone
                continue
            links = len(run.before) + 1
            each = run.size // links
            number = (surplus + each - 1) // each
            if number >= links:
                self._remove(run, oldest=True)
                continue
            self._unuse(run)
            before, stay = run.before, links - number
            for link in before[stay:]:
                del self.entries[link]
            del self.entries[run.last]
            run.before, run.last = before[: stay - 1], before[stay - 1]
            run.size -= each * number
            self.held_bytes -= each * number

    def clear(self) -> None:
        """Forget everything but the capacity."""
        while (run := self._idle.oldest or self._busy.oldest) is not None:
            if run.kept > 0:
                take_out(run)
            else:
                self._remove(run, oldest=True)

    def _ending(self, link: int) -> Run | None:
        """The run that has a link."""
        return self.entries.get(link) or self._roots.own(link, self.trunk)

    def _added(
        self,
        parent: Run | None,
        chain: Sequence[int],
        ends: Sequence[int],
        start: int,
        end: int,
    ) -> Run:
        """Take in `chain[start:end]`, which continues `parent`, if anything."""
        size = ends[end - 1] - (ends[start - 1] if start else 0)
        least = self._least_bytes * (end - start)
        if size < least:
            size = least
        if size < _SMALL:
            size = _SIZES[size]
        entries, last = self.entries, chain[end - 1]
        before = tuple(chain[start : end - 1]) if end - start > 1 else ()
        self.held_bytes += size
        if parent is None:
            parent = self.trunk
            run = Run(parent, before, last, size, 1)
            self._roots.add(chain[0], run)
            if before:
                for link in before[1:]:
                    entries[link] = run
                entries[last] = run
        else:
            run = Run(parent, before, last, size, 1)
            for link in before:
                entries[link] = run
            entries[last] = run
        if parent.kept < 0:
            self.held_bytes += parent.kept  # the answer is in what continues
            parent.kept = 0
        parent.kept += 1
        tighten(entries)
        return run

    def _split(self, run: Run, link: int) -> Run:
        """Part a run after `link`. Back comes its beginning, which the rest continues, with its stamp."""
        before, parent = run.before, run.parent
        at = before.index(link)
        size = run.size * (at + 1) // (len(before) + 1)
        head = Run(parent, before[:at], link, size, _SURE if run.unsure == _SURE else 0)
        head.kept = 1
        head.users = 1 if run.users else 0
        entries = self.entries
        inner = before[:at]
        if parent is self.trunk:
            self._roots.discard(before[0], run)
            self._roots.add(before[0], head)
            if at:
                inner = before[1:at]
                entries[link] = head
        else:
            entries[link] = head
        for one in inner:
            entries[one] = head
        run.parent = head
        run.before = before[at + 1 :]
        run.size -= size
        return head

    def _remove(self, run: Run, oldest: bool) -> None:
        """Drop a run that nothing continues. `oldest`: it was that; else it was never there.

        Either way what it continued is the oldest then, if nothing else does and it is in no queue: it left
        its own as the oldest there, or what stood in one for it did.
        """
        entries, before, parent = self.entries, run.before, run.parent
        assert parent is not None
        if parent is self.trunk:
            self._roots.discard(before[0] if before else run.last, run)
            if before:
                before = (*before[1:], run.last)
        else:
            del entries[run.last]
        for link in before:
            del entries[link]
        self.held_bytes -= run.size - run.kept
        take_out(run)
        self._unuse(run)
        run.parent = None
        parent.kept -= 1
        if parent.older is None:
            if oldest:
                parent.at_s = run.at_s
            if not parent.kept:
                (self._busy if parent.users else self._idle).add_oldest(parent)

    def _use(self, run: Run | None) -> None:
        while run is not None:
            run.users += 1
            if run.users > 1:
                return
            self.used_bytes += run.size
            run = run.parent

    def _release(self, run: Run | None) -> None:
        while run is not None and run.users:
            run.users -= 1
            if run.users:
                return
            self.used_bytes -= run.size
            if run.older is not None:
                run.at_s = self._told_s
                self._idle.add(run)
            run = run.parent

    def _unuse(self, run: Run) -> None:
        """It goes, or a part of it, while requests end there: they have nothing to release any more."""
        if run.users:
            run.users = 0
            self.used_bytes -= run.size
            if run.older is not None:
                self._idle.add_oldest(run)
            self._release(run.parent)
