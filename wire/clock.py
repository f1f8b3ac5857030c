"""The clock that instants on the way of a request are read from."""

import time
from collections.abc import Callable
from typing import Final

# A constant here: compiled, it is found without a look into a module's dictionary at each reading.
monotonic_ns: Final[Callable[[], int]] = time.monotonic_ns
