"""The supervisor with small children: restarts, the order of the end, the second signal, no leaks."""

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.gateway.programs import PATIENCE_S, Program, program
from tests.procfs import open_files

POLITE = """
import os, signal, sys, time
name = sys.argv[1]
def end(*_):  # not by print: the signal may come within the print of UP
    os.write(1, f"END {name}\\n".encode())
    os._exit(0)
signal.signal(signal.SIGTERM, end)
print("UP", name, sys.stdin.read(), flush=True)
while True:
    time.sleep(60)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("UP stubborn", flush=True)
while True:
    time.sleep(60)
"""
GIVES_WAY = """
import os, signal, time
def end(*_):
    os.write(1, f"NICE {os.getpriority(os.PRIO_PROCESS, 0)}\\n".encode())
    os._exit(0)
signal.signal(signal.SIGTERM, end)
os.nice(10)
print("UP", flush=True)
while True:
    time.sleep(60)
"""
SUPERVISOR = """
import json, os, sys
from gateway.processes.children import Child, Stage
from gateway.processes.log import logger
from gateway.processes.supervisor import Supervisor
children = [
    Child(name, Stage[stage], tuple(argv), spec.encode(), (), grace_s)
    for name, stage, argv, spec, grace_s in json.loads(sys.argv[1])
]
supervisor = Supervisor(
    children, environment=os.environ, log=logger("supervisor"),
    died=lambda child: print("DIED", child.name, flush=True),
    draining=lambda: print("DRAINING", flush=True),
)
sys.exit(supervisor.run())
"""


def polite(name: str, stage: str = "WORKER", spec: str = "", grace_s: float = 20.0) -> list[Any]:
    return [name, stage, [sys.executable, "-c", POLITE, name], spec, grace_s]


def supervisor(*children: list[Any]) -> list[str]:
    return [sys.executable, "-c", SUPERVISOR, json.dumps(children)]


def pid_of(running: Program, name: str) -> int:
    line = running.line(lambda line: '"started"' in line and f'"{name}"' in line)
    return int(json.loads(line)["pid"])


def test_a_child_gets_its_spec_on_stdin_and_the_end_is_clean() -> None:
    with program(supervisor(polite("worker-0", spec="told"))) as running:
        running.line("UP worker-0 told")
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0
        assert "END worker-0" in running.said


def may_hasten() -> bool:
    """Whether this process may raise a priority: CAP_SYS_NICE, which containers often lack, root's too."""
    lines = Path("/proc/self/status").read_text().splitlines() if Path("/proc/self/status").exists() else []
    return any(int(line.split()[1], 16) >> 23 & 1 for line in lines if line.startswith("CapEff"))


@pytest.mark.skipif(not may_hasten(), reason="this process may not raise a priority (CAP_SYS_NICE)")
def test_a_child_that_gives_way_to_others_need_not_while_it_ends() -> None:
    gives_way = ["shadow", "SHADOW", [sys.executable, "-c", GIVES_WAY], "", 20.0]
    with program(supervisor(gives_way)) as running:
        running.line("UP")
        os.kill(running.pid, signal.SIGTERM)
        running.line(f"NICE {os.getpriority(os.PRIO_PROCESS, 0)}")
        assert running.ended() == 0


def test_a_spec_larger_than_a_pipe_arrives_although_the_child_is_slow_to_read() -> None:
    with program(supervisor(polite("worker-0", spec="x" * 100_000))) as running:
        assert len(running.line("UP worker-0")) > 100_000
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0


def test_a_killed_child_is_started_again_and_its_death_is_told_with_its_cause() -> None:
    with program(supervisor(polite("worker-0"), polite("worker-1"))) as running:
        first = pid_of(running, "worker-0")
        running.line("UP")
        running.line("UP")
        os.kill(first, signal.SIGKILL)
        death = json.loads(running.line("child died"))
        assert (death["child"], death["why"], death["again_in_s"]) == ("worker-0", "killed by SIGKILL", 0.2)
        running.line("DIED worker-0")
        assert pid_of(running, "worker-0") != first
        running.line("UP worker-0")
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0


def test_a_child_that_fails_at_once_is_retried_with_longer_and_longer_waits() -> None:
    failing = ["worker-0", "WORKER", [sys.executable, "-S", "-c", "raise SystemExit(3)"], "", 5.0]
    with program(supervisor(failing)) as running:
        deaths = [json.loads(running.line("child died")) for _ in range(3)]
        assert [death["again_in_s"] for death in deaths] == [0.2, 0.4, 0.8]
        assert {death["why"] for death in deaths} == {"exit status 3"}
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0


def test_a_program_that_is_not_there_is_retried_too() -> None:
    with program(supervisor(["worker-0", "WORKER", ["/nowhere/at/all"], "", 5.0])) as running:
        running.line("cannot start")
        running.line("cannot start")
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_end_goes_from_the_workers_to_the_analysis(number: signal.Signals) -> None:
    family = [polite("analysis", "ANALYSIS"), polite("shadow", "SHADOW"), polite("worker-0")]
    with program(supervisor(*family)) as running:
        for _ in family:
            running.line("UP")
        os.kill(running.pid, number)
        assert running.ended() == 0
        told = [line.strip() for line in running.lines if line.startswith(("DRAINING", "END", "DIED"))]
        assert "DRAINING" in told
        ends = [line for line in told if line != "DRAINING"]
        assert ends == [
            what for name in ("worker-0", "shadow", "analysis") for what in (f"END {name}", f"DIED {name}")
        ]


def test_a_child_that_will_not_end_is_killed_and_the_status_says_so() -> None:
    stubborn = ["worker-0", "WORKER", [sys.executable, "-c", STUBBORN], "", 0.2]
    with program(supervisor(stubborn)) as running:
        running.line("UP stubborn")
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 1
        assert "killing" in running.said


def test_a_second_signal_does_not_wait_for_the_grace() -> None:
    stubborn = ["worker-0", "WORKER", [sys.executable, "-c", STUBBORN], "", 100 * PATIENCE_S]
    with program(supervisor(stubborn, polite("analysis", "ANALYSIS"))) as running:
        running.line("UP")
        running.line("UP")
        os.kill(running.pid, signal.SIGINT)
        running.line("draining")
        os.kill(running.pid, signal.SIGINT)
        assert running.ended() == 1


def test_a_hangup_ends_nothing() -> None:
    with program(supervisor(polite("worker-0"))) as running:
        running.line("UP")
        os.kill(running.pid, signal.SIGHUP)
        running.line("SIGHUP ignored")
        os.kill(running.pid, signal.SIGTERM)
        assert running.ended() == 0


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc")
def test_restarts_leak_no_descriptor() -> None:
    with program(supervisor(polite("worker-0"))) as running:
        child = pid_of(running, "worker-0")
        running.line("UP")
        before = len(open_files(running.pid))
        for _ in range(3):
            os.kill(child, signal.SIGKILL)
            child = pid_of(running, "worker-0")
            running.line("UP")
        assert len(open_files(running.pid)) == before
