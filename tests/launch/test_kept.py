"""A launched process and all it starts: heard, ended whole, and gone when whoever started it is gone."""

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
import uvloop

from gateway.launch.kept import CannotStart, Kept, Tail
from tests.gateway.programs import REPOSITORY
from tests.launch.staging import gone, lives

ENV = {"PATH": os.environ["PATH"]}
# A family: a child, and a grandchild that has left the group and lost its parent.  Each writes its pid.
FAMILY = """
import os, signal, subprocess, sys, time
IGNORING = {ignoring}
if IGNORING:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
sleeper = "import signal, time, sys; {ignored} time.sleep(1000)"
child = subprocess.Popen([sys.executable, "-c", sleeper])
orphan = (
    "import subprocess, sys; nothing = subprocess.DEVNULL;"
    "p = subprocess.Popen([sys.executable, '-c', sys.argv[1]], start_new_session=True, stdout=nothing);"
    "print(p.pid, flush=True)"
)
lost = subprocess.run([sys.executable, "-c", orphan, sleeper], stdout=subprocess.PIPE, text=True).stdout
open(sys.argv[1] + ".half", "w").write(f"{os.getpid()} {child.pid} {lost}")
os.rename(sys.argv[1] + ".half", sys.argv[1])
{then}
"""


def family(then: str = "time.sleep(1000)", *, ignoring: bool = False) -> str:
    ignored = "signal.signal(signal.SIGTERM, signal.SIG_IGN);" if ignoring else ""
    return FAMILY.replace("{ignoring}", str(ignoring)).replace("{ignored}", ignored).replace("{then}", then)


def run(test: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(60):
            await test()

    uvloop.run(bounded())


async def pids(file: Path) -> list[int]:
    while not os.path.exists(file):  # noqa: ASYNC240
        await asyncio.sleep(0.02)
    found = [int(word) for word in read(file).split()]
    assert len(found) == 3
    return found


def read(file: Path) -> str:
    return file.read_text()


@pytest.mark.parametrize("ignoring", [False, True])
def test_the_end_takes_its_children_and_those_that_have_left_it(tmp_path: Path, ignoring: bool) -> None:
    async def test() -> None:
        kept = Kept()
        code = family(ignoring=ignoring)
        await kept.start([sys.executable, "-c", code, str(tmp_path / "pids")], ENV, None, 1.0)
        there = await pids(tmp_path / "pids")
        assert there[0] == kept.pid
        await kept.ended(1.0)
        assert not any(map(lives, there))
        assert kept.why == f"it was killed by {'SIGKILL' if ignoring else 'SIGTERM'}"

    run(test)


def test_one_that_exits_leaves_no_child_behind(tmp_path: Path) -> None:
    async def test() -> None:
        kept = Kept()
        code = family("sys.exit(3)")
        await kept.start([sys.executable, "-c", code, str(tmp_path / "pids")], ENV, None, 1.0)
        await kept.over.wait()
        assert kept.why == "it exited with status 3"
        await gone(*await pids(tmp_path / "pids"))
        await kept.ended(1.0)

    run(test)


def test_who_kills_its_keeper_kills_it_and_its_children(tmp_path: Path) -> None:
    async def test() -> None:
        kept = Kept()
        await kept.start([sys.executable, "-c", family(), str(tmp_path / "pids")], ENV, None, 1.0)
        there = await pids(tmp_path / "pids")
        keeper = int(read(Path(f"/proc/{kept.pid}/stat")).rpartition(")")[2].split()[1])
        os.kill(keeper, signal.SIGKILL)
        await kept.over.wait()
        assert kept.why == "its keeper was killed"
        await gone(*there[:2])
        await kept.ended(1.0)
        if lives(there[2]):  # only its keeper could have found the one that had left
            os.kill(there[2], signal.SIGKILL)

    run(test)


def test_all_of_it_is_gone_when_whoever_started_it_is_killed(tmp_path: Path) -> None:
    starter = """
import asyncio, sys
from gateway.launch.kept import Kept
async def start():
    await Kept().start([sys.executable, "-c", sys.argv[1], sys.argv[2]], {}, None, 100.0)
    await asyncio.Event().wait()
asyncio.run(start())
"""

    async def test() -> None:
        process = subprocess.Popen(  # noqa: ASYNC220
            [sys.executable, "-c", starter, family(ignoring=True), str(tmp_path / "pids")],
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )
        there = await pids(tmp_path / "pids")
        process.kill()
        process.wait()
        await gone(*there)

    run(test)


@pytest.mark.parametrize(
    ("argv", "folder", "why"),
    [
        (["/no/such/engine"], None, "it cannot be started: No such file or directory"),
        (["/"], None, "it cannot be started: Permission denied"),
        (["true"], "/no/such/folder", "it cannot be started: there is no folder /no/such/folder"),
    ],
)
def test_what_cannot_be_run_says_why(argv: list[str], folder: str | None, why: str) -> None:
    async def test() -> None:
        kept = Kept()
        with pytest.raises(CannotStart) as refused:
            await kept.start(argv, ENV, folder, 1.0)
        assert str(refused.value) == why
        await kept.ended(1.0)

    run(test)


def test_its_last_lines_and_its_environment_are_its_own() -> None:
    async def test() -> None:
        kept = Kept()
        code = "import os; print('\\n'.join(map(str, range(100)))); print(sorted(os.environ), end='')"
        await kept.start([sys.executable, "-c", code], {**ENV, "ONLY": "this"}, None, 1.0)
        await kept.over.wait()
        await kept.ended(1.0)
        assert kept.why == "it exited with status 0"
        *numbers, last = kept.tail.lines
        assert numbers == [str(n) for n in range(60, 100)]
        assert "'ONLY'" in last and "PYTHONPATH" not in last

    run(test)


def test_a_tail_holds_little_of_much() -> None:
    tail = Tail(lines=3)
    for _ in range(1000):
        tail.feed(b"x" * 10_000)
    tail.feed(b"\n\xff\x1b[31mred\x00\nlast")
    assert len(tail.lines) == 3 or len(tail.lines) == 4
    assert all(len(line) <= 500 and line.isprintable() for line in tail.lines)
    assert tail.lines[-1] == "last"
