"""In which order does an engine let go of what it was sent? Runs of links, oldest first."""


class Run:
    """Links that stand and fall together but for their end: `before`, and then `last`, mostly alone.

    `unsure`: how many requests sent it that have not been answered yet, as long as none has been; -1 from the
    first answer on. `beside`: of a run that continues nothing, the next engine's that begins with that link.
    """

    __slots__ = (
        "answer",
        "at_s",
        "before",
        "beside",
        "kept",
        "last",
        "newer",
        "older",
        "parent",
        "queue",
        "size",
        "unsure",
        "users",
    )

    def __init__(
        self, parent: "Run | None", before: tuple[int, ...], last: int, size: int, unsure: int
    ) -> None:
        self.parent = parent
        self.before = before
        self.last = last
        self.beside: Run | None = None
        self.size = size  # bytes
        self.answer = 0  # bytes that are answered where it ends, as long as nothing continues it
        self.unsure = unsure
        self.kept = 0  # runs that continue this one
        self.users = 0  # requests in flight that end here, and runs in use that continue this one
        self.at_s = 0.0
        self.queue: Recency | None = None
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

    __slots__ = ("newest", "oldest")

    def __init__(self) -> None:
        self.oldest: Run | None = None
        self.newest: Run | None = None

    def add(self, run: Run) -> None:
        """Make it the newest, wherever it was."""
        if run is self.newest:
            return
        if run.queue is not None:
            take_out(run)
        newest = self.newest
        run.older = newest
        if newest is None:
            self.oldest = run
        else:
            newest.newer = run
        self.newest = run
        run.queue = self

    def add_oldest(self, run: Run) -> None:
        """Make it the oldest, wherever it was."""
        take_out(run)
        oldest = self.oldest
        run.newer = oldest
        if oldest is None:
            self.newest = run
        else:
            oldest.older = run
        self.oldest = run
        run.queue = self


def take_out(run: Run) -> None:
    """Out of the queue it is in, if any."""
    queue = run.queue
    if queue is None:
        return
    older, newer = run.older, run.newer
    if older is None:
        queue.oldest = newer
    else:
        older.newer = newer
    if newer is None:
        queue.newest = older
    else:
        newer.older = older
    run.older = run.newer = None
    run.queue = None
