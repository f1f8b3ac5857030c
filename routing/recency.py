"""In which order does an engine let go of what it was sent? Runs of links, oldest first."""


class Run:
    """Links that stand and fall together but for their end: `before`, and then `last`, mostly alone.

    `unsure`: how many requests sent it that have not been answered yet, as long as none has been; -1 from the
    first answer on. `kept`: how many runs continue this one; where none does, minus the bytes that are
    answered where it ends. `older` and `newer` are its neighbours in a queue, None outside of one.
    """

    # A prompt of a few words is a run: a field more or less is 16 bytes for each of them, or none.
    __slots__ = ("at_s", "before", "kept", "last", "newer", "older", "parent", "size", "unsure", "users")

    def __init__(
        self, parent: "Run | None", before: tuple[int, ...], last: int, size: int, unsure: int
    ) -> None:
        self.parent = parent
        self.before = before
        self.last = last
        self.size = size  # bytes
        self.unsure = unsure
        self.kept = 0
        self.users = 0  # requests in flight that end here, and runs in use that continue this one
        self.at_s = 0.0
        self.older: Run | None = None
        self.newer: Run | None = None


class Trunk(Run):
    """What all runs of an engine continue that continue nothing else: no link, and never let go of."""

    __slots__ = ("engine", "entries")

    def __init__(self, engine: int) -> None:
        super().__init__(None, (), 0, 0, -1)
        self.engine = engine
        self.entries: dict[int, Run] = {}
        """All links of the engine but those that begin a chain."""
        self.kept = self.users = 1  # for itself

    @property
    def links(self) -> int:
        """How many links the engine's runs have."""
        return len(self.entries) + self.kept - 1


class Recency:
    """A queue of runs; a run is in one at most."""

    __slots__ = ("_end",)

    def __init__(self) -> None:
        # A ring: the oldest follows the end, which follows the newest.
        self._end = end = Run(None, (), 0, 0, -1)
        end.older = end.newer = end

    @property
    def oldest(self) -> Run | None:
        """None where the queue is empty."""
        oldest = self._end.newer
        return None if oldest is self._end else oldest

    def add(self, run: Run) -> None:
        """Make it the newest, wherever it was."""
        end = self._end
        newest = end.older
        if run is newest or newest is None:
            return
        take_out(run)
        run.older, run.newer = newest, end
        newest.newer = end.older = run

    def add_oldest(self, run: Run) -> None:
        """Make it the oldest, wherever it was."""
        take_out(run)
        end = self._end
        oldest = end.newer
        if oldest is None:
            return
        run.older, run.newer = end, oldest
        oldest.older = end.newer = run


def take_out(run: Run) -> None:
    """Out of the queue it is in, if any."""
    older, newer = run.older, run.newer
    if older is None or newer is None:
        return
    older.newer, newer.older = newer, older
    run.older = run.newer = None
