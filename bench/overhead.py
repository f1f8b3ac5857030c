"""What the gateway costs: CPU µs per request and per streamed chunk, beside nginx and no proxy at all.

One run, interleaved rounds in random order, every answer checked.  The proxy is pinned to one core, load and
engines to another; a proxy's CPU is the scheduler's own count over all its tasks, so the other core's noise
does not enter.  The minimum of the rounds is shown with the median in brackets; the ratio is to nginx.
"""

import argparse
import os
import random
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import uvloop

from bench.traffic import load

ROOT = Path(__file__).resolve().parents[1]
EVENTS = 100
# name -> (body bytes, stream, requests, connections)
TESTS = {
    "request 0.5 KB": (512, False, 6000, 32),
    "request 32 KB": (32768, False, 2500, 32),
    "chunk": (512, True, 100, 100),
}


@dataclass
class Proxy:
    """A running proxy: where it listens and the process whose tree is counted."""

    name: str
    port: int
    process: subprocess.Popen[bytes] | None

    def cpu_ns(self) -> int:
        return 0 if self.process is None else sum(_task_ns(pid) for pid in _tree(self.process.pid))


def _tree(pid: int) -> list[int]:
    found = [pid]
    for children in Path(f"/proc/{pid}/task").glob("*/children"):
        for child in children.read_text().split():
            found += _tree(int(child))
    return found


def _task_ns(pid: int) -> int:
    total = 0
    for stat in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            total += int(stat.read_text().split()[0])
        except FileNotFoundError:
            continue  # a thread that ended between listing and reading
    return total


def _rss_mb(pid: int) -> dict[str, float]:
    out = {}
    for one in _tree(pid):
        command = Path(f"/proc/{one}/cmdline").read_bytes().split(b"\0")
        name = next(
            (part.decode() for part in command if part.startswith(b"_")), command[0].decode()[-12:] or "?"
        )
        pages = int(Path(f"/proc/{one}/statm").read_text().split()[1])
        out[name] = pages * os.sysconf("SC_PAGE_SIZE") / 1e6
    return out


def _free_ports(n: int) -> list[int]:
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(n)]
    ports: list[int] = [one.getsockname()[1] for one in held]
    for one in held:
        one.close()
    return ports


def _pin(pid: int, core: int) -> None:
    if (os.cpu_count() or 1) < 2:
        return
    for one in _tree(pid):
        for task in Path(f"/proc/{one}/task").iterdir():
            os.sched_setaffinity(int(task.name), {core})


def _nginx(directory: Path, port: int, engines: list[int]) -> list[str]:
    servers = " ".join(f"server 127.0.0.1:{engine};" for engine in engines)
    conf = directory / "nginx.conf"
    conf.write_text(
        f"worker_processes 1; daemon off; pid {directory}/nginx.pid; error_log {directory}/nginx.err warn;\n"
        "events { worker_connections 4096; }\n"
        "http { access_log off; client_body_buffer_size 256k; client_max_body_size 64m;\n"
        f" client_body_temp_path {directory}/b; proxy_temp_path {directory}/p;\n"
        f" fastcgi_temp_path {directory}/f; uwsgi_temp_path {directory}/u; scgi_temp_path {directory}/s;\n"
        " keepalive_requests 10000000; tcp_nodelay on;\n"
        f" upstream be {{ least_conn; {servers} keepalive 512; keepalive_requests 10000000; }}\n"
        f" server {{ listen 127.0.0.1:{port} backlog=1024; location / {{ proxy_pass http://be;\n"
        '  proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;\n'
        "  proxy_read_timeout 600s; } } }\n"
    )
    return ["nginx", "-p", str(directory), "-c", str(conf)]


def _shadowlane(directory: Path, port: int, engines: list[int], policy: str) -> list[str]:
    conf = directory / f"{policy}.yaml"
    listed = "".join(f"      - {{url: 'http://127.0.0.1:{engine}', kind: openai}}\n" for engine in engines)
    conf.write_text(
        f"listen: 127.0.0.1:{port}\nadmin: 127.0.0.1:0\nstate_dir: {directory}/{policy}\n"
        f"fleets:\n  - model: m\n    engines:\n{listed}    policy: {{name: {policy}}}\n"
    )
    return [sys.executable, "-P", "-m", "gateway.cli", "serve", "-c", str(conf)]


