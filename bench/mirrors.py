"""The proxies that mirror, one process each: with mirroring off, on, and on into a target that hangs.

A peer listens on a port for each of these, so that all three are served by the same process.  The gateway is
given another configuration instead: off means that it has no experiment at all.  Two copies are sent of every
request, whoever sends them.
"""

import json
import os
import shutil
import signal
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen

import yaml

from bench import procfs
from bench.proxies import CONFIG, Proxy, Shadowlane, admin_port
from bench.stage import LOAD_CORE, Running, Stage, free_ports

OFF, ON, STALLED = "off", "on", "stalled"
STATES = (OFF, ON, STALLED)
# Brakes would end what is measured on a machine that others use, too.
_BRAKES = {"memory_free": 0, "lane_share": 1, "arm_error_share": 1, "error_share": 1, "slowdown": None}
_GIVES_UP_S = 5.0  # what an nginx waits for a copy's answer, in place of its minute


class Targets:
    """Where copies are sent: ports that answer, and ports that take connections and read nothing."""

    def __init__(self, stage: Stage, gap_ms: float) -> None:
        self._stage = stage
        self._gap_ms = gap_ms
        self.ports: Mapping[str, list[int]] = {ON: free_ports(2), STALLED: free_ports(2)}
        self._answering = self._started(ON)
        self._hanging: Popen[bytes] | None = None

    def _started(self, state: str) -> "Popen[bytes]":
        process = self._stage.programs.engine(self.ports[state], self._gap_ms)
        procfs.pin([process.pid], LOAD_CORE)
        # Else they would hold up the engine within a step, and the proxy be woken for each part of it.
        procfs.yield_to_others([process.pid])
        return process

    def renew(self) -> None:
        """Have the hanging ones forget what was sent to them; who still waits there is cut off."""
        if self._hanging is not None:
            self._hanging.kill()
            self._hanging.wait()
        self._hanging = self._started(STALLED)
        self._hanging.send_signal(signal.SIGSTOP)

    def worked_ns(self) -> int:
        """CPU time that the answering ones have had: it tells whether copies came."""
        return procfs.cpu_ns([self._answering.pid])

    def end(self) -> None:
        """End both."""
        for process in (self._answering, self._hanging):
            if process is not None:
                process.kill()
                process.wait()


@dataclass(frozen=True, slots=True)
class Mirror:
    """A running proxy, where it listens in each state, how it is brought there, and whose CPU time counts.

    `hush(True)` has it copy nothing until `hush(False)`, at once: by its port of no mirroring, where it has
    one.
    """

    running: Running
    ports: Mapping[str, int]
    enter: Callable[[str], None]
    hush: Callable[[bool], None]
    counted: Callable[[], list[int]]


def gateway(
    stage: Stage, engines: Sequence[int], targets: Targets, given: Shadowlane, *, together: bool
) -> Mirror:
    """The gateway.  Its worker's time counts: that is what production pays.

    `together`: the processes that serve nobody share the worker's core.
    """
    running = stage.start(given.proxy(), engines)
    admin = f"http://127.0.0.1:{admin_port(running.port)}"

    def enter(state: str) -> None:
        settings = given.config(running.directory, running.port, engines)
        if state != OFF:
            settings["experiments"] = [experiment(targets.ports[state])]
        _post(f"{admin}/api/pause")  # copies under way would be waited for
        (running.directory / CONFIG).write_text(yaml.safe_dump(settings))
        _post(f"{admin}/api/reload")
        _post(f"{admin}/api/resume")
        if not together:
            running.part_company()

    def hush(silent: bool) -> None:
        _post(f"{admin}/api/{'pause' if silent else 'resume'}")

    ports = dict.fromkeys(STATES, running.port)
    return Mirror(running, ports, enter, hush, lambda: [running.part("worker")])


