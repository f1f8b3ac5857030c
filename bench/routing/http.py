"""`python -m bench.routing.http`: the same fleet over HTTP, behind our gateway and behind other routers.

Emulated engines in processes of their own, in real time; one router at a time in front of them, each with the
same traffic, engines and router started anew for every run; in every round the routers take their turn in
random order.  The measures are those of the runs in virtual time.
"""

import argparse
import asyncio
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from math import inf
from pathlib import Path

import aiohttp

from bench.proxies import Proxy, Shadowlane, peers
from bench.routing import said
from bench.routing.asks import Ask
from bench.routing.measures import Measures, measure
from bench.routing.plans import Row
from bench.routing.rounds import Rounds
from bench.routing.setting import Setting
from bench.routing.table import table
from bench.routing.traces import drawn
from bench.routing.world import Outcome, Plan, Run, openings
from bench.stage import Stage, free_ports, staged, until
from emulator.params import EngineParams
from wire.tasks import Tasks

SETTING = Setting(engines=4)
SPEEDS = {"hot-prefix": 14.0, "multi-turn": 1.4, "all-unique": 6.0, "agents": 0.25}  # about 60 % of capacity
_FIRST = re.compile(rb'"content"\s*:\s*"[^"]')
_CACHED = re.compile(rb'"cached_tokens"\s*:\s*(\d+)')
_PROMPT = re.compile(rb'"prompt_tokens"\s*:\s*(\d+)')
_TEXT = re.compile(rb'"content"\s*:\s*"((?:[^"\\]|\\.)*)"')
_SUM = re.compile(r"^vllm:e2e_request_latency_seconds_sum\S* (\S+)$", re.MULTILINE)


class Clients:
    """Everyone who asks, in one run."""

    def __init__(self, url: str, plan: Plan, words: Sequence[str] = ()) -> None:
        """`words` that are a token each, where four letters are not."""
        self._words = tuple(words)
        self._url = url
        self._plan = plan
        self._outcomes: list[Outcome] = []
        self._answers: dict[int, str] = {}
        self._tasks = Tasks()
        self._began_s = 0.0
        self._until_s = 0.0

    async def run(self) -> Run:
        opening, self._until_s = openings(self._plan)
        connector = aiohttp.TCPConnector(limit=0)
        timeout = aiohttp.ClientTimeout(total=120)
        async with aiohttp.ClientSession(connector=connector, timeout=timeout) as session:
            self._began_s = time.monotonic()
            asked = [
                self._tasks.spawn(self._talk(session, ask, at_s), name="talk")
                for at_s, ask in sorted(opening, key=lambda one: one[0])
            ]
            await asyncio.gather(*asked)
        return Run(self._outcomes, self._until_s, [], self._plan.setting)

    def _now_s(self) -> float:
        return time.monotonic() - self._began_s

    async def _talk(self, session: aiohttp.ClientSession, ask: Ask, at_s: float) -> None:
        await asyncio.sleep(max(0.0, at_s - self._now_s()))
        if not await self._ask(session, ask):
            return
        now_s = self._now_s()
        later = [
            self._talk(session, follow, now_s + after_s)
            for after_s, follow in ask.follow
            if now_s + after_s <= self._until_s
        ]
        await asyncio.gather(*later)

    async def _ask(self, session: aiohttp.ClientSession, ask: Ask) -> bool:
        body = said.body(ask, self._answers, self._words)
        outcome = Outcome(self._now_s(), -1.0, -1.0, ask.prompt_tokens, 0, ask.output_tokens, 0)
        self._outcomes.append(outcome)
        headers = {"Content-Type": "application/json"}
        whole: list[bytes] = []
        first_s = -1.0
        try:
            async with session.post(self._url, data=body, headers=headers) as answer:
                if answer.status != 200:
                    return False
                async for piece in answer.content.iter_any():
                    if first_s < 0 and _FIRST.search(piece):
                        first_s = self._now_s()
                    whole.append(piece)
        except (aiohttp.ClientError, TimeoutError):
            return False
        told = b"".join(whole)
        if first_s < 0 or not told.rstrip().endswith(b"[DONE]"):
            return False
        outcome.first_s, outcome.ended_s = first_s, self._now_s()
        cached, prompt = _CACHED.findall(told), _PROMPT.findall(told)
        outcome.cached_tokens = int(cached[-1]) if cached else 0
        outcome.prompt_tokens = int(prompt[-1]) if prompt else ask.prompt_tokens
        self._answers[ask.answer] = b"".join(_TEXT.findall(told)).decode()
        return True


