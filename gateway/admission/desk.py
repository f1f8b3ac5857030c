"""What one worker keeps of admission over its life: opened when first needed, renewed, told of, closed."""

import asyncio
from collections.abc import Mapping, MutableMapping
from pathlib import Path

from gateway.admission.admit import Admission
from gateway.admission.bell import WorkerBell
from gateway.admission.room import Fleet
from gateway.admission.table import Table
from gateway.durations import Durations
from gateway.spec import AdmissionSpec, KeySpec

FILE = "admission.bin"
SPARE_KEYS = 256  # that a reload may add
SPARE_FLEETS = 32
_UNLIMITED = AdmissionSpec((), KeySpec("everyone", 0), ())


def create_table(run_dir: Path, *, workers: int, fleets: int, engines: int, keys: int) -> Table:
    """The supervisor's: the table of a run, with room for what reloads may add to `fleets` and `keys`.

    `engines` is the load table's width.  Whoever dies: `Table.zero`.
    """
    return Table.create(run_dir / FILE, workers, fleets + SPARE_FLEETS, engines, keys + SPARE_KEYS)


class Desk:
    """One worker's admission, or none while nothing is limited."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        run_dir: Path,
        worker: int,
        counts: MutableMapping[tuple[str, ...], int],
    ) -> None:
        self._loop = loop
        self._run_dir = run_dir
        self._worker = worker
        self._counts = counts
        self._table: Table | None = None
        self._bell: WorkerBell | None = None
        self._admission: Admission | None = None

    def renew(self, spec: AdmissionSpec | None, fleets: Mapping[str | None, Fleet]) -> Admission | None:
        """Admit by `spec` from now on; what to ask, None where nothing is limited any more or yet.

        `fleets` are by their models.  ValueError, and nothing changed, when the table has no room for it.
        """
        if self._admission is None:
            if spec is not None:
                self._open(spec, fleets)
            return self._admission
        # who waits when limits are taken away is let through
        self._admission.apply(_UNLIMITED if spec is None else spec, fleets)
        return None if spec is None else self._admission

    def _open(self, spec: AdmissionSpec, fleets: Mapping[str | None, Fleet]) -> None:
        table = Table.open(self._run_dir / FILE)
        bell = WorkerBell(self._loop, self._run_dir, self._worker, self._poll)
        try:
            self._admission = Admission(spec, table, self._worker, fleets, bell, self._counts)
        except BaseException:
            bell.close()
            table.close()
            raise
        self._table, self._bell = table, bell

    def _poll(self, at_ns: int) -> int:
        return 0 if self._admission is None else self._admission.poll(at_ns)

    def report(
        self,
        counts: MutableMapping[tuple[str, ...], int],
        observations: MutableMapping[tuple[str, ...], Durations],
        gauges: MutableMapping[tuple[str, ...], float],
    ) -> None:
        """Add what is exported once a second, by series."""
        if self._admission is not None:
            counts.update(self._admission.usage())
            observations.update(self._admission.waits())
            gauges.update(self._admission.gauges())

    def close(self) -> None:
        """Give up what is held.  Every ticket has ended by now."""
        if self._bell is not None and self._table is not None:
            self._bell.close()
            self._table.close()
