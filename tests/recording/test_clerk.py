"""The recorder's books: taken = recorded + dropped(reason) + open, whatever comes in whatever order."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.recording.clerk import Clerk
from gateway.recording.files import Files
from gateway.recording.said import said
from gateway.recording.spec import RecordSpec
from mirror.frames import Copy, Missed, Served
from tests.recording.staging import KEY, answer, chat, rows

SPEC = RecordSpec("", "", KEY, held_bytes=4_000, open_s=10.0)


def copy(id: str, body: bytes, *, root: int = 1, turn: int = 0, path: str = "/v1/chat/completions") -> Copy:
    return Copy("recording", id, path, [], body, 1_000_000, 2_000_000, root, turn, True)


def served(id: str, prompt_tokens: int = 10, ending: str = "complete") -> Served:
    _head, *pieces = answer("one two", prompt_tokens, 2)
    reads = [(3_000_000 + at, piece) for at, piece in enumerate(pieces)]
    return Served(
        "recording",
        id,
        200,
        "text/event-stream",
        reads,
        True,
        1_000_000,
        2_000_000,
        2_500_000,
        9_000_000,
        ending,
    )


steps = st.lists(
    st.one_of(
        st.tuples(st.just("copy"), st.integers(0, 9), st.integers(1, 2_000)),
        st.tuples(st.just("garbage"), st.integers(0, 9), st.just(0)),
        st.tuples(st.just("served"), st.integers(0, 9), st.integers(0, 50)),
        st.tuples(st.just("missed"), st.integers(1, 5), st.just(0)),
        st.tuples(st.just("look"), st.integers(0, 30), st.just(0)),
        st.tuples(st.just("disk"), st.integers(0, 1), st.just(0)),
    ),
    max_size=60,
)


@given(steps)
@settings(deadline=None)
def test_the_books_close_at_every_moment_and_in_the_end_nothing_is_open(
    steps: list[tuple[str, int, int]],
) -> None:
    lines: list[bytes] = []
    full = False

    def write(line: bytes) -> str | None:
        if full:
            return "disk"
        lines.append(line)
        return None

    clerk, now_ns = Clerk(SPEC, 0, write), 0
    for what, n, size in steps:
        now_ns += 1_000_000
        if what == "copy":
            clerk.took(copy(str(n), chat("x" * size)), now_ns)
        elif what == "garbage":
            clerk.took(copy(str(n), b"[not an object"), now_ns)
        elif what == "served":
            clerk.took(served(str(n), size), now_ns)
        elif what == "missed":
            clerk.took(Missed("recording", "lane_full", n), now_ns)
        elif what == "look":
            now_ns += n * 1_000_000_000
            clerk.look(now_ns)
        else:
            full = bool(n)
        assert clerk.taken == clerk.recorded + sum(clerk.dropped.values()) + clerk.open
        assert clerk.recorded == len(lines)
    clerk.close()
    assert clerk.open == 0 and clerk.taken == clerk.recorded + sum(clerk.dropped.values())
    assert all(json.loads(line)["input_length"] > 0 for line in lines)


@pytest.mark.parametrize("depth", [*range(300, 900, 100), *range(960, 1001)])
def test_however_deep_a_client_nests_what_it_writes_every_request_is_in_the_books(depth: int) -> None:
    lines: list[bytes] = []
    clerk = Clerk(RecordSpec("", "", KEY, text=True), 0, lambda line: lines.append(line))
    deep = "[" * depth + "]" * depth
    clerk.took(copy("a", f'{{"messages":[{{"role":"user","content":"hi"}}],"x":{deep}}}'.encode()), 0)
    clerk.took(copy("b", f'{{"messages":[{{"role":"user","content":{deep}}}]}}'.encode()), 0)
    clerk.took(copy("c", chat("hello")), 0)
    for id in "abc":
        clerk.took(served(id), 0)
    clerk.close()
    assert clerk.taken == 3 == clerk.recorded + sum(clerk.dropped.values())
    assert json.loads(lines[-1])["request"]["messages"][0]["content"] == "hello"


def test_a_request_nobody_answers_is_given_up_after_a_while() -> None:
    clerk = Clerk(SPEC, 0, lambda _line: None)
    clerk.took(copy("a", chat("hello")), 0)
    clerk.look(9_000_000_000)
    assert clerk.open == 1
    clerk.look(10_000_000_000)
    assert clerk.open == 0 and clerk.dropped == {"no_answer": 1}


def test_two_conversations_with_one_beginning_are_each_their_own_parents() -> None:
    lines: list[bytes] = []
    clerk = Clerk(RecordSpec("", "", KEY, block_tokens=4), 0, lambda line: lines.append(line))
    talks = {"a": ("hi", "yes " * 30, "alpha"), "b": ("hi", "no " * 40, "beta")}
    for name, talk in talks.items():
        for turn in (0, 1):
            clerk.took(copy(f"{name}{turn}", chat(*talk[: 1 + 2 * turn]), turn=turn), 0)
            clerk.took(served(f"{name}{turn}", 1 + 30 * turn), 0)
    for name, talk in talks.items():
        longer = (*talk, "sure " * 20, "go on")
        clerk.took(copy(f"{name}2", chat(*longer), turn=2), 0)
        clerk.took(served(f"{name}2", 70), 0)
    clerk.close()
    parents = {row["id"]: row["parent"] for row in map(json.loads, lines)}
    assert parents["a2"] == "a1" and parents["b2"] == "b1"


def test_where_the_disk_takes_nothing_requests_are_dropped_and_counted_until_it_does(tmp_path: Path) -> None:
    there = tmp_path / "recordings"
    there.write_text("a file, where a folder is to be")
    files = Files(RecordSpec("", str(there), KEY, packing="none"), "20261130T000000Z")
    assert files.add(b"{}\n", 0) == "disk" and files.error is not None
    there.unlink()
    assert files.add(b"{}\n", 1_000_000_000) == "disk"  # it is not tried at every request
    assert files.add(b'{"input_length":1,"timestamp":0,"output_length":1}\n', 6_000_000_000) is None
    files.close()
    assert len(rows(there)) == 1 and files.error is None


def test_files_are_begun_anew_by_size_and_age_and_the_oldest_go(tmp_path: Path) -> None:
    spec = RecordSpec(
        "", str(tmp_path), KEY, packing="none", file_bytes=30, file_s=100, keep_bytes=50, keep_s=1_000
    )
    stranger = tmp_path / "mine.jsonl"
    stranger.write_bytes(b"x" * 500)
    files = Files(spec, "20261130T000000Z")
    for n in range(7):
        assert files.add(b'{"number":%4d}\n' % n, 0) is None
    assert files.add(b'{"number":late}\n', 101_000_000_000) is None
    names = sorted(path.name for path in tmp_path.iterdir() if path != stranger)
    assert names == [f"20261130T000000Z-{n:04d}.jsonl" for n in range(1, 6)]
    now_s = (tmp_path / names[0]).stat().st_mtime
    removed = files.tidy(now_s)
    left = [path for path in tmp_path.iterdir() if path != stranger]
    assert removed.files >= 1 and tmp_path / names[-1] in left and stranger.exists()
    assert sum(path.stat().st_size for path in left if path.name != names[-1]) <= 50
    files.tidy(now_s + 2_000)
    assert [path.name for path in tmp_path.iterdir() if path != stranger] == [names[-1]]
    files.close()


def test_what_two_bodies_have_in_common_they_have_in_their_prompts_bytes() -> None:
    plain = said("/v1/chat/completions", chat("one", "two", "three"))
    longer = said("/v1/chat/completions", chat("one", "two", "three", "four"))
    parts = json.loads(chat("one", "two", "three"))
    parts["messages"][0]["content"] = [{"type": "text", "text": "one"}]
    same = said("/v1/chat/completions", json.dumps(parts).encode())
    assert plain is not None and longer is not None and same is not None
    assert longer.prompt.startswith(plain.prompt) and same.prompt == plain.prompt
    assert plain.seed == longer.seed and plain.task == "chat"