def _await_port(port: int, process: subprocess.Popen[bytes]) -> None:
    for _ in range(300):
        if process.poll() is not None:
            raise SystemExit(f"a proxy ended with status {process.returncode} before it listened")
        try:
            socket.create_connection(("127.0.0.1", port), 0.2).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
    raise SystemExit("a proxy did not come up within 30 s")


def measured(proxies: list[Proxy], rounds: int) -> dict[tuple[str, str], list[float]]:
    """CPU µs per request or chunk, for each proxy and test, one value a round."""
    found: dict[tuple[str, str], list[float]] = {}
    for _ in range(rounds):
        for test, (size, stream, total, connections) in TESTS.items():
            for proxy in random.sample(proxies, len(proxies)):
                uvloop.run(load(proxy.port, size, stream, min(total, 200), connections))  # warm-up
                before = proxy.cpu_ns()
                answers, events, seconds = uvloop.run(load(proxy.port, size, stream, total, connections))
                spent_us = (proxy.cpu_ns() - before) / 1e3
                units = events if stream else answers
                value = seconds * 1e6 / units if proxy.process is None else spent_us / units
                found.setdefault((proxy.name, test), []).append(value)
    return found


def table(found: dict[tuple[str, str], list[float]], proxies: list[Proxy]) -> str:
    lines = [f"{'CPU µs, minimum (median)':28}" + "".join(f"{test:>26}" for test in TESTS)]
    for proxy in proxies:
        label = proxy.name if proxy.process is not None else "direct (wall µs)"
        row = f"{label:28}"
        for test in TESTS:
            values = found[proxy.name, test]
            beside = min(found["nginx", test]) if ("nginx", test) in found and proxy.process else 0
            ratio = f" ×{min(values) / beside:.2f}" if beside else ""
            row += f"{f'{min(values):.1f} ({statistics.median(values):.1f}){ratio}':>26}"
        lines.append(row)
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    rounds: int = parser.parse_args().rounds
    engine_ports, (nginx_port, prefix_port, least_port) = _free_ports(2), _free_ports(3)
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory(prefix="sl-bench") as name:
        directory = Path(name)
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        try:
            command = [sys.executable, "-m", "bench.traffic", str(EVENTS), *map(str, engine_ports)]
            engines = subprocess.Popen(command, env=env, stdout=subprocess.PIPE)
            running.append(engines)
            assert engines.stdout is not None
            engines.stdout.readline()
            commands = {
                "shadowlane prefix_cost": (
                    _shadowlane(directory, prefix_port, engine_ports, "prefix_cost"),
                    prefix_port,
                ),
                "shadowlane least_load": (
                    _shadowlane(directory, least_port, engine_ports, "least_load"),
                    least_port,
                ),
            }
            if shutil.which("nginx"):
                commands = {"nginx": (_nginx(directory, nginx_port, engine_ports), nginx_port), **commands}
            proxies = [Proxy("direct", engine_ports[0], None)]
            for label, (argv, port) in commands.items():
                process = subprocess.Popen(
                    argv, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
                )
                running.append(process)
                proxies.append(Proxy(label, port, process))
                _await_port(port, process)
            time.sleep(3)  # children still starting would be counted
            _pin(engines.pid, 0)
            os.sched_setaffinity(0, {0})
            for proxy in proxies[1:]:
                assert proxy.process is not None
                _pin(proxy.process.pid, 1)
            print(table(measured(proxies, rounds), proxies))
            for proxy in proxies[1:]:
                assert proxy.process is not None
                sizes = ", ".join(f"{name} {mb:.0f}" for name, mb in _rss_mb(proxy.process.pid).items())
                print(f"RSS MB  {proxy.name}: {sizes}")
        finally:
            for process in reversed(running):
                process.send_signal(signal.SIGTERM)
            for process in running:
                process.wait(60)


if __name__ == "__main__":
    main()
