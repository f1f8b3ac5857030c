"""How background tasks are started and ended: named, kept alive, their errors reported."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class Tasks:
    """The background tasks of one owner.

    asyncio holds tasks weakly; a `Tasks` holds them until they end.  An error that ends one goes to
    `on_error(name, error)`, or to the loop's exception handler, so that no task dies unheard.
    """

    def __init__(self, on_error: Callable[[str, BaseException], None] | None = None) -> None:
        self._on_error = on_error
        self._running: set[asyncio.Task[Any]] = set()

    def spawn(self, coroutine: Coroutine[Any, Any, Any], *, name: str) -> asyncio.Task[Any]:
        """Start `coroutine` on the running loop."""
        task = asyncio.get_running_loop().create_task(coroutine, name=name)
        self._running.add(task)
        task.add_done_callback(self._ended)
        return task

    async def cancel(self) -> None:
        """Cancel every task that still runs and wait until all have ended."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._running.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if self._on_error is not None:
            self._on_error(task.get_name(), error)
        else:
            context = {"message": f"task {task.get_name()} failed", "exception": error, "task": task}
            task.get_loop().call_exception_handler(context)
