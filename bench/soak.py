"""Hours of trouble in minutes: mixed traffic and faults against a running gateway; nothing may fail unasked.

Three production engines, a control and a candidate, all scripted; limits scaled down to seconds.  After a
warm-up comes a rest, whose descriptors, tasks, objects and gauges are the base; then the soak; then a rest
again.  Exit status 1 when a failure matches no injected fault, when anything held is above the base, when
memory grows, or when a process of the gateway died.
"""

import argparse
import asyncio
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random

import uvloop
import yaml

from bench import procfs
from bench.proxies import CONFIG, Proxy, Shadowlane
from bench.soaking import rest
from bench.soaking.asks import BODY_LIMIT, READ_LIMIT
from bench.soaking.clients import Client, Ended
from bench.soaking.faults import Engines, inject, sorted_out
from bench.stage import Running, Stage, end_in_order, free_ports

CLIENTS = 24
LIMITS = {
    "body_bytes": BODY_LIMIT,
    "read_bytes": READ_LIMIT,
    "connect_timeout_s": 1,
    "first_token_timeout_s": 8,
    "idle_timeout_s": 2.4,
    "drain_s": 5,
}
MB_A_MINUTE = 1.0
SHORT_S, MB_IN_A_SHORT_RUN = 240.0, 24.0  # below this a slope is noise: one large body moves it
REST_S = 30.0
CALM_LOOKS = 8  # seconds without change: more than an idle connection to an engine is kept


class Soak:
    """One gateway in trouble."""

    def __init__(
        self, port: int, engines: Engines, production: list[int], arms: list[int], seed: int
    ) -> None:
        self._port = port
        self._engines = engines
        self._production = production
        self._arms = arms
        self._rng = Random(seed)
        self.reload: Callable[[], None] = lambda: None
        self.faults: Counter[str] = Counter()

    async def trouble(
        self, seconds: float, memory: rest.Memory | None = None, *, heavy: bool = False
    ) -> list[Ended]:
        """Traffic and faults for so long; ends when the last request has ended."""
        ended: list[Ended] = []
        stop = asyncio.Event()
        clients = [Client(self._port, Random(self._rng.random()), ended, heavy=heavy) for _ in range(CLIENTS)]
        faults = inject(
            self._engines, self._production, self._arms, self.reload, self._rng, stop, self.faults
        )
        async with asyncio.TaskGroup() as group:
            for client in clients:
                group.create_task(client.run(stop))
            group.create_task(faults)
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                await asyncio.sleep(1)
                if memory is not None:
                    memory.sample()
            stop.set()
        return ended


def reload(gateway: Shadowlane, running: Running, engines: list[int], rng: Random | None) -> None:
    """A changed config: other limits, and now and then one engine less.  Nobody may notice.

    Without `rng` it is the first one again: what it holds is then comparable.
    """
    if rng is not None:
        gateway = replace(gateway, limits={**gateway.limits, "retries": rng.randint(2, 4)})
        engines = engines if rng.random() < 0.5 else rng.sample(engines, len(engines) - 1)
    settings = gateway.config(running.directory, running.port, engines)
    fresh = running.directory / "fresh.yaml"
    fresh.write_text(yaml.safe_dump(settings))
    fresh.rename(running.directory / CONFIG)
    assert running.process is not None
    running.process.send_signal(signal.SIGHUP)


def settle(pids: dict[str, int], port: int, witness: Path, base: rest.Rest | None) -> rest.Rest:
    """What is held when nothing more is let go, or when it is down to the base."""
    end_s = time.monotonic() + REST_S
    looks = [rest.look(pids, port, witness)]
    while time.monotonic() < end_s:
        time.sleep(1)
        looks.append(rest.look(pids, port, witness))
        calm = looks[-CALM_LOOKS:]
        if not looks[-1].beyond(base) if base is not None else calm == [looks[-1]] * CALM_LOOKS:
            break
    return looks[-1]