def experiment(arms: Sequence[int]) -> dict[str, object]:
    """One that copies everything to a control and a candidate, and that nothing stops."""
    control, candidate = ({"engine": f"http://127.0.0.1:{port}"} for port in arms)
    experiment = {"name": "bench", "sample": {"rate": 1.0}, "control": control, "brakes": _BRAKES}
    return {**experiment, "candidates": [{"name": "candidate", **candidate}]}


def _post(url: str) -> None:
    request = urllib.request.Request(url, method="POST", data=b"")
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            raise SystemExit(f"{url}: {error.code} {error.read().decode(errors='replace')[:500]}") from None


_Argv = Callable[[Path, Mapping[str, int], Sequence[int], Targets], list[str]]


def peers(
    stage: Stage, engines: Sequence[int], targets: Targets, only: Sequence[str] | None = None
) -> tuple[list[Mirror], list[str]]:
    """The other proxies found on this machine, running, and a line about each that was not found."""
    found, missing = [], []
    for name, (variable, make) in _PEERS.items():
        if only is not None and name not in only:
            continue
        program = shutil.which(os.environ.get(variable) or name, path=f"{os.environ['PATH']}:/usr/sbin")
        if program is None:
            missing.append(f"skipped: {name} (not on PATH, nor named by {variable}; see bench/README.md)")
        else:
            found.append(_peer(stage, engines, targets, name, make(program)))
    return found, missing


def _peer(stage: Stage, engines: Sequence[int], targets: Targets, name: str, argv: _Argv) -> Mirror:
    ports = dict(zip((ON, STALLED), free_ports(2), strict=True))

    def command(directory: Path, port: int, engines: Sequence[int]) -> list[str]:
        ports[OFF] = port
        return argv(directory, ports, engines, targets)

    running = stage.start(Proxy(name, command), engines)
    return Mirror(running, ports, lambda _state: None, lambda _silent: None, lambda: running.pids)


