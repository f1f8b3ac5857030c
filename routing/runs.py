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

from routing.recency import Recency, Run, take_out

_SURE: Final = -1


class Runs:
    """One engine's runs; `holders` is shared by all engines: a chain's first link -> a bit for each engine.

    Queues hold the runs where a prompt ended, by when one last did, and those whose continuations went:
    `_busy` those that are in use, `_idle` the others.
    """

    __slots__ = (
        "_bit",
        "_busy",
        "_holders",
        "_idle",
        "_least_bytes",
        "_told_s",
        "capacity_bytes",
        "entries",
        "held_bytes",
        "used_bytes",
    )

    def __init__(self, engine: int, capacity_bytes: int, least_bytes: int, holders: dict[int, int]) -> None:
        """`least_bytes`: what a link counts at the least against the capacity."""
        self._bit = 1 << engine
        self._holders = holders
        self._least_bytes = least_bytes
        self.capacity_bytes = capacity_bytes
        self.entries: dict[int, Run] = {}
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
        low, high = 0, fits  # chain[:low] is held; bisect for how far
        run: Run | None = None
        while low < high:
            middle = (low + high) // 2
            found = entries.get(chain[middle])
            if found is None:
                high = middle
            else:
                run = found
                low = middle + 1
        if run is not None and run.links[-1] != chain[low - 1]:
            run = self._split(run, chain[low - 1])
        if low < fits:
            run = self._added(run, chain, ends, low, fits)
        elif run is not None and run.unsure != _SURE:
            run.unsure += 1
        assert run is not None
        run.at_s = self._told_s = at_s
        if is_ours and fits == len(chain):
            self._use(run)
        (self._busy if run.users else self._idle).add(run)

    def release(self, link: int) -> None:
        """One request in flight less ends in `link`. What was evicted meanwhile was released then."""
        self._release(self.entries.get(link))

    def answer(self, link: int, size: int) -> None:
        """So many bytes are the answer to what ends in `link`, or will be. Of several the last counts."""
        run = self.entries.get(link)
        if run is None or run.kept or run.links[-1] != link:
            return
        self.held_bytes += size - run.answer
        run.answer = size
        self.evict()

    def confirm(self, link: int) -> None:
        """What ends in `link` is held, and so is what it continues."""
        run = self.entries.get(link)
        while run is not None and run.unsure != _SURE:
            run.unsure = _SURE
            run = run.parent

    def retract(self, link: int) -> None:
        """One request less was sent what ends in `link`: gone when it was the last, and none was answered."""
        run = self.entries.get(link)
        if run is None or run.unsure == _SURE:
            return
        if run.unsure > 0:
            run.unsure -= 1
        while run is not None and run.unsure == 0 and not run.kept:
            parent = run.parent
            self._remove(run, oldest=False)
            run = parent

    def expire(self, before_s: float) -> None:
        """Let go of what was touched before then, and is not in use."""
        run = self._idle.oldest
        while run is not None and run.at_s < before_s:
            if run.kept:
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
            if run.kept:
                take_out(run)  # what continues it is younger, and so is it
                continue
            surplus = self.held_bytes - self.capacity_bytes
            if run.answer:
                gone = min(surplus, run.answer)
                run.answer -= gone
                self.held_bytes -= gone
                continue
            links = run.links
            each = run.size // len(links)
            number = (surplus + each - 1) // each
            if number >= len(links):
                self._remove(run, oldest=True)
                continue
            self._unuse(run)
            stay = len(links) - number
            for link in links[stay:]:
                del self.entries[link]
            run.links = links[:stay]
            run.size -= each * number
            self.held_bytes -= each * number

    def clear(self) -> None:
        """Forget everything but the capacity."""
        for link, run in self.entries.items():
            if run.parent is None and run.links[0] == link:
                self._let_go(link)
        for run in self.entries.values():  # they hold one another
            run.older = run.newer = run.queue = None
        for run in self.entries.values():
            run.parent = None
        self.entries = {}
        self.held_bytes = self.used_bytes = 0
        self._idle, self._busy = Recency(), Recency()

    def _added(
        self, parent: Run | None, chain: Sequence[int], ends: Sequence[int], start: int, end: int
    ) -> Run:
        links = tuple(chain[start:end])
        size = ends[end - 1] - (ends[start - 1] if start else 0)
        least = self._least_bytes * (end - start)
        if size < least:
            size = least
        run = Run(parent, links, size, 1)
        entries = self.entries
        for link in links:
            entries[link] = run
        self.held_bytes += size
        if parent is None:
            holders, first = self._holders, links[0]
            holders[first] = holders.get(first, 0) | self._bit
        else:
            parent.kept += 1
            self.held_bytes -= parent.answer  # it is in what continues
            parent.answer = 0
        return run

    def _split(self, run: Run, link: int) -> Run:
        """Part a run after `link`. Back comes its beginning, which the rest continues, with its stamp."""
        links = run.links
        at = links.index(link) + 1
        size = run.size * at // len(links)
        head = Run(run.parent, links[:at], size, _SURE if run.unsure == _SURE else 0)
        head.kept = 1
        head.users = 1 if run.users else 0
        for one in head.links:
            self.entries[one] = head
        run.parent = head
        run.links = links[at:]
        run.size -= size
        return head

    def _remove(self, run: Run, oldest: bool) -> None:
        """Drop a run that nothing continues. `oldest`: it was that, and so is then what it continued."""
        entries = self.entries
        for link in run.links:
            del entries[link]
        self.held_bytes -= run.size + run.answer
        take_out(run)
        parent = run.parent
        self._unuse(run)
        if parent is None:
            self._let_go(run.links[0])
            return
        run.parent = None
        parent.kept -= 1
        if not parent.kept and parent.queue is None:
            parent.at_s = run.at_s
            queue = self._busy if parent.users else self._idle
            if oldest:
                queue.add_oldest(parent)
            else:
                queue.add(parent)

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
            if run.queue is self._busy:
                run.at_s = self._told_s
                self._idle.add(run)
            run = run.parent

    def _unuse(self, run: Run) -> None:
        """It goes, or a part of it, while requests end there: they have nothing to release any more."""
        if run.users:
            run.users = 0
            self.used_bytes -= run.size
            if run.queue is not None:
                self._idle.add_oldest(run)
            self._release(run.parent)

    def _let_go(self, first: int) -> None:
        """The engine no longer holds a chain that begins with `first`."""
        holders = self._holders
        left = holders.get(first, 0) & ~self._bit
        if left:
            holders[first] = left
        else:
            holders.pop(first, None)
