"""A relative path means the same file wherever the program is started, where the config file writes it."""

import os
from pathlib import Path

import pytest

from config.load import load

WRITTEN = """
tls: {cert: tls/here.crt, key: ../here.key, client_ca: ca.crt}
keys_file: keys.yaml
state_dir: logs
fleets:
  - model: a
    tls: {ca: ca.crt}
    engines: [{url: "https://x:1", tls: {ca: one.crt, cert: /abs/two.crt, key: three.key}}]
  - {model: b, discover: {file: list.json}}
  - {model: c, discover: {kubernetes: {service: s, token_file: token}}}
experiments:
  - {name: e, fleet: a, control: {engine: "https://y:1", tls: {ca: arm.crt}}, candidates: [{name: n, engine: "https://z:1"}]}
"""


@pytest.mark.parametrize("given", ["sub/conf.yaml", "absolute", "./sub/conf.yaml"])
def test_a_path_in_the_file_begins_at_the_files_folder(
    given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "sub").symlink_to("real")  # which is not followed: it may be turned later
    (tmp_path / "sub" / "conf.yaml").write_text(WRITTEN)
    (tmp_path / "sub" / "keys.yaml").write_text("keys: []")
    monkeypatch.chdir(tmp_path)
    config = load(tmp_path / "sub/conf.yaml" if given == "absolute" else given, {}, {})
    folder = tmp_path / "sub"
    assert config.tls is not None
    assert (config.tls.cert, config.tls.client_ca) == (folder / "tls/here.crt", folder / "ca.crt")
    assert config.tls.key == folder / "../here.key"
    first, second, third = config.fleets
    engine = first.engines[0]
    assert engine.tls is not None and first.tls is not None and second.discover and third.discover
    assert first.tls.ca == folder / "ca.crt"
    assert (engine.tls.ca, engine.tls.key) == (folder / "one.crt", folder / "three.key")
    assert engine.tls.cert == Path("/abs/two.crt")
    assert second.discover.file == folder / "list.json"
    assert third.discover.kubernetes is not None
    assert third.discover.kubernetes.token_file == folder / "token"
    assert third.discover.kubernetes.ca_file.is_absolute()
    arm = config.experiments[0].control
    assert arm.tls is not None and arm.tls.ca == folder / "arm.crt"
    assert config.state_dir == Path("logs"), "where logs are is told where they are read, too"


def test_a_path_of_the_environment_begins_where_the_program_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "conf.yaml").write_text(
        "tls: {cert: a.crt, key: a.key}\nfleets: [{engines: ['http://x:1']}]"
    )
    monkeypatch.chdir(tmp_path)
    config = load("sub/conf.yaml", {"SHADOWLANE_TLS__CERT": "b.crt"}, {})
    assert config.tls is not None
    assert (config.tls.cert, config.tls.key) == (Path("b.crt"), Path(os.getcwd()) / "sub" / "a.key")
