"""The copies of other routers' policies choose as the programs themselves do, on the same requests."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.clients.heavy import installed

pytestmark = [pytest.mark.clients, pytest.mark.timeout(400)]
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("program", "policies"),
    [("sglang-router", {"cache_aware"}), ("vllm-router", {"cache_aware", "power_of_two"})],
)
def test_a_copy_leaves_no_choice_that_the_program_does_not_make(program: str, policies: set[str]) -> None:
    """Of 400 requests at most 4 differ: vllm-router now and then chooses before it has a prompt's tokens."""
    variable = program.replace("-", "_").upper()
    env = {name: value for name, value in os.environ.items() if not name.endswith("_ROUTER")}
    done = subprocess.run(
        [sys.executable, "-m", "bench.routing.alike"],
        cwd=ROOT,
        env={**env, variable: str(installed(program) / program)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert set(re.findall(rf"^{program} --policy (\w+),", done.stdout, re.M)) == policies
    counted = [int(number) for number in re.findall(r"^ +(\d+) .*: (?:alike|DIFFERENT)", done.stdout, re.M)]
    assert sum(counted) >= 400 * len(policies)
