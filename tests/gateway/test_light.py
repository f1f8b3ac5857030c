"""What a child does not load: each is started for every worker, and again whenever one dies."""

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CHILDREN = (
    "analysis.process",
    "analysis.supervision",
    "gateway.cli",
    "gateway.kv.process",
    "gateway.launch.process",
    "gateway.process",
    "gateway.recording.process",
    "gateway.worker",
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


def test_whoever_starts_them_loads_no_client_of_http_before_there_is_an_arm_to_ask() -> None:
    found = loaded("gateway.serve", "config.load")
    assert "config.schema" in found and "aiohttp" not in found
