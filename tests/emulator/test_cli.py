"""`python -m emulator`: says where it listens, serves, and leaves cleanly when told."""

import json
import signal
import subprocess
import sys
import urllib.request

import pytest

from emulator.cli import parse


def test_it_says_where_it_listens_and_leaves_cleanly() -> None:
    command = [sys.executable, "-m", "emulator", "--port", "0", "--model", "m", "--kv-events-port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None and process.stderr is not None
        ready = json.loads(process.stdout.readline())
        with urllib.request.urlopen(ready["url"] + "/v1/models", timeout=10) as answer:
            assert json.load(answer)["data"][0]["id"] == "m"
        assert ready["url"].endswith(f":{ready['port']}") and ready["kv_events"].startswith("tcp://")
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=15) == 0
        assert process.stderr.read() == ""


def test_every_parameter_has_a_flag() -> None:
    params, host, port = parse(
        [
            *("--host", "0.0.0.0", "--port", "7", "--speed", "2", "--diverge-rate", "0.5"),
            *("--no-prefix-caching", "--alias", "a", "--alias", "b"),
            *("--host-blocks", "9", "--ms-per-loaded-token", "0.5"),
        ]
    )
    assert (host, port) == ("0.0.0.0", 7)
    assert (params.speed, params.diverge_rate, params.prefix_caching) == (2.0, 0.5, False)
    assert params.aliases == ("a", "b") and params.kv_events_port is None
    assert (params.host_blocks, params.ms_per_loaded_token) == (9, 0.5)


@pytest.mark.parametrize("flags", ["--speed 0", "--nonsense 1", "--seed x", "--host-blocks -1"])
def test_bad_flags_are_refused(flags: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parse(flags.split())
    assert "error" in capsys.readouterr().err
