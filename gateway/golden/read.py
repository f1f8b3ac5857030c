"""Which golden requests are in a file?  Our own format, GSM8K's and HumanEval's, plain or gzipped."""

import gzip
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from analysis.checkers._choose import checker_of
from mirror.spec import GoldenItem

SHIPPED = "shipped"
_SHIPPED = Path(__file__).with_name("shipped.jsonl")
_MOST_BYTES = 64 << 20

_GSM8K = "\n\nThink step by step. End with a line that has #### and the final number, and nothing else."
_HUMANEVAL = (
    "Complete this Python function. Answer with the whole function in one code block.\n\n```python\n{}```"
)


def read_golden(name: str | Path, command: tuple[str, ...] = ()) -> list[GoldenItem]:
    """The items of a file, `shipped` being the set that comes with Shadowlane.

    With a `command`, it checks every answer in place of what the file says.  Raises ValueError or OSError,
    saying what is wrong and in which line.
    """
    path = _SHIPPED if str(name) == SHIPPED else Path(name)
    items = []
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            said = msgspec.json.decode(line)
            items.append(_item(said, path, number, command))
        except (ValueError, TypeError, KeyError, RecursionError, msgspec.MsgspecError) as error:
            raise ValueError(f"line {number}: {error}") from error
    if not items:
        raise ValueError("it holds no golden request")
    seen: set[str] = set()
    for item in items:
        if item.id in seen:
            raise ValueError(f"two golden requests have the id {item.id!r}")
        seen.add(item.id)
    return items


def _text(path: Path) -> str:
    if path.stat().st_size > _MOST_BYTES:
        raise ValueError(f"it has more than {_MOST_BYTES >> 20} MiB")
    if path.suffix == ".gz":
        with gzip.open(path) as file:
            try:
                raw = file.read(_MOST_BYTES + 1)
            except (OSError, EOFError, zlib.error) as error:
                raise ValueError(f"not gzip: {error}") from error
        if len(raw) > _MOST_BYTES:
            raise ValueError(f"unpacked it has more than {_MOST_BYTES >> 20} MiB")
    else:
        raw = path.read_bytes()
    return raw.decode()


def _item(said: Any, path: Path, number: int, command: tuple[str, ...]) -> GoldenItem:
    if not isinstance(said, dict):
        raise ValueError("not a JSON object")
    kind = path.name.split(".")[0]
    if "question" in said and "answer" in said:
        if not isinstance(said["question"], str) or not isinstance(said["answer"], str):
            raise ValueError("question, answer: expected texts")
        asked: Any = said["question"] + _GSM8K
        id = f"{kind}/{number}"
        check: dict[str, Any] = {"kind": "numeric", "value": said["answer"].rpartition("####")[2].strip()}
    elif "entry_point" in said and "test" in said:
        asked, id = _HUMANEVAL.format(said["prompt"]), said["task_id"]
        tests = {"entry_point": said["entry_point"], "tests": said["test"], "prompt": said["prompt"]}
        check = {"kind": "code", **tests}
    elif "check" in said and ("prompt" in said or "messages" in said):
        asked, id, check = said.get("prompt"), said.get("id", f"{kind}/{number}"), said["check"]
    else:
        raise ValueError(
            "neither a golden request (id, prompt or messages, check) nor GSM8K's or HumanEval's"
        )
    if command:
        expected = msgspec.json.encode(said).decode()
        check = {"kind": "command", "argv": command, "expected": expected}
    if not isinstance(check, Mapping):
        raise ValueError("check: expected an object with its kind")
    checker_of(check)  # ValueError where it is none
    messages = said.get("messages") or [{"role": "user", "content": asked}]
    if not said.get("messages") and not isinstance(asked, str):
        raise ValueError("prompt: expected a text; messages: expected a list that is not empty")
    most = said.get("max_tokens")
    if not isinstance(id, str) or not isinstance(messages, list):
        raise ValueError("id: expected a text; messages: expected a list")
    if most is not None and (not isinstance(most, int) or most < 1):
        raise ValueError("max_tokens: expected a whole number of 1 or more")
    body: dict[str, Any] = {"messages": messages}
    for name in ("response_format", "max_tokens"):
        if name in said:
            body[name] = said[name]
    return GoldenItem(id, msgspec.json.encode(body), msgspec.json.encode(check))
