"""What do the workers of one run share in memory, and which column of it is whose over its reloads?"""

from collections.abc import Mapping
from pathlib import Path

from config.schema import Config
from gateway.admission.composed import names
from gateway.admission.desk import SPARE_FLEETS, SPARE_KEYS, create_table
from gateway.admission.slots import NoSlotLeftError, Slots
from gateway.fleets.columns import SPARE, Columns
from gateway.fleets.loads import LoadTable
from gateway.processes.compose import places
from gateway.processes.deployment import UnusableError


class Tables:
    """The supervisor's hold on them, made for the first configuration with room for later ones."""

    def __init__(self, run_dir: Path, config: Config) -> None:
        width = len(places(config)) + SPARE
        keys, fleets = len(names(config)), len(config.fleets)
        self._loads = LoadTable.create(run_dir / "loads.bin", config.workers, width)
        table = self._limits = create_table(
            run_dir, workers=config.workers, fleets=fleets, engines=width, keys=keys
        )
        self.columns = Columns(width, self._loads.is_empty)
        self.columns.hold(self.columns.proposed(places(config)))
        # A fleet's slot also holds who waits and whose turn it was: it is never another's.
        self._fleets: Slots[str | None] = Slots(fleets + SPARE_FLEETS, lambda _slot: False)
        self._keys: Slots[str] = Slots(keys + SPARE_KEYS, lambda slot: not table.total(table.inflight + slot))

    def slots(self, config: Config) -> tuple[Mapping[str | None, int], Mapping[str, int]]:
        """The slots of fleets and keys among the limits.  Raises deployment.UnusableError."""
        try:
            return self._fleets.of(fleet.model for fleet in config.fleets), self._keys.of(names(config))
        except NoSlotLeftError as error:
            raise UnusableError(f"too many fleets or keys: {error}") from error

    def zero(self, worker: int) -> None:
        """Forget what a dead worker was doing."""
        self._loads.zero(worker)
        self._limits.zero(worker)

    def close(self) -> None:
        """Unmap."""
        self._loads.close()
        self._limits.close()
