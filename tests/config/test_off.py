"""A setting that may be `off` is so when it is written as YAML reads it."""

from pathlib import Path

import pytest

from config.load import load


@pytest.mark.parametrize("written", ["off", "'off'", "false"])
def test_kv_events_are_off_however_off_is_written(tmp_path: Path, written: str) -> None:
    file = tmp_path / "c.yaml"
    fleet = f"{{model: m, engines: ['http://127.0.0.1:1'], kv_events: {{read: {written}}}}}"
    file.write_text(f"fleets: [{fleet}]\n")
    assert load(file, {}, {}).fleets[0].kv_events.read == "off"