def judged(
    ended: list[Ended], soak: Soak, engines: Engines, beyond: dict[str, tuple[float, float]], died: list[str]
) -> bool:
    """Print what came of it; whether all is well but for memory."""
    kinds, explained, unexplained = sorted_out(ended, engines)
    print(f"{len(ended)} requests:", ", ".join(f"{n} {kind}" for kind, n in sorted(kinds.items())))
    print("injected:", ", ".join(f"{n} x {what}" for what, n in sorted(soak.faults.items())))
    print("ended by a killed engine:", ", ".join(f"{n} {w}" for w, n in sorted(explained.items())) or "none")
    print(f"unexplained: {len(unexplained)}")
    for one in unexplained[:20]:
        print(f"  {one.ask.kind}: {one.outcome} after {one.ended_s - one.begun_s:.2f} s {one.why}")
    print(f"held at rest above the base: {len(beyond)}", *rest.shown(beyond), sep="\n")
    print("processes that died:", ", ".join(died) or "none")
    return not (unexplained or beyond or died)


def is_flat(memory: rest.Memory, seconds: float) -> bool:
    """Print how memory grew; whether the data plane's did not."""
    flat = True
    for part, (sizes, mb_a_minute) in memory.growth().items():
        bound = "no bound"
        course = ", ".join(f"{size:.1f}" for size in sizes)
        if part in rest.DATA_PLANE:
            grown, most, unit = mb_a_minute, MB_A_MINUTE, "MB a minute"
            if seconds < SHORT_S:
                grown, most, unit = sizes[-1] - sizes[0], MB_IN_A_SHORT_RUN, "MB"
            flat &= grown <= most
            bound = f"at most {most:g} {unit}: {'holds' if grown <= most else 'does not hold'}"
        print(f"memory of {part}: {course} MB, {mb_a_minute:+.2f} MB a minute; {bound}")
    return flat


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--warm-up", type=float, help="seconds; a fifth, and 10 at least, where left out")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    warm_up_s = given.warm_up or max(10.0, given.seconds / 5)
    end_in_order()
    with ExitStack() as undo:
        directory = Path(undo.enter_context(tempfile.TemporaryDirectory(prefix="sl-soak")))
        ports = free_ports(5)
        engines = Engines(ports)
        undo.callback(engines.stop)
        gateway = Shadowlane(arms=ports[3:], limits=LIMITS)
        stage = Stage(undo, directory)
        proxy = gateway.proxy()
        witness = Path(rest.__file__).parent / "witness"
        env = {"PYTHONPATH": f"{proxy.env['PYTHONPATH']}:{witness}", "SOAK_WITNESS": str(directory)}
        running = stage.start(Proxy(proxy.name, proxy.argv, env, has_admin=True), ports[:3], pinned=False)
        assert running.process is not None
        pids = procfs.parts(running.process.pid)
        soak = Soak(running.port, engines, ports[:3], ports[3:], given.seed)
        supervisor = running.process.pid
        soak.reload = partial(reload, gateway, running, ports[:3], Random(given.seed))

        ended = uvloop.run(soak.trouble(warm_up_s / 2, heavy=True))
        ended += uvloop.run(soak.trouble(warm_up_s / 2))
        reload(gateway, running, ports[:3], None)
        base = settle(pids, running.port, directory, None)
        memory = rest.Memory(pids)
        ended += uvloop.run(soak.trouble(given.seconds, memory))
        reload(gateway, running, ports[:3], None)
        beyond = settle(pids, running.port, directory, base).beyond(base)
        now = procfs.parts(supervisor)
        died = [part for part, pid in pids.items() if now.get(part) != pid]
        well = judged(ended, soak, engines, beyond, died)
        flat = is_flat(memory, given.seconds)
        print("all is well" if well and flat else "NOT well")
        return 0 if well and flat else 1


if __name__ == "__main__":
    sys.exit(main())
