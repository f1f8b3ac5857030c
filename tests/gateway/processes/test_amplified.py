"""A written rate above 1 with an arm that takes no cache salt is refused wherever a configuration is read."""

import asyncio
import os
import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from config.load import load
from config.schema import Config
from gateway.processes.amplified import complaints, fair
from tests.gateway.commands.test_check import checked, recorded, started
from tests.gateway.programs import REPOSITORY

CONTROL, FP8 = "http://spare:1", "http://spare:2"


def settings(rate: object, fp8: str, control: str, fleet: str) -> dict[str, Any]:
    experiment = {
        "name": "kv",
        "sample": {"rate": rate},
        "control": {"engine": control},
        "candidates": [{"name": "fp8", "engine": fp8}],
    }
    return {"fleets": [{"engines": [fleet]}], "experiments": [experiment]}


def config(rate: object) -> Config:
    return load(None, {}, settings(rate, FP8, CONTROL, "http://a:1"))


@pytest.mark.parametrize(
    ("rate", "kinds", "told"),
    [
        (2.5, {CONTROL: "vllm", FP8: "llamacpp"}, "fp8 is llamacpp"),
        (2, {CONTROL: "openai", FP8: "vllm"}, "control is not known to take one"),
        (2, {CONTROL: "llamacpp", FP8: "llamacpp"}, "control is llamacpp"),
        (2.5, {CONTROL: "vllm", FP8: "sglang"}, None),
        (2.5, {CONTROL: "vllm"}, None),  # who does not answer is not known; it is sent each once
        (1, {CONTROL: "llamacpp", FP8: "llamacpp"}, None),
        ("auto", {CONTROL: "llamacpp", FP8: "llamacpp"}, None),
    ],
)
def test_it_is_refused_where_an_arm_is_known_to_take_none(
    rate: object, kinds: dict[str, str], told: str | None
) -> None:
    found = [str(one) for one in complaints(config(rate), kinds, "gw.yaml")]
    assert len(found) == (told is not None)
    if told is None:
        assert fair(config(rate), kinds, "gw.yaml") == kinds
    else:
        assert found[0].startswith(
            "gw.yaml: experiments[0].sample.rate: expected auto, or 1 at most, where an arm takes no"
        )
        assert told in found[0]
        with pytest.raises(ValueError, match=told):
            fair(config(rate), kinds, "gw.yaml")


def test_check_refuses_it_by_what_the_arms_answer() -> None:
    engines = {name: (recorded(name), None) for name in ("vllm", "llamacpp")}
    status, text = checked(
        engines,
        lambda urls: settings(3, urls["llamacpp"], urls["vllm"], urls["vllm"] + "/x"),
    )
    assert status == 2 and "settings: experiments[0].sample.rate: expected auto, or 1 at most" in text
    assert "fp8 is llamacpp" in text


def test_a_start_refuses_it(tmp_path: Path) -> None:
    async def run() -> tuple[int | None, str]:
        async with AsyncExitStack() as stack:
            arm, fleet = [await started(recorded("llamacpp"), None, stack) for _ in range(2)]
            file = tmp_path / "gw.yaml"
            file.write_text(
                f"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstate_dir: {tmp_path / 'state'}\n"
                f"fleets: [{{engines: [{fleet}]}}]\nexperiments: [{{name: kv, sample: {{rate: 2}}, "
                f"control: {{engine: {arm}}}, candidates: [{{name: fp8, engine: {arm}/fp8}}]}}]\n"
            )
            command = sys.executable, "-m", "gateway.cli", "serve", "-c", str(file)
            pipe = asyncio.subprocess.PIPE
            env = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
            process = await asyncio.create_subprocess_exec(*command, stderr=pipe, env=env)
            async with asyncio.timeout(60):
                _, said = await process.communicate()
            return process.returncode, said.decode()

    status, said = asyncio.run(run())
    assert status == 1 and "gw.yaml: experiments[0].sample.rate: expected auto, or 1 at most" in said
    assert "control is llamacpp" in said