def _nginx(program: str) -> _Argv:
    def argv(
        directory: Path, ports: Mapping[str, int], engines: Sequence[int], targets: Targets
    ) -> list[str]:
        temporary = "".join(
            f" {name}_temp_path {directory}/{name};\n"
            for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        kept = "keepalive 512; keepalive_requests 10000000;"
        servers = " ".join(f"server 127.0.0.1:{engine};" for engine in engines)
        upstreams, listening = f" upstream engines {{ least_conn; {servers} {kept} }}\n", ""
        once = 'proxy_http_version 1.1; proxy_set_header Connection "";'
        for state, port in ports.items():
            mirrors = places = ""
            for at, target in enumerate(targets.ports.get(state, ())):
                upstreams += f" upstream {state}{at} {{ server 127.0.0.1:{target}; {kept} }}\n"
                mirrors += f"mirror /copy{at}; "
                places += (
                    f"  location = /copy{at} {{ internal; proxy_pass http://{state}{at}$request_uri; {once}\n"
                    f"   proxy_read_timeout {_GIVES_UP_S:.0f}s; }}\n"
                )
            listening += (
                f" server {{ listen 127.0.0.1:{port} backlog=4096;\n"
                f"  location / {{ {mirrors}proxy_pass http://engines; {once} proxy_buffering off;\n"
                f"   proxy_read_timeout 600s; }}\n{places} }}\n"
            )
        (directory / "nginx.conf").write_text(
            f"worker_processes 1; daemon off; pid {directory}/pid; error_log {directory}/nginx.err crit;\n"
            "worker_rlimit_nofile 20000; events { worker_connections 20000; }\n"
            f"http {{ access_log off; client_body_buffer_size 1m; client_max_body_size 64m;\n{temporary}"
            f" keepalive_requests 10000000; tcp_nodelay on;\n{upstreams}{listening}}}\n"
        )
        return [program, "-p", str(directory), "-c", str(directory / "nginx.conf")]

    return argv


def _traefik(program: str) -> _Argv:
    def argv(
        directory: Path, ports: Mapping[str, int], engines: Sequence[int], targets: Targets
    ) -> list[str]:
        def servers(*listening: int) -> dict[str, object]:
            return {"loadBalancer": {"servers": [{"url": f"http://127.0.0.1:{port}"} for port in listening]}}

        routers: dict[str, object] = {}
        services: dict[str, object] = {"engines": servers(*engines)}
        for state in ports:
            mirrors = []
            for at, target in enumerate(targets.ports.get(state, ())):
                services[f"{state}{at}"] = servers(target)
                mirrors.append({"name": f"{state}{at}", "percent": 100})
            if mirrors:
                services[state] = {"mirroring": {"service": "engines", "mirrors": mirrors}}
            service = state if mirrors else "engines"
            routers[state] = {"rule": "PathPrefix(`/`)", "service": service, "entryPoints": [state]}
        dynamic, static = directory / "dynamic.yml", directory / "traefik.yml"
        dynamic.write_text(yaml.safe_dump({"http": {"routers": routers, "services": services}}))
        entries = {state: {"address": f"127.0.0.1:{port}"} for state, port in ports.items()}
        settings = {
            "entryPoints": entries,
            "providers": {"file": {"filename": str(dynamic)}},
            "log": {"level": "FATAL"},
            "global": {"checkNewVersion": False, "sendAnonymousUsage": False},
        }
        static.write_text(yaml.safe_dump(settings))
        return [program, f"--configFile={static}"]

    return argv


def _envoy(program: str) -> _Argv:
    types = "type.googleapis.com/envoy.extensions.filters"

    def cluster(name: str, ports: Sequence[int]) -> dict[str, object]:
        addresses = [{"socket_address": {"address": "127.0.0.1", "port_value": port}} for port in ports]
        most = {"max_connections": 100_000, "max_pending_requests": 100_000, "max_requests": 100_000}
        return {
            "name": name,
            "type": "STATIC",
            "lb_policy": "LEAST_REQUEST",
            "connect_timeout": "5s",
            "circuit_breakers": {"thresholds": [most]},
            "load_assignment": {
                "cluster_name": name,
                "endpoints": [{"lb_endpoints": [{"endpoint": {"address": one}} for one in addresses]}],
            },
        }

    def listener(state: str, port: int, copies: Sequence[str]) -> dict[str, object]:
        route: dict[str, object] = {"cluster": "engines", "timeout": "0s"}
        if copies:
            route["request_mirror_policies"] = [{"cluster": name} for name in copies]
        host = {"name": "all", "domains": ["*"], "routes": [{"match": {"prefix": "/"}, "route": route}]}
        router = {"@type": f"{types}.http.router.v3.Router"}
        manager = {
            "@type": f"{types}.network.http_connection_manager.v3.HttpConnectionManager",
            "stat_prefix": state,
            "route_config": {"virtual_hosts": [host]},
            "http_filters": [{"name": "envoy.filters.http.router", "typed_config": router}],
        }
        name = "envoy.filters.network.http_connection_manager"
        return {
            "address": {"socket_address": {"address": "127.0.0.1", "port_value": port}},
            "filter_chains": [{"filters": [{"name": name, "typed_config": manager}]}],
        }

    def argv(
        directory: Path, ports: Mapping[str, int], engines: Sequence[int], targets: Targets
    ) -> list[str]:
        listeners, clusters = [], [cluster("engines", engines)]
        for state, port in ports.items():
            copies = {f"{state}{at}": target for at, target in enumerate(targets.ports.get(state, ()))}
            clusters += [cluster(name, [target]) for name, target in copies.items()]
            listeners.append(listener(state, port, list(copies)))
        settings = {"static_resources": {"listeners": listeners, "clusters": clusters}}
        (directory / "envoy.yaml").write_text(yaml.safe_dump(settings))
        told = ["--concurrency", "1", "-l", "off", "--use-dynamic-base-id"]
        return [program, "-c", str(directory / "envoy.yaml"), *told]

    return argv


_PEERS: dict[str, tuple[str, Callable[[str], _Argv]]] = {
    "nginx": ("NGINX", _nginx),
    "traefik": ("TRAEFIK", _traefik),
    "envoy": ("ENVOY", _envoy),
}
