"""Which conversations are copied?  Whole ones or none, by a salted hash."""

import hashlib
from collections import OrderedDict

from mirror.admit import JOINED_LATE, TURN_MISSING

_MASK = (1 << 64) - 1
_ODD = 0x9E3779B97F4A7C15  # spreads neighbours (Knuth, TAOCP 3, 6.4)


class Sampler:
    """Takes a share `rate` of conversations, each from its first turn to its last.

    A conversation is named by its `root`.  The keyed hash of the root decides, so that two experiments with
    different salts take different users and two workers with the same salt take the same.  A conversation
    first seen at a later turn is not taken: its beginning never ran on the arms.  `sees_all=False` is for
    one worker of several, where the first turn may have gone to another: the hash alone decides there, and
    the shadow process, which sees all workers, turns away what joined late.  The memory is bounded to the
    `remember` conversations used last.

    Where a request's `session` is given (not 0), the hash of that decides in place of the root's: so all
    conversations of a session are taken or none is, also when the share changes, as long as it is remembered.
    """

    def __init__(self, salt: bytes, rate: float, remember: int = 100_000, *, sees_all: bool = True) -> None:
        if not 0.0 <= rate <= 1.0:
            raise ValueError(f"rate must be between 0 and 1, got {rate}")
        # blake2b takes keys of up to 64 bytes; a longer salt is hashed down to one.
        self._key = salt if len(salt) <= 64 else hashlib.blake2b(salt).digest()
        self._below = self._most_below = round(rate * (1 << 64))
        self._remember = remember
        self._sees_all = sees_all
        self._open: OrderedDict[int, None] = OrderedDict()
        self._shed: OrderedDict[int, None] = OrderedDict()
        self._sessions: OrderedDict[int, bool] = OrderedDict()  # whether they are taken

    def renew(self, rate: float) -> None:
        """Take this share of the conversations that begin from now on; those that run go on."""
        self._below = round(min(max(rate, 0.0), 1.0) * (1 << 64))
        self._most_below = max(self._most_below, self._below)

    @property
    def rate(self) -> float:
        """The share of the conversations that begin now."""
        return self._below / (1 << 64)

    def admits(self, root: int, turns: int, session: int = 0) -> bool:
        """Whether to copy conversation `root`'s request that has `turns` assistant messages before it."""
        name = _named(root, session)
        if turns > 0 and name in self._shed:
            self._shed.move_to_end(name)
            return False
        if name in self._open:
            self._open.move_to_end(name)
            return True
        if turns > 0:
            if self._sees_all or self._left_out(session):
                return False
            # One that began elsewhere may have done so when the share was larger: the shadow process knows.
            return self._place(session or root) < self._most_below
        if not (self._takes(session) if session else self._place(root) < self._below):
            return False
        self._shed.pop(name, None)
        self._open[name] = None
        if len(self._open) > self._remember:
            self._open.popitem(last=False)
        return True

    def _takes(self, session: int) -> bool:
        """Whether conversations of this session are taken: what was decided of the first one stays."""
        taken = self._sessions.get(session)
        if taken is None:
            taken = self._sessions[session] = self._place(session) < self._below
            if len(self._sessions) > self._remember:
                self._sessions.popitem(last=False)
        else:
            self._sessions.move_to_end(session)
        return taken

    def _left_out(self, session: int) -> bool:
        return session != 0 and self._sessions.get(session) is False

    def missed(self, root: int, turns: int, session: int = 0) -> str | None:
        """Why a request that was not admitted is missing from the share; None: its conversation is no part of
        it."""
        if turns == 0 or self._left_out(session) or self._place(session or root) >= self._below:
            return None
        name = _named(root, session)
        return TURN_MISSING if name in self._shed else JOINED_LATE

    def shed(self, root: int, session: int = 0) -> None:
        """Close a conversation that lost a turn: none of its later ones is copied until it begins anew.

        One that begins with the same words does not pay for what the first has lost.
        """
        name = _named(root, session)
        self._open.pop(name, None)
        self._shed[name] = None
        self._shed.move_to_end(name)
        if len(self._shed) > self._remember:
            self._shed.popitem(last=False)

    def falls_in(self, name: bytes) -> bool:
        """Whether what has this name is part of the share; every name is so with the same probability."""
        digest = hashlib.blake2b(name, digest_size=8, key=self._key).digest()
        return int.from_bytes(digest, "little") < self._below

    def _place(self, root: int) -> int:
        name = (root & _MASK).to_bytes(8, "little")
        return int.from_bytes(hashlib.blake2b(name, digest_size=8, key=self._key).digest(), "little")


def _named(root: int, session: int) -> int:
    """A session's conversation: others begin with the same words, and their sessions are decided apart."""
    return root if not session else ((root ^ session) * _ODD + session) & _MASK


def copies_of(salt: bytes, root: int, times: float) -> int:
    """How often a conversation is sent so that all are sent `times` on average; at least once.

    The same for all its turns, as a keyed hash of its root decides who is sent once more.
    """
    whole = max(1, int(times))
    if times <= whole:
        return whole
    name = (root & _MASK).to_bytes(8, "little")
    digest = hashlib.blake2b(name, digest_size=8, key=salt[:64], person=b"once more").digest()
    return whole + (int.from_bytes(digest, "little") < round((times - whole) * (1 << 64)))


def is_observed(salt: bytes, root: int, share: float) -> bool:
    """Whether production's own answers to a conversation that is copied are handed over, too.

    The same for all its turns, and for a `share` of the conversations, whichever are copied.
    """
    if share >= 1.0:
        return True
    name = (root & _MASK).to_bytes(8, "little")
    digest = hashlib.blake2b(name, digest_size=8, key=salt[:64], person=b"observed").digest()
    return int.from_bytes(digest, "little") < round(share * (1 << 64))
