"""H33: a budget is reserved on entry, corrected at the end, and one budget for all workers together."""

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.admission.refusal import Refused
from gateway.admission.table import Table
from gateway.admission.ticket import Usage
from tests.admission.staging import Told, key, spec, stage

REPOSITORY = Path(__file__).resolve().parents[2]
RARE = {"prompt_tokens_per_s": 0.001, "prompt_tokens_burst": 100}


@pytest.mark.parametrize("workers", [1, 4])
@pytest.mark.parametrize(
    ("limits", "reason"),
    [
        ({"requests_per_s": 0.001, "requests_burst": 3}, "key_requests"),
        ({"prompt_tokens_per_s": 0.001, "prompt_tokens_burst": 399}, "key_prompt_tokens"),
        ({"concurrency": 3}, "key_concurrency"),
    ],
)
def test_of_ten_at_once_three_pass_where_the_budget_is_for_three(
    workers: int, limits: dict[str, object], reason: str
) -> None:
    with stage(spec([key("a", 0, **limits)]), workers=workers) as gateway:
        asked = [gateway.ask(Told(), "a", worker=n % workers, tokens=100) for n in range(10)]
        refused = [one.reason for one in asked if isinstance(one, Refused)]
        assert refused == [reason] * 7
        assert isinstance(gateway.ask(Told(), "a"), Refused) == (reason != "key_prompt_tokens")


def test_the_limits_of_all_keys_together_hold_over_all_keys() -> None:
    keys = [key(name, at) for at, name in enumerate("abc")]
    for everyone, reason in (
        ({"requests_per_s": 0.001, "requests_burst": 2}, "all_requests"),
        (RARE, "all_prompt_tokens"),
        ({"concurrency": 2}, "all_concurrency"),
    ):
        with stage(spec(keys, everyone=everyone)) as gateway:
            for name in "ab":
                gateway.admitted(Told(), name, tokens=50)
            refused = gateway.ask(Told(), "c", tokens=50)
            assert isinstance(refused, Refused)
            assert (refused.status, refused.reason) == (503, reason)


@given(st.integers(0, 200), st.integers(0, 200))
def test_what_is_reserved_is_corrected_by_what_was_used(estimate: int, used: int) -> None:
    keys = [key("a", 0, prompt_tokens_per_s=1.0, prompt_tokens_burst=200)]
    with stage(spec(keys)) as gateway:
        ticket = gateway.admitted(Told(), "a", tokens=estimate)
        ticket.done(Usage(used, 0, 7), gateway.now_ns)
        if used < 200:
            gateway.admitted(Told(), "a", tokens=200 - used).failed(gateway.now_ns)
        assert gateway.reason(Told(), "a", tokens=201) == "prompt_above_burst"
        if used > 0:
            assert gateway.reason(Told(), "a", tokens=200 - used + 1) == "key_prompt_tokens"


def test_without_usage_the_estimate_stands_and_a_failure_costs_nothing() -> None:
    with stage(spec([key("a", 0, **RARE)])) as gateway:
        gateway.admitted(Told(), "a", tokens=40).failed(gateway.now_ns)
        gateway.admitted(Told(), "a", tokens=40).done(None, gateway.now_ns)
        gateway.admitted(Told(), "a", tokens=40).leave(gateway.now_ns)
        assert gateway.reason(Told(), "a", tokens=40) == "key_prompt_tokens"
        gateway.admitted(Told(), "a", tokens=20)


def test_a_prompt_that_never_fits_is_told_so_and_not_to_come_again() -> None:
    with stage(spec([key("a", 0, **RARE)])) as gateway:
        refused = gateway.ask(Told(), "a", tokens=660)
        assert isinstance(refused, Refused)
        assert (refused.status, refused.retry_after_s) == (413, None)
        assert "660" in refused.message and "100" in refused.message


ASKER = """
import sys, time
from tests.admission.staging import Bell, FakeFleet, spec, key
from gateway.admission.admit import Admission
from gateway.admission.table import Table
path, worker, asks = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
told = spec([key("a", 0, requests_per_s=0.0001, requests_burst=33), key("b", 1, concurrency=17)])
admission = Admission(told, Table.open(path), worker, {"m": FakeFleet([])}, Bell(), {})
print("ready", flush=True)
sys.stdin.readline()
passed = {}
for name in "ab":
    who = admission.identify(b"Bearer sl-" + name.encode())
    asked = [admission.ask(who, "m", prompt_bytes=0, body_bytes=0, priority=b"",
                           at_ns=time.monotonic_ns(), on_turn=print) for _ in range(asks)]
    passed[name] = sum(hasattr(one, "seat") for one in asked)
print(passed["a"], passed["b"], flush=True)
sys.stdin.readline()
"""


def test_four_processes_share_one_budget(tmp_path: Path) -> None:
    path = tmp_path / "admission.bin"
    told = spec([key("a", 0), key("b", 1)])
    Table.create(path, 4, 1, 2, len(told.keys)).close()
    command = [sys.executable, "-c", ASKER, str(path)]
    askers = [
        subprocess.Popen(
            [*command, str(worker), "50"],
            cwd=REPOSITORY,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for worker in range(4)
    ]
    try:
        for asker in askers:
            assert asker.stdout is not None and asker.stdout.readline() == "ready\n"
        for asker in askers:
            assert asker.stdin is not None
            asker.stdin.write("go\n")
            asker.stdin.flush()
        passed = [[int(n) for n in asker.stdout.readline().split()] for asker in askers if asker.stdout]
    finally:
        for asker in askers:
            asker.communicate("end\n", timeout=30)
    assert [sum(each) for each in zip(*passed, strict=True)] == [33, 17]