@contextmanager
def engines(setting: Setting) -> Iterator[list[int]]:
    """Emulated engines in processes of their own; their ports."""
    with ExitStack() as undo:
        ports = free_ports(setting.engines)
        for number, port in enumerate(ports):
            flags = [f"--{name.replace('_', '-')}={value}" for name, value in _flags(setting, number)]
            command = [sys.executable, "-m", "emulator", "--port", str(port), "--model", "m", *flags]
            quiet = subprocess.DEVNULL
            undo.callback(end, subprocess.Popen(command, stdout=quiet, stderr=quiet))
        for port in ports:
            until(lambda port=port: _is_well(port), "an emulated engine")  # type: ignore[misc]
        yield ports


def _flags(setting: Setting, number: int) -> Iterator[tuple[str, object]]:
    params, usual = setting.params(number), EngineParams()
    for name in (
        "base_ms", "ms_per_prefill_token", "ms_per_seq", "max_num_seqs", "max_num_batched_tokens",
        "max_model_len", "max_queued", "block_size", "num_blocks", "speed", "seed",
    ):  # fmt: skip
        value = getattr(params, name)
        if value != getattr(usual, name):
            yield name, value


def one(stage: Stage, proxy: Proxy, plan: Plan) -> Measures:
    """One router, one run."""
    with engines(plan.setting) as ports:
        running = stage.start(proxy, ports, pinned=False)
        before = [_busy_s(port) for port in ports]
        ran = asyncio.run(Clients(f"http://127.0.0.1:{running.port}/v1/chat/completions", plan).run())
        busy_s = [_busy_s(port) - was for port, was in zip(ports, before, strict=True)]
        stage.stop(running)
    return replace(measure(ran), imbalance=max(busy_s) * len(busy_s) / sum(busy_s))


def _busy_s(port: int) -> float:
    """Seconds that requests were at the engine, all together."""
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
        return sum(float(found) for found in _SUM.findall(answer.read().decode()))


def _is_well(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def end(process: "subprocess.Popen[bytes]") -> None:
    """End an engine."""
    process.terminate()
    process.wait()


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.routing.http", description=__doc__)
    asking(parser, requests=400)
    parser.add_argument("--policies", default="prefix_cost", help="of ours, each beside the others")
    asked = parser.parse_args()
    found, missing = peers()
    proxies = [Shadowlane(f"shadowlane {name}", name).proxy() for name in asked.policies.split(",")]
    proxies += [proxy for proxy in found if proxy.name.endswith("-router")]
    print(*(line for line in missing if "router" in line), sep="\n")
    named = {proxy.name: proxy for proxy in proxies}
    rounds = Rounds("http", tuple(named), asked.share, range(asked.rounds), asked.json, until_s(asked.most_s))
    with staged() as stage:
        for trace in asked.traces.split(","):
            speed = SPEEDS[trace] * asked.share

            def run(name: str, seed: int, trace: str = trace, speed: float = speed) -> Measures:
                plan = Plan(drawn(trace, seed, SETTING.block_size), speed, asked.requests, SETTING, seed)
                return one(stage, named[name], plan)

            show(trace, f"over HTTP: {SETTING.engines} engines", list(rounds.run(trace, run)))


def asking(parser: argparse.ArgumentParser, requests: int) -> None:
    """What a run in real time may be asked."""
    parser.add_argument("--traces", default="hot-prefix,multi-turn,all-unique")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--requests", type=int, default=requests, help="measured in a run, about")
    parser.add_argument("--share", type=float, default=1.0, help="of the usual load")
    parser.add_argument(
        "--json", type=Path, help="keep every run's figures here; those kept are not run again"
    )
    parser.add_argument("--most-s", type=float, help="begin no run after so many seconds (use --json)")


def until_s(most_s: float | None) -> float:
    """The instant (monotonic) after which no run begins."""
    return inf if most_s is None else time.monotonic() + most_s


def show(trace: str, where: str, seeds: Sequence[Sequence[Row]]) -> None:
    """The table of the rounds that are whole."""
    if not seeds:
        print(f"\n### {trace} {where}: no round is whole yet")
        return
    rate = max(measures.requests_per_s for rows in seeds for _, _, measures in rows)
    print(f"\n### {trace} {where}, {rate:.3g} requests/s, {len(seeds)} rounds")
    for line in table(seeds):
        print(line, flush=True)


if __name__ == "__main__":
    main()
