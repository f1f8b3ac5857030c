"""How the clients that are installed apart are run, and what must agree with what they report."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.clients.stage import Stage, grown, until

# Any tokenizer will do: what is compared are the engine's own counts.
TOKENIZER = Path(__file__).parents[1] / "e2e/tiny-llama"
_WITHIN_S = 300


@dataclass(frozen=True)
class Told:
    """What a client reports of a run: whole answers, and the engine's token counts in them."""

    requests: int
    prompt_tokens: int
    output_tokens: int


def installed(client: str) -> Path:
    """The folder with the client's programs; skips the test, saying what to type, where there is none."""
    folder = Path(os.environ.get("CLIENTS_DIR", ".clients")).absolute()
    if not (folder / f"{client}.stamp").exists():
        pytest.skip(f"{client} is not installed: make test-clients CLIENTS={client}")
    return folder / client / "bin"


def vllm() -> Path:
    """The Python of the vLLM that the tests against real engines have; skips where there is none."""
    engines = Path(os.environ.get("SHADOWLANE_ENGINES_DIR", ".engines")).absolute()
    if not (engines / "vllm.stamp").exists():
        pytest.skip("vLLM is not installed: make test-engines ENGINES=vllm")
    return engines / "vllm/bin/python"


def ran(argv: Sequence[str | Path], folder: Path, env: Mapping[str, str] | None = None) -> str:
    """Run a client to its end in `folder`, which must be a good one; gives its standard output."""
    keep = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(word) for word in argv],
        cwd=folder,
        env={**keep, "HOME": str(folder), "DO_NOT_TRACK": "1", **(env or {})},
        capture_output=True,
        text=True,
        timeout=_WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, f"{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


class Books:
    """What gateway and engines have counted since this was made."""

    def __init__(self, stage: Stage) -> None:
        until(stage.is_free)
        self._stage = stage
        self._gateway, self._engine = stage.gateway(), stage.engine()

    def agree_with(self, told: Told, *, refused: int = 0) -> None:
        """Client, gateway and engines say the same.

        `refused`: requests the relay took up and that had no answer.  Those that the client broke off are
        nobody's answers either.
        """
        assert told.requests > 0
        until(self._stage.is_free)
        until(lambda: self._seen().get("requests complete", 0) >= told.requests)
        seen, made = self._seen(), grown(self._engine, self._stage.engine())
        left = seen.get("requests client_gone", 0)
        print(f"{told}; broken off: {left}; refused paths: {seen.get('refused path', 0)}")
        assert seen["requests"] == told.requests + left + refused
        assert seen["requests complete"] == told.requests
        assert seen["prompt_tokens"] == told.prompt_tokens
        assert seen["completion_tokens"] == told.output_tokens
        assert made["request_success"] - made.get("request_success abort", 0) == told.requests
        if not left:
            assert made["prompt_tokens"] == told.prompt_tokens
            assert made["generation_tokens"] == told.output_tokens

    def _seen(self) -> dict[str, int]:
        return grown(self._gateway, self._stage.gateway())
