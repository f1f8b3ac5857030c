"""What a worker looks after once a second, step by step: one that fails ends neither others nor itself."""

import asyncio
from collections.abc import Callable, Mapping
from time import monotonic_ns

Step = Callable[[int], None]


async def beat(
    steps: Mapping[str, Step], failed: Callable[[str, Exception], None], *, every_s: float = 1.0
) -> None:
    """Take all steps in order, given the instant, again and again; those that raise are told to `failed`.

    Between two of them what else is due has its turn.
    """
    while True:
        await asyncio.sleep(every_s)
        now_ns = monotonic_ns()
        for name, step in steps.items():
            try:
                step(now_ns)
            except Exception as error:
                failed(name, error)
            await asyncio.sleep(0)
