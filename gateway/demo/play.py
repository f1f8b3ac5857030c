"""What happens in `shadowlane demo`?  Emulated engines, live traffic, a ranking that fills, a report.

All is real but the engines: the gateway is `shadowlane serve`, and the ranking comes from its API.
"""

import asyncio
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from analysis.verdict import DIVERGENCE_MARGIN
from gateway.commands.terminal import plain_line, ranking_table
from gateway.demo import cast as demo_cast
from gateway.demo.children import ChildError, Children
from gateway.demo.stage import DemoError, Stage, hold_address, set_stage
from wire.tasks import Tasks
from workload import arrivals, prompts
from workload.send import Outcome, Sender

SECONDS = 140.0  # everything included; the promise is 150
CLOSING_S = 9.0  # this much of it is kept for the report and for ending the children
CALIBRATION_S = 20.0
MIN_WINDOWS = 15
_PLAIN_EVERY_S = 5.0
_INTERRUPTED = 130
_TIME_IS_UP = "Time is up before each candidate has a word on its time per token and on its answers."


def run(
    seed: int = 0,
    *,
    keep: bool = False,
    html: str | Path = "shadowlane-demo.html",
    seconds: float | None = None,
    console: Console | None = None,
) -> int:
    """Play the demo of one seed; the exit code: 0, 1 with the reason on the console, 130 after Ctrl-C.

    It ends when the ranking has `concluded` or `seconds` are over.  With `keep`, traffic and dashboard go
    on after the final table until Ctrl-C.  The report is written to `html`.
    """
    console = console or Console()
    play = _Play(seed, keep, Path(html).absolute(), seconds or SECONDS, console)
    try:
        return asyncio.run(play.whole())
    except (ChildError, DemoError) as error:
        console.print(
            f"shadowlane demo failed: {error}", style="red", markup=False, highlight=False, soft_wrap=True
        )
        return 1


def concluded(ranking: Mapping[str, Any]) -> bool:
    """Whether every candidate has a word on its TPOT, and one on its outputs where they part from the
    control's, from enough windows.  That they do not part takes more pairs to be said than a demo has."""
    candidates = ranking.get("candidates") or []
    is_told = bool(candidates) and all(_is_told(one) for one in candidates)
    return is_told and (ranking.get("windows") or 0) >= MIN_WINDOWS


def _is_told(candidate: Mapping[str, Any]) -> bool:
    tpot = (candidate.get("verdicts") or {}).get("tpot") or {}
    outputs = candidate.get("outputs") or {}
    if tpot.get("label") in (None, "UNDECIDED"):
        return False
    return outputs.get("label") in ("SAME", "DIVERGES") or _seem_the_same(outputs)


def _seem_the_same(outputs: Mapping[str, Any]) -> bool:
    """Whether answers part no more than the control's own do, as far as was seen; no claim."""
    excess = (outputs.get("first_divergence") or {}).get("excess")
    return excess is not None and excess["value"] < DIVERGENCE_MARGIN


def _undecided(ranking: Mapping[str, Any]) -> list[str]:
    alike = [one["name"] for one in ranking["candidates"] if _is_only_alike(one.get("outputs") or {})]
    if not alike:
        return []
    return [
        f"{' and '.join(alike)}: answers that seem to be the control's; to call them SAME takes thousands."
    ]


def _is_only_alike(outputs: Mapping[str, Any]) -> bool:
    return outputs.get("label") == "UNDECIDED" and _seem_the_same(outputs)


def traffic(seed: int) -> Iterator[tuple[float, prompts.Conversation]]:
    """The endless conversations of one seed and the second at which each begins."""
    rng = Random(f"traffic {seed}")
    systems = prompts.system_prompts(rng, demo_cast.TRAFFIC)
    instants = arrivals.instants(arrivals.poisson(rng, demo_cast.CONVERSATIONS_A_SECOND), float("inf"))
    return zip(instants, prompts.conversations(rng, demo_cast.TRAFFIC, systems), strict=False)


class _Interrupted(Exception):
    """Ctrl-C, or SIGTERM."""


