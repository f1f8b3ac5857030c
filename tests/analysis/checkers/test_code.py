"""Programs in answers: which pass their tests, and that the others can do no harm."""

import socket
import sys
from pathlib import Path

import pytest

from analysis.checkers.code import Params, build

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp is Linux's")

TESTS = "def check(candidate):\n    assert candidate(2) == 4\n"


def runs(text: str, prompt: str = "", timeout_s: float = 20.0) -> bool | None:
    return build(Params("double", TESTS, prompt, timeout_s)).passes(text)


def test_a_function_is_found_in_a_fence_in_prose_and_after_the_prompt_it_goes_on_from() -> None:
    prompt = 'from math import prod\n\ndef double(x):\n    """Twice x."""\n'
    assert runs("def double(x):\n    return 2 * x")
    assert runs("Sure!\n```python\ndef double(x):\n    return 2 * x\n```\nThat is all.")
    assert runs("    return prod([2, x])\n", prompt)
    assert runs("```python\ndef double(x):\n    return prod([2, x])\n```", prompt)
    assert not runs("def double(x):\n    return x")
    assert not runs("I would rather not.")


@pytest.mark.parametrize(
    "leaving", ["raise SystemExit(0)", "import os; os._exit(0)", "import sys; sys.exit(0)"]
)
def test_a_program_that_leaves_before_its_tests_has_not_passed_them(leaving: str) -> None:
    assert runs(f"{leaving}\ndef double(x):\n    return 4") is False


def test_a_program_without_end_and_one_that_eats_memory_fail() -> None:
    assert runs("while True: pass", timeout_s=1.0) is False
    assert runs("x = bytearray(2 << 30)\ndef double(x):\n    return 4") is False


REFUSED = {
    "opens a socket": "import socket; socket.socket()",
    "connects": "import socket; socket.create_connection(('127.0.0.1', {port}), 5)",
    "forks": "import os; os.fork()",
    "runs a program": "import subprocess; subprocess.run(['/bin/true'])",
    "becomes a program": "import os; os.execv('/bin/true', ['true'])",
    "sends a signal": "import os; os.kill(os.getppid(), 0)",
    "writes a file": "open('{file}', 'w').write('x')",
    "appends to a file": "open('{file}', 'a').write('x')",
    "cuts a file": "import os; os.truncate('{file}', 0)",
    "removes a file": "import os; os.unlink('{file}')",
    "renames a file": "import os; os.rename('{file}', '{file}2')",
    "makes a folder": "import os; os.mkdir('{file}3')",
    "opens rights of a file": "import os; os.chmod('{file}', 0o777)",
    "begins a thread": "import threading; threading.Thread(target=int).start()",
}


@pytest.mark.parametrize("deed", REFUSED)
def test_whatever_could_do_harm_is_refused(deed: str, tmp_path: Path) -> None:
    file = tmp_path / "precious"
    file.write_text("kept")
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        attempt = REFUSED[deed].format(file=file, port=server.getsockname()[1])
        tried = f"try:\n    {attempt}\nexcept (PermissionError, RuntimeError):\n    refused = True\n"
        program = f"refused = False\n{tried}\ndef double(x):\n    return 4 if refused else 0"
        assert runs(program) is True  # the program ran, and what it tried was refused
        with pytest.raises(BlockingIOError):
            server.accept()
    assert file.read_text() == "kept"
    assert list(tmp_path.iterdir()) == [file]
