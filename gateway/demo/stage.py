"""What must be up before the demo's traffic can flow?  Engines, a configuration, and a gateway."""

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import yaml

from gateway.demo import cast as demo_cast
from gateway.demo.children import Children

_START_TIMEOUT_S = 30.0


class DemoError(RuntimeError):
    """The demo cannot go on; the text says why."""


@dataclass(frozen=True, slots=True)
class Stage:
    """A gateway with its engines behind it.  `session` is for its admin API."""

    children: Children
    session: aiohttp.ClientSession
    serving_url: str
    admin_url: str

    async def ranking(self) -> dict[str, Any] | None:
        """The ranking as it stands; None when the admin API gives none just now."""
        try:
            async with self.session.get(self._experiment_url) as response:
                if response.status != 200:
                    return None
                ranking: dict[str, Any] = await response.json()
                return ranking
        except (aiohttp.ClientError, TimeoutError):
            return None  # whether the gateway has died is for `children.check` to say

    async def report(self) -> bytes:
        """The report, one self-contained HTML page."""
        try:
            async with self.session.get(
                f"{self._experiment_url}/report.html", raise_for_status=True
            ) as response:
                return await response.read()
        except (aiohttp.ClientError, TimeoutError) as error:
            raise DemoError(f"the report could not be fetched: {error or type(error).__name__}") from None

    @property
    def _experiment_url(self) -> str:
        return f"{self.admin_url}/api/experiments/{demo_cast.EXPERIMENT}"


async def set_stage(
    members: demo_cast.Cast,
    children: Children,
    session: aiohttp.ClientSession,
    folder: Path,
    calibration_s: float,
    held: tuple[socket.socket, socket.socket],
    meanwhile: Callable[[], Awaitable[None]],
) -> Stage:
    """Start everything; return when the gateway is ready.

    `held` are the addresses for clients and for the dashboard.  `meanwhile`, called while waiting, may raise.
    """
    urls = await asyncio.gather(
        *(children.engine(part.name, part.flags, timeout_s=_START_TIMEOUT_S) for part in members.parts)
    )
    listen, admin = map(_address, held)
    config = demo_cast.deployment(
        members,
        dict(zip((part.name for part in members.parts), urls, strict=True)),
        listen=listen,
        admin=admin,
        state_dir=str(folder / "state"),
        calibration_s=calibration_s,
    )
    await children.gateway(_written(folder / "shadowlane.yaml", yaml.safe_dump(config, sort_keys=False)))
    stage = Stage(children, session, f"http://{listen}", f"http://{admin}")
    await _ready(stage, meanwhile)
    return stage


def _written(path: Path, text: str) -> Path:
    path.write_text(text)
    return path


def hold_address(wanted: int) -> socket.socket:
    """A socket bound to port `wanted` of loopback, or to any port where that one is taken.

    While it is open, the gateway can listen on its address and no other demo takes it: the first bind
    refuses to share, which tells demos apart; from then on whoever asks to share, as servers do, may.
    """
    held = socket.socket()
    try:
        held.bind(("127.0.0.1", wanted))
    except OSError:
        held.bind(("127.0.0.1", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def _address(held: socket.socket) -> str:
    host, port = held.getsockname()
    return f"{host}:{port}"


async def _ready(stage: Stage, meanwhile: Callable[[], Awaitable[None]]) -> None:
    until_s = time.monotonic() + _START_TIMEOUT_S
    said = "nothing"
    while time.monotonic() < until_s:
        stage.children.check()
        try:
            async with stage.session.get(f"{stage.admin_url}/readyz") as response:
                if response.status == 200:
                    return
                said = f"{response.status}: {(await response.text())[:300]}"
        except (aiohttp.ClientError, TimeoutError) as error:
            said = f"nothing ({type(error).__name__})"
        await meanwhile()
        await asyncio.sleep(0.1)
    raise stage.children.failure(
        "gateway", f"was not ready within {_START_TIMEOUT_S:.0f} s; /readyz said {said}"
    )
