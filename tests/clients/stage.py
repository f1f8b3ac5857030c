"""What clients are tried on: emulated engines and scripted ones behind a real gateway, each a process."""

import hashlib
import json
import re
import socket
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clients.scripted import Scripted, scripted
from tests.gateway.programs import Program, program, shadowlane

KEY, COUNTED_KEY, SLOW_KEY = "sk-of-the-tests", "sk-counted", "sk-once-a-second"
# Fifteen times a small model's speed: an answer takes a twentieth of a second.
EMULATED = ("--speed", "15", "--hiccup-rate", "0", "--default-temperature", "0", "--output-tokens", "24")


@dataclass(frozen=True)
class Stage:
    """A gateway with its fleets: `emulated` (two engines), `scripted`, `spoken` (WebSocket), `dead`."""

    url: str
    admin: str
    engines: tuple[str, ...]  # the emulated ones
    scripted: Scripted

    def gateway(self) -> Counter[str]:
        """The gateway's series, by "name" and by "name value" of each label; up to a second old."""
        return _series(self.admin + "/metrics", "shadowlane_")

    def engine(self) -> Counter[str]:
        """The emulated engines' series, likewise, summed over engines; of now."""
        return sum((_series(f"{url}/metrics", "vllm:") for url in self.engines), Counter())

    def is_free(self) -> bool:
        """Nothing runs or waits, at the engines or by the gateway's account."""
        engine = self.engine()
        running = engine["num_requests_running"] + engine["num_requests_waiting"]
        return running == 0 and self.gateway()["inflight"] == 0


@contextmanager
def staged(folder: Path, *, keys: bool = True, flags: Sequence[str] = EMULATED) -> Iterator[Stage]:
    """All of it, until the block ends.  `keys`: the gateway asks for one of the keys above."""
    with ExitStack() as stack:
        script = stack.enter_context(scripted())
        # Bound and not listening: whoever connects is refused, and nobody else gets the port.
        dead = stack.enter_context(socket.socket())
        dead.bind(("127.0.0.1", 0))
        running = [stack.enter_context(program([sys.executable, "-m", "emulator", *flags])) for _ in range(2)]
        engines = tuple(json.loads(one.line('"url"'))["url"] for one in running)
        fleets: dict[str, Sequence[str]] = {
            "emulated": engines,
            "scripted": [script.engine.url],
            "spoken": [script.realtime],
            "dead": [f"http://127.0.0.1:{dead.getsockname()[1]}"],
        }
        settings: dict[str, Any] = {
            "listen": "127.0.0.1:0",
            "admin": "127.0.0.1:0",
            "state_dir": str(folder / "state"),
            "fleets": [
                {"model": model, "engines": [{"url": url, "kind": "vllm"} for url in urls]}
                for model, urls in fleets.items()
            ],
        }
        if keys:
            slow = {"requests_per_s": 1, "requests_burst": 1}
            settings["keys"] = [
                {"name": "tests", "hash": _hash(KEY)},
                {"name": "counted", "hash": _hash(COUNTED_KEY)},
                {"name": "slow", "hash": _hash(SLOW_KEY), "limits": slow},
            ]
        (folder / "shadowlane.yaml").write_text(json.dumps(settings))
        gateway = stack.enter_context(program(shadowlane("serve", "-c", str(folder / "shadowlane.yaml"))))
        stage = Stage(*_addresses(gateway), engines, script)
        until(lambda: stage.gateway()["engine_up"] == len(engines) + 2)
        yield stage
        assert "Traceback" not in gateway.said, gateway.said


def until(true: Callable[[], bool], timeout_s: float = 20) -> None:
    """Wait until something becomes true; AssertionError when it does not."""
    deadline_s = time.monotonic() + timeout_s
    while not true():
        assert time.monotonic() < deadline_s, "did not become true"
        time.sleep(0.02)


def _hash(key: str) -> str:
    return "sha256:" + hashlib.sha256(key.encode()).hexdigest()


def _addresses(gateway: Program) -> tuple[str, str]:
    """Where it serves, and where its admin port is."""
    found: dict[str, str] = {}
    while len(found) < 2:
        line = gateway.line("http://")
        for word in ("listening", "admin"):
            if word in line and word not in found:
                found[word] = "http://" + line.split("http://", 1)[1].split()[0].rstrip("/")
                break
    return found["listening"], found["admin"]


def _series(url: str, prefix: str) -> Counter[str]:
    """Values by name without prefix and `_total`, summed over labels, and by name and each label's value."""
    with urllib.request.urlopen(url, timeout=5) as answer:
        lines = answer.read().decode().splitlines()
    found: Counter[str] = Counter()
    for line in lines:
        if line.startswith(prefix) and "_created" not in line:
            head, _, value = line.rpartition(" ")
            name, _, labels = head.removeprefix(prefix).partition("{")
            name = name.removesuffix("_total")
            found[name] += _number(value)
            for label in set(re.findall(r'="([^"]*)"', labels)):
                found[f"{name} {label}"] += _number(value)
    return found


def _number(value: str) -> int:
    number = float(value)
    return int(number) if number == number and abs(number) < 1e15 else 0


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What has become more, by how much."""
    return {name: after[name] - before.get(name, 0) for name in after if after[name] > before.get(name, 0)}
