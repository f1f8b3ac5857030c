"""Does the user's own command say that an answer is right?"""

import subprocess
from dataclasses import dataclass

from analysis.checkers._checker import Checker

_PASSED, _FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Params:
    """`argv`: the command, which reads the answer from its standard input; `expected` is its last argument.

    No shell reads it. It says with its exit status 0 that the answer is right, 1 that it is wrong; anything
    else, or no end within `timeout_s` seconds, is no word on it.
    """

    argv: tuple[str, ...]
    expected: str | None = None
    timeout_s: float = 10.0


class Command:
    """Runs it with the answer."""

    def __init__(self, params: Params) -> None:
        if not params.argv or not 0.0 < params.timeout_s <= 600.0:
            raise ValueError("command takes an argv, and a timeout_s of 600 seconds at most")
        self._argv = [*params.argv, *(() if params.expected is None else (params.expected,))]
        self._timeout_s = params.timeout_s

    def passes(self, text: str) -> bool | None:
        try:
            done = subprocess.run(
                self._argv,
                input=text.encode(errors="replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=self._timeout_s,
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired, ValueError):
            return None
        return {_PASSED: True, _FAILED: False}.get(done.returncode)


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return Command(params)
