"""A real Chromium, driven over its debugging protocol: what a page shows and complains about."""

import asyncio
import base64
import shutil
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--remote-debugging-port=0",
    "about:blank",
]


def found() -> str | None:
    """Where Chromium is, None if there is none."""
    return next(
        (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))),
        None,
    )


class Tab:
    """One page. `complaints` holds every uncaught error, console error and failed load so far."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._next = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.complaints: list[str] = []

    async def listen(self) -> None:
        """Read what the browser sends, until it goes."""
        async for message in self._socket:
            said = message.json()
            if "id" in said:
                waiting = self._answers.pop(said["id"], None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(said)
            elif said["method"] == "Runtime.exceptionThrown":
                self.complaints.append(str(said["params"]["exceptionDetails"]))
            elif said["method"] == "Runtime.consoleAPICalled" and said["params"]["type"] in (
                "error",
                "warning",
            ):
                self.complaints.append(str(said["params"]["args"]))
            elif said["method"] == "Log.entryAdded" and said["params"]["entry"]["level"] in (
                "error",
                "warning",
            ):
                self.complaints.append(str(said["params"]["entry"]))

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        """One command of the debugging protocol and its result."""
        self._next += 1
        answer = self._answers[self._next] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._next, "method": method, "params": params})
        said = await asyncio.wait_for(answer, 20)
        assert "error" not in said, said
        result: dict[str, Any] = said["result"]
        return result

    async def open(self, url: str, *, width: int = 1280, dark: bool = False) -> None:
        """Go to `url` in a window of this width."""
        for domain in ("Runtime", "Log", "Page"):
            await self.call(f"{domain}.enable")
        await self.call("Emulation.setScrollbarsHidden", hidden=True)
        await self.resize(width)
        await self.colours(dark)
        await self.call("Page.navigate", url=url)

    async def resize(self, width: int) -> None:
        """Make the window this wide."""
        await self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False
        )

    async def colours(self, dark: bool) -> None:
        """What the system prefers."""
        value = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": value}]
        await self.call("Emulation.setEmulatedMedia", features=features)

    async def ask(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        said = await self.call(
            "Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True
        )
        assert "exceptionDetails" not in said, said
        return said["result"].get("value")

    async def until(self, expression: str) -> None:
        """Wait until a JavaScript expression is true."""
        for _ in range(600):
            if await self.ask(
                f"(() => {{ try {{ return Boolean({expression}) }} catch {{ return false }} }})()"
            ):
                return
            await asyncio.sleep(0.05)
        raise AssertionError(
            f"never true: {expression}\n{await self.ask('document.body?.innerText')}\n{self.complaints}"
        )

    async def picture(self, path: Path) -> None:
        """A picture of the whole page, as PNG."""
        size = (await self.call("Page.getLayoutMetrics"))["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = await self.call("Page.captureScreenshot", captureBeyondViewport=True, format="png", clip=clip)
        await asyncio.to_thread(path.write_bytes, base64.b64decode(shot["data"]))


@asynccontextmanager
async def tab() -> AsyncIterator[Tab]:
    """A fresh browser with a fresh profile and one tab."""
    program = found()
    assert program is not None
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        quiet = asyncio.subprocess.DEVNULL
        browser = await asyncio.create_subprocess_exec(
            program, f"--user-data-dir={profile}", *FLAGS, stdout=quiet, stderr=quiet
        )
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as session, asyncio.TaskGroup() as tasks:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    pages = [page for page in await answer.json() if page["type"] == "page"]
                async with session.ws_connect(pages[0]["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    page = Tab(socket)
                    listening = tasks.create_task(page.listen())
                    yield page
                    listening.cancel()
        finally:
            browser.terminate()
            await browser.wait()


async def _port(path: Path) -> int:
    for _ in range(600):
        if (port := _written(path)) is not None:
            return port
        await asyncio.sleep(0.05)
    raise AssertionError("Chromium did not start")


def _written(path: Path) -> int | None:
    lines = path.read_text().split() if path.exists() else []
    return int(lines[0]) if lines else None
