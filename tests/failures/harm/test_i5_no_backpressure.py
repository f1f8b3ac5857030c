"""I5: what a request does to be copied waits for nothing, and nothing of it can slow a connection down."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
# Every step a request takes towards the lane, by file and function.
ON_THE_WAY = {
    "gateway/copying.py": ["offered"],
    "gateway/lane_link.py": ["copied", "unread", "read", "served", "_offer", "_flush", "switch"],
    "gateway/recording/tap.py": ["copied", "unread", "served"],
    "mirror/lane.py": ["offer", "drop", "pack_copy", "pack_served"],
}
# What could make a caller wait, or a connection stop reading.
WAITING = {
    "pause_reading", "drain", "sleep", "wait", "wait_for", "join", "acquire", "result", "sendall", "recv",
    "run", "getaddrinfo", "connect", "create_connection", "open", "pause",
}  # fmt: skip


def functions(path: str) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(ast.parse((ROOT / path).read_text())):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


@pytest.mark.parametrize("path", ON_THE_WAY)
def test_i5_no_step_towards_the_lane_waits(path: str) -> None:
    found = {name: node for name, node in functions(path) if name in ON_THE_WAY[path]}
    assert set(found) == set(ON_THE_WAY[path])
    for name, function in found.items():
        assert isinstance(function, ast.FunctionDef), f"{name} is a coroutine"
        for node in ast.walk(function):
            assert not isinstance(node, ast.Await | ast.AsyncFor | ast.AsyncWith | ast.Yield), name
            if isinstance(node, ast.Call):
                called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
                assert called not in WAITING, f"{name} calls {called}"


def test_i5_the_lane_has_no_hand_on_production_s_connections() -> None:
    """Flow control is the transport's word to its protocol: the lane's end takes no such word."""
    names = {name for name, _ in functions("gateway/lane_link.py")}
    assert not names & {"pause_writing", "resume_writing"}
    text = (ROOT / "gateway/lane_link.py").read_text() + (ROOT / "gateway/copying.py").read_text()
    assert not any(word in text for word in ("pause_reading", ".reply", "._client", ".exchange"))
