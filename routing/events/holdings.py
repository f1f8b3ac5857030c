"""Which blocks does one publisher hold?

By the engine's own hash, for that is what removals name; each with the name of our chain under which it is
found in the table.  A block that was removed while what continues it is still held stays as a ghost: what it
names is known again when it comes back, and as long as there is none, whoever holds a block holds all before
it.

A publisher that tells of lower tiers has one more of these for each: of what can be found there or above.
"""

from array import array
from collections.abc import Iterable, Sequence
from typing import Final, Protocol

from routing.events.chain import continued, scope
from routing.events.decode import Removed, Stored
from routing.events.kin import Kin

_NONE: Final = -1
_MOST_COUNT: Final = 0xFFFF_FFFF
# The least a slot takes: the arrays' 36 bytes; the dict adds about 110.


class Marks(Protocol):
    """Who holds which names: the table, as one publisher writes to it."""

    def add(self, name: int) -> bool:
        """The publisher holds `name` now; whether it did not before."""
        ...

    def discard(self, name: int) -> None:
        """The publisher no longer holds `name`."""
        ...


class Holdings:
    """One publisher's blocks: at most `most_blocks`, ghosts included."""

    def __init__(self, marks: Marks, most_blocks: int) -> None:
        self._marks = marks
        self._most_blocks = most_blocks
        self.block_size = 0
        """Tokens a block; 0 until one was stored."""
        self.held = 0
        """Blocks that can be found there."""
        self._group: int | None = None
        self._begin()

    def _begin(self) -> None:
        self.held = 0
        self._slots: dict[int, int] = {}
        self._hash, self._name, self._seed = array("Q"), array("Q"), array("Q")
        self._parent, self._children, self._count = array("i"), array("I"), array("I")
        self._free: list[int] = []
        self._again: dict[int, int] = {}  # names held under more than one hash: how many more
        self._kin: Kin | None = None

    @property
    def ghosts(self) -> int:
        """Blocks that are not held though what continues them is: 0 where holding one means all before it."""
        return len(self._slots) - self.held

    def store(self, event: Stored, others: "Iterable[Holdings]" = ()) -> str | None:
        """Take in blocks; why not, or not all of them, where that is so.

        `others`: of the same publisher's other tiers. They may know what blocks are of which only the hashes
        are told.
        """
        if not event.hashes:
            return None
        if not event.block_size:
            return self._again_there(event.hashes, others)
        if not self.block_size:
            self.block_size, self._group = event.block_size, event.group
        if event.block_size != self.block_size:
            return "block_size"
        if event.group != self._group:
            return "group"
        before = _NONE
        if event.parent is None:
            seed, name = scope(event.lora, event.salt), None
        else:
            before = self._slots.get(event.parent, _NONE)
            if before == _NONE:
                return "unknown_parent"
            seed, name = self._seed[before], self._name[before]
        names = continued(name, seed, event.tokens, event.block_size, event.extras)
        for own, name in zip(event.hashes, names, strict=True):
            slot = self._slots.get(own)
            if slot is None:
                if len(self._slots) >= self._most_blocks:
                    return "too_many_blocks"
                slot = self._new(own, name, seed, before)
            elif self._name[slot] != name:
                return "conflict"
            elif not self._count[slot]:
                self._count[slot] = 1
                self._hold(name)
            elif self._count[slot] < _MOST_COUNT:
                self._count[slot] += 1  # the engine has it twice, and will say so when the first one goes
            before = slot
        return None

    def _again_there(self, hashes: Sequence[int], others: "Iterable[Holdings]") -> str | None:
        """Blocks are in one more place; of which nothing but the hashes is told."""
        for own in hashes:
            slot = self._slots.get(own)
            if slot is None:
                known = next((other for other in others if own in other._slots), None)
                reason = "tokenless" if known is None else self._as_known(own, known)
                if reason is not None:
                    return reason
                continue
            if not self._count[slot]:
                self._hold(self._name[slot])
            if self._count[slot] < _MOST_COUNT:
                self._count[slot] += 1
        return None

    def _as_known(self, own: int, other: "Holdings") -> str | None:
        """Take in a block that another knows; what comes before it and is not held here, as ghosts."""
        line: list[int] = []
        at = other._slots[own]
        while at != _NONE and other._hash[at] not in self._slots:
            line.append(at)
            at = other._parent[at]
        if len(self._slots) + len(line) > self._most_blocks:
            return "too_many_blocks"
        if not self.block_size:
            self.block_size, self._group = other.block_size, other._group
        before = _NONE if at == _NONE else self._slots[other._hash[at]]
        for at in reversed(line):
            before = self._new(
                other._hash[at], other._name[at], other._seed[at], before, is_held=at == line[0]
            )
        return None

    def copied(self, marks: Marks, most_blocks: int) -> "Holdings":
        """Another of the same blocks, for `marks`: what was told before a lower tier was first heard of."""
        other = Holdings(marks, most_blocks)
        other.block_size, other._group, other.held = self.block_size, self._group, self.held
        other._slots, other._again, other._free = self._slots.copy(), self._again.copy(), self._free[:]
        other._hash, other._name, other._seed = self._hash[:], self._name[:], self._seed[:]
        other._parent, other._children, other._count = self._parent[:], self._children[:], self._count[:]
        for name in self.names():
            marks.add(name)
        return other

    def remove(self, event: Removed) -> int:
        """Let blocks go; how many of them were not known."""
        unknown = 0
        if event.group is not None and event.group != self._group:
            return unknown
        if event.wholly:
            for own in event.hashes:
                self._cut(own)
            return unknown
        for own in event.hashes:
            slot = self._slots.get(own)
            if slot is None or not self._count[slot]:
                unknown += 1
                continue
            self._count[slot] -= 1
            if not self._count[slot]:
                self._let_go(self._name[slot])
                self._forget(slot)
        return unknown

    def _cut(self, own: int) -> None:
        """Let a block go, and all that continues it."""
        slot = self._slots.get(own)
        if slot is None:
            return
        if self._kin is None and self._children[slot]:
            self._kin = Kin(self._slots.values(), self._parent)
        for one in self._kin.line(slot) if self._kin is not None else (slot,):
            if self._hash[one] not in self._slots:
                continue  # a ghost, gone with the last that continued it
            if self._count[one]:
                self._count[one] = 0
                self._let_go(self._name[one])
            self._forget(one)

    def clear(self) -> None:
        """Nothing is held any more."""
        for slot in self._slots.values():
            if self._count[slot]:
                self._marks.discard(self._name[slot])
        self.block_size, self._group = 0, None
        self._begin()

    def names(self) -> list[int]:
        """The names of all that is held, once each."""
        return list({self._name[slot] for slot in self._slots.values() if self._count[slot]})

    def _new(self, own: int, name: int, seed: int, before: int, *, is_held: bool = True) -> int:
        count = 1 if is_held else 0
        if self._free:
            slot = self._free.pop()
            self._hash[slot], self._name[slot], self._seed[slot] = own, name, seed
            self._parent[slot], self._children[slot], self._count[slot] = before, 0, count
        else:
            slot = len(self._hash)
            self._hash.append(own)
            self._name.append(name)
            self._seed.append(seed)
            self._parent.append(before)
            self._children.append(0)
            self._count.append(count)
        self._slots[own] = slot
        if before != _NONE:
            self._children[before] += 1
        if self._kin is not None:
            self._kin.add(slot, before)
        if is_held:
            self._hold(name)
        return slot

    def _hold(self, name: int) -> None:
        self.held += 1
        if not self._marks.add(name):
            self._again[name] = self._again.get(name, 0) + 1

    def _let_go(self, name: int) -> None:
        self.held -= 1
        more = self._again.get(name)
        if more is None:
            self._marks.discard(name)
        elif more == 1:
            del self._again[name]
        else:
            self._again[name] = more - 1

    def _forget(self, slot: int) -> None:
        """Free a slot that is not held, and ghosts before it, unless it is continued."""
        while slot != _NONE and not self._count[slot] and not self._children[slot]:
            del self._slots[self._hash[slot]]
            self._free.append(slot)
            parent = self._parent[slot]
            if self._kin is not None:
                self._kin.discard(slot, parent)
            slot = parent
            if slot != _NONE:
                self._children[slot] -= 1
