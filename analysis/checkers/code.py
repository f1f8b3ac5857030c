"""Does the program in an answer pass its tests?  As HumanEval is scored, in a process that can do no harm."""

import re
import secrets
import subprocess
import sys
from dataclasses import dataclass
from math import ceil
from pathlib import Path

from analysis.checkers._checker import Checker

_JAIL = Path(__file__).with_name("_jail.py")
_BLOCK = re.compile(r"```(?:[Pp]ython3?|py)?[ \t]*\n(.*?)(?:```|\Z)", re.DOTALL)
_PATIENCE = 6  # times its CPU time: a machine at work is not the answer's fault
_UNJAILED = 3  # the child's word that it could not lock itself in, so ran nothing


@dataclass(frozen=True, slots=True)
class Params:
    """`tests` defines `check(candidate)`, which raises where `entry_point` is wrong.

    `prompt` is the code that the answer may go on from; `timeout_s` bounds the CPU time.
    """

    entry_point: str
    tests: str
    prompt: str = ""
    timeout_s: float = 10.0


class Code:
    """Python's own tests of a function, run by a child that first gives up all it could do harm with."""

    def __init__(self, params: Params) -> None:
        if not params.entry_point.isidentifier() or not 0.0 < params.timeout_s <= 600.0:
            raise ValueError("code takes a function's name, and a timeout_s of 600 seconds at most")
        self._params = params

    def passes(self, text: str) -> bool | None:
        """None where this machine cannot lock a process in."""
        params = self._params
        program = f"{_program(text, params)}\n\n{params.tests}\n\ncheck({params.entry_point})\n"
        ended = 16 + secrets.randbelow(200)
        try:
            done = subprocess.run(
                [sys.executable, "-I", "-S", str(_JAIL), str(ceil(params.timeout_s)), str(ended)],
                input=program.encode(errors="replace"),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=_PATIENCE * params.timeout_s,
                check=False,
                env={},
                cwd="/",
                start_new_session=True,
            )
        except subprocess.TimeoutExpired:
            return False
        except (OSError, ValueError):
            return None
        return None if done.returncode == _UNJAILED else done.returncode == ended


def _program(text: str, params: Params) -> str:
    """The longest fenced block of an answer, or all of it; after the prompt, where it does not repeat it."""
    blocks = _BLOCK.findall(text)
    code = max(blocks, key=len) if blocks else text
    defines = re.search(rf"^\s*(?:async\s+)?def\s+{params.entry_point}\b", code, re.MULTILINE)
    if defines is None:
        return params.prompt + code
    # What the prompt imports and defines beside the function is there for the answer, too.
    before = re.split(rf"^(?:async\s+)?def\s+{params.entry_point}\b", params.prompt, flags=re.MULTILINE)[0]
    return f"{before}\n{code}"


def build(params: Params) -> Checker:
    """The checker with these parameters; ValueError where they make none."""
    return Code(params)
