"""The proxies that are compared: how each is found, configured and started."""

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]

CONFIG = "shadowlane.yaml"
_TELL_SETTINGS = """
from config.schema import Config, Log
print(*Config.model_fields, *(f"log.{name}" for name in Log.model_fields))
"""
Argv = Callable[[Path, int, Sequence[int]], list[str]]


@dataclass(frozen=True, slots=True)
class Proxy:
    """`argv(directory, port, engine ports)` is its command; it may write its config into `directory`."""

    name: str
    argv: Argv
    env: Mapping[str, str] = field(default_factory=dict)
    has_admin: bool = False  # it is ours, and ready when its admin server answers too


@dataclass(frozen=True, slots=True)
class Shadowlane:
    """A gateway with everything on, as the benchmarks vary it."""

    name: str = "shadowlane"
    policy: str = "prefix_cost"
    workers: int = 1
    arms: Sequence[int] = ()  # ports of a control and of candidates: all conversations are copied to them
    keys: int = 0
    tree: Path = ROOT
    python: str = sys.executable
    limits: Mapping[str, float] = field(default_factory=dict)

    def proxy(self) -> Proxy:
        return Proxy(self.name, self._argv, {"PYTHONPATH": str(self.tree)}, has_admin=True)

    def config(self, state_dir: Path, port: int, engines: Sequence[int]) -> dict[str, object]:
        """The settings, of which only those that this version has."""
        listed = [{"url": f"http://127.0.0.1:{engine}", "kind": "openai"} for engine in engines]
        fleet = {"model": "m", "engines": listed, "policy": {"name": self.policy}}
        settings: dict[str, object] = {
            "listen": f"127.0.0.1:{port}",
            "admin": f"127.0.0.1:{admin_port(port)}",
            "workers": self.workers,
            "state_dir": str(state_dir),
            "fleets": [fleet],
            "limits": dict(self.limits),
        }
        if "log.access" in known(self.tree, self.python):
            settings["log"] = {"access": 0.01}
        if self.keys:
            hashes = (hashlib.sha256(key_of(at).encode()).hexdigest() for at in range(self.keys))
            settings["keys"] = [{"name": f"k{at}", "hash": f"sha256:{h}"} for at, h in enumerate(hashes)]
        if self.arms:
            control, *candidates = ({"engine": f"http://127.0.0.1:{arm}"} for arm in self.arms)
            named = [{"name": f"candidate-{at}", **one} for at, one in enumerate(candidates)]
            settings["experiments"] = [
                {"name": "bench", "sample": {"rate": 1.0}, "control": control, "candidates": named}
            ]
        return settings

    def _argv(self, directory: Path, port: int, engines: Sequence[int]) -> list[str]:
        conf = directory / CONFIG
        conf.write_text(yaml.safe_dump(self.config(directory, port, engines)))
        return [self.python, "-P", "-m", "gateway.cli", "serve", "-c", str(conf)]


@functools.cache
def known(tree: Path, python: str) -> frozenset[str]:
    """The settings that the version in `tree` has, such as keys and log.access."""
    command = [python, "-c", _TELL_SETTINGS]
    told = subprocess.run(command, cwd=tree, check=True, capture_output=True, text=True).stdout
    return frozenset(told.split())


def key_of(number: int) -> str:
    """The API key of client `number`."""
    return f"sk-bench-{number:05}"


def admin_port(port: int) -> int:
    """Where a gateway that listens on `port` answers /metrics; `stage.free_ports` leaves it free."""
    return port + 1


def peers() -> tuple[list[Proxy], list[str]]:
    """The other proxies found on this machine, and a line about each that was not."""
    found, missing = [], []
    for name, (variable, make) in _PEERS.items():
        program = shutil.which(os.environ.get(variable) or name, path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            missing.append(f"skipped: {name} (not on PATH, nor named by {variable}; see bench/README.md)")
        else:
            found.append(Proxy(name, make(program)))
    return found, missing


def _nginx(program: str) -> Argv:
    def argv(directory: Path, port: int, engines: Sequence[int]) -> list[str]:
        servers = " ".join(f"server 127.0.0.1:{engine};" for engine in engines)
        temporary = "".join(
            f" {name}_temp_path {directory}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (directory / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/nginx.err warn;\n"
            "worker_rlimit_nofile 20000; events { worker_connections 20000; }\n"
            f"http {{ access_log off; client_body_buffer_size 1m; client_max_body_size 64m;\n{temporary}"
            " keepalive_requests 10000000; tcp_nodelay on;\n"
            f" upstream engines {{ least_conn; {servers} keepalive 512; keepalive_requests 10000000; }}\n"
            f" server {{ listen 127.0.0.1:{port} backlog=4096; location / {{ proxy_pass http://engines;\n"
            '  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;\n'
            "  proxy_read_timeout 600s; } } }\n"
        )
        return [program, "-p", str(directory), "-c", str(directory / "nginx.conf")]

    return argv


def _haproxy(program: str) -> Argv:
    def argv(directory: Path, port: int, engines: Sequence[int]) -> list[str]:
        servers = "".join(f"  server s{engine} 127.0.0.1:{engine}\n" for engine in engines)
        (directory / "haproxy.cfg").write_text(
            "global\n  nbthread 1\n  maxconn 8000\n  tune.bufsize 65536\n"
            "defaults\n  mode http\n  timeout connect 5s\n  timeout client 600s\n  timeout server 600s\n"
            "  option http-keep-alive\n  option http-no-delay\n  http-reuse always\n"
            f"frontend clients\n  bind 127.0.0.1:{port}\n  default_backend engines\n"
            f"backend engines\n  balance leastconn\n{servers}"
        )
        return [program, "-f", str(directory / "haproxy.cfg")]

    return argv


def _router(*launch: str) -> Callable[[str], Argv]:
    def made(program: str) -> Argv:
        def argv(_directory: Path, port: int, engines: Sequence[int]) -> list[str]:
            urls = [f"http://127.0.0.1:{engine}" for engine in engines]
            policy = ["--policy", "cache_aware", "--log-level", "error"]
            places = ["--host", "127.0.0.1", "--port", str(port), "--prometheus-port", str(port + 1)]
            return [program, *launch, "--worker-urls", *urls, *policy, *places]

        return argv

    return made


_PEERS: dict[str, tuple[str, Callable[[str], Argv]]] = {
    "nginx": ("NGINX", _nginx),
    "haproxy": ("HAPROXY", _haproxy),
    "sglang-router": ("SGLANG_ROUTER", _router("launch")),
    "vllm-router": ("VLLM_ROUTER", _router()),
}
