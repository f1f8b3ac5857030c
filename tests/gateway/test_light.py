"""What a child does not load: each is started for every worker, and again whenever one dies."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHILDREN = (
    "analysis.process",
    "analysis.supervision",
    "gateway.cli",
    "gateway.kv.process",
    "gateway.launch.process",
    "gateway.processes.process",
    "gateway.recording.process",
    "gateway.processes.worker",
    "mirror.braking",
    "mirror.shadow",
)
LOADED = """
import importlib, json, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
print(json.dumps(sorted(sys.modules)))
"""


def loaded(*modules: str) -> set[str]:
    """All that these load."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, *modules], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return set(json.loads(done.stdout))


def test_children_do_not_load_the_schema_of_the_configuration_nor_that_of_json() -> None:
    found = loaded(*CHILDREN)
    assert found >= set(CHILDREN)
    assert not found & {"config.schema", "config.load", "jsonschema"}


@pytest.mark.parametrize("command", ["_worker", "_shadow", "_analysis", "_events"])
def test_the_log_of_a_child_loads_nothing_that_draws(command: str) -> None:
    program = (
        "import contextlib, json, sys\n"
        "import gateway.cli\n"
        "with contextlib.suppress(SystemExit):\n"
        "    gateway.cli.main([sys.argv[1], '--help'])\n"
        "import gateway.processes.process\n"
        "print(json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, command], cwd=ROOT, capture_output=True, text=True, check=True
    )
    found = set(json.loads(done.stdout.splitlines()[-1]))
    assert "structlog.dev" in found and not found & {"rich", "rich.console", "pygments"}


def test_whoever_starts_them_loads_no_client_of_http_before_there_is_an_arm_to_ask() -> None:
    found = loaded("gateway.processes.serve", "config.load")
    assert "config.schema" in found and "aiohttp" not in found