class _Play:
    """One run of the demo."""

    def __init__(self, seed: int, keep: bool, html_path: Path, seconds: float, console: Console) -> None:
        self._seed = seed
        self._keep = keep
        self._html_path = html_path
        self._seconds = seconds
        self._console = console
        self._members = demo_cast.cast(seed)
        self._failures: list[BaseException] = []
        self._interrupt = asyncio.Event()

    async def whole(self) -> int:
        ends_s = time.monotonic() + self._seconds - CLOSING_S
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._interrupt.set)
        async with AsyncExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="shadowlane-demo-"))
            children = Children(Path(folder))
            stack.push_async_callback(children.end)
            polling = await stack.enter_async_context(_session(5.0))
            asking = await stack.enter_async_context(_session(20.0))
            try:
                calibration_s = min(CALIBRATION_S, self._seconds / 6)
                held = (stack.enter_context(hold_address(8080)), stack.enter_context(hold_address(8090)))
                stage = await set_stage(
                    self._members,
                    children,
                    polling,
                    Path(folder),
                    calibration_s,
                    held,
                    self._unless_interrupted,
                )
                self._announce(stage)
                sender = _sender(asking, stage)
                tasks = Tasks(lambda _name, error: self._failures.append(error))
                stack.push_async_callback(tasks.cancel)
                tasks.spawn(sender.send(traffic(self._seed), until_s=None), name="traffic")
                ranking = await self._watch(stage, ends_s)
                await self._close(stage, ranking, sender)
                if self._keep:
                    await self._hold(stage)
            except _Interrupted:
                self._say("Interrupted; ending the engines and the gateway.")
                return _INTERRUPTED
        return 0

    def _announce(self, stage: Stage) -> None:
        self._say(
            "Two emulated production engines, a control and three candidates run behind a Shadowlane gateway."
        )
        self._say(
            f"Chats (seed {self._seed}) flow to production; as many conversations are copied as load the"
            " control like one of its engines."
        )
        self._say(
            f"Dashboard: {stage.admin_url}/   First the control against itself, then candidates against it."
        )

    async def _watch(self, stage: Stage, ends_s: float) -> dict[str, Any]:
        """Show the ranking each second until it has concluded or time is up; gives the last one."""
        ranking: dict[str, Any] = {}
        said_s = float("-inf")
        with Live(console=self._console, auto_refresh=False, transient=True) as live:
            while time.monotonic() < ends_s and not concluded(ranking):
                await self._pass_a_second(stage)
                ranking = self._ours(await stage.ranking()) or ranking
                if self._console.is_terminal:
                    live.update(ranking_table(ranking, self._console.width), refresh=True)
                elif ranking and time.monotonic() - said_s >= _PLAIN_EVERY_S:
                    said_s = time.monotonic()
                    self._say(plain_line(ranking))
        return ranking

    def _ours(self, ranking: dict[str, Any] | None) -> dict[str, Any] | None:
        """`ranking`, if it is of our candidates; another gateway may have been quicker to take the port."""
        if ranking is None:
            return None
        found = {one["name"] for one in ranking["candidates"]}
        if found != {part.name for part in self._members.candidates}:
            raise DemoError(f"another gateway answers at our address: it ranks {sorted(found)}")
        return ranking

    async def _close(self, stage: Stage, ranking: dict[str, Any], sender: Sender) -> None:
        """The report, the final table, and what was true."""
        outcomes = sender.tally.outcomes
        if not ranking:
            raise stage.children.failure("gateway", f"gave no ranking at {stage.admin_url}/api/experiments")
        if not outcomes[Outcome.OK]:
            raise stage.children.failure("gateway", f"answered no request well: {dict(outcomes)}")
        _write(self._html_path, await stage.report())
        lines = [
            *([] if concluded(ranking) else [_TIME_IS_UP]),
            *_undecided(ranking),
            f"Production answered {outcomes[Outcome.OK]:,} of {sum(outcomes.values()):,} requests well.",
            "How they were built, which the ranking never saw:",
            *(f"  {sentence}" for sentence in demo_cast.reveal(self._members)),
            f"Report: {self._html_path}",
        ]
        self._console.print(Group(ranking_table(ranking, self._console.width), *map(Text, lines)))

    async def _hold(self, stage: Stage) -> None:
        self._say(f"Traffic and dashboard go on at {stage.admin_url}/ until Ctrl-C.")
        try:
            while True:
                await self._pass_a_second(stage)
        except _Interrupted:
            return

    async def _pass_a_second(self, stage: Stage) -> None:
        stage.children.check()
        if self._failures:
            raise DemoError(f"the traffic ended: {self._failures[0]!r}")
        try:
            await asyncio.wait_for(self._interrupt.wait(), 1.0)
        except TimeoutError:
            return
        raise _Interrupted

    async def _unless_interrupted(self) -> None:
        if self._interrupt.is_set():
            raise _Interrupted

    def _say(self, line: str) -> None:
        self._console.print(line, markup=False, highlight=False, soft_wrap=True)


def _session(timeout_s: float) -> aiohttp.ClientSession:
    connector = aiohttp.TCPConnector(limit=0)
    return aiohttp.ClientSession(connector=connector, timeout=aiohttp.ClientTimeout(total=timeout_s))


def _sender(session: aiohttp.ClientSession, stage: Stage) -> Sender:
    return Sender(session, stage.serving_url, demo_cast.MODEL, clock=time.monotonic, timeout_s=20.0)


def _write(path: Path, page: bytes) -> None:
    try:
        path.write_bytes(page)
    except OSError as error:
        raise DemoError(f"the report could not be written: {error}") from None
