"""What lives in this process?  Written into $SOAK_WITNESS/PID on SIGUSR2: tasks, and objects of our classes.

The soak puts this folder on PYTHONPATH, so that every process of the gateway loads it and none knows of it.
"""

import asyncio
import collections
import gc
import json
import os
import signal
from pathlib import Path
from types import FrameType

_OURS = {"gateway", "wire", "mirror", "routing", "analysis"}


def _write(_signal: int, _frame: FrameType | None) -> None:
    gc.collect()
    living = gc.get_objects()
    tasks = sum(isinstance(one, asyncio.Task) and not one.done() for one in living)
    named = ((str(kind.__module__), kind.__qualname__) for kind in map(type, living))
    counts = collections.Counter(f"{home}.{name}" for home, name in named if home.partition(".")[0] in _OURS)
    path = Path(os.environ["SOAK_WITNESS"]) / str(os.getpid())
    path.with_suffix(".half").write_text(json.dumps({"tasks": tasks, **counts}))
    path.with_suffix(".half").rename(path)


if "SOAK_WITNESS" in os.environ:
    signal.signal(signal.SIGUSR2, _write)
