"""Where drained events are told again has a port, for others follow it."""

from pathlib import Path

import pytest

from config.load import ConfigError, load


def published(tmp_path: Path, where: str) -> str | None:
    file = tmp_path / "shadowlane.yaml"
    events = f"{{drain: true, publish_drained: '{where}'}}"
    file.write_text(f"fleets: [{{model: m, engines: ['http://127.0.0.1:1'], kv_events: {events}}}]")
    return load(file, {}, {}).fleets[0].kv_events.publish_drained


@pytest.mark.parametrize("where", ["tcp://*:5560", "tcp://10.0.0.2:5560"])
def test_an_address_with_a_port_is_taken(tmp_path: Path, where: str) -> None:
    assert published(tmp_path, where) == where


@pytest.mark.parametrize("where", ["ipc:///run/events", "tcp://*", "tcp://{host}:5560", "tcp://*:99999"])
def test_what_has_no_port_of_this_machine_is_refused(tmp_path: Path, where: str) -> None:
    with pytest.raises(ConfigError, match="an address with a port to publish on"):
        published(tmp_path, where)
