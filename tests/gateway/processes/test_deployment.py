"""What a deployment keeps: one secret for ever, one run at a time, nothing left by the dead."""

import os
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from gateway.processes.deployment import UnusableError, lock, make_run_dir, run_dir_candidates, secret


def test_the_secret_is_made_once_and_for_this_user_only(tmp_path: Path) -> None:
    state = tmp_path / "new" / "state"
    first = secret(state)
    assert len(first) == 32
    assert secret(state) == first
    assert (state / "secret").stat().st_mode & 0o077 == 0
    assert [path.name for path in state.iterdir()] == ["secret"]


def test_a_secret_cut_short_is_not_used(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"short")
    with pytest.raises(UnusableError, match="cut short"):
        secret(tmp_path)


def test_a_state_directory_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "state").write_text("")
    with pytest.raises(UnusableError, match="cannot use the state directory"):
        secret(tmp_path / "state")


def test_a_second_run_on_the_same_state_is_refused_until_the_first_ends(tmp_path: Path) -> None:
    ours = lock(tmp_path)
    with pytest.raises(UnusableError, match="another shadowlane"):
        lock(tmp_path)
    os.close(ours)
    os.close(lock(tmp_path))


@pytest.fixture
def short() -> Iterator[Path]:
    """A directory whose path leaves room for a socket's name, which pytest's own may not."""
    with TemporaryDirectory(dir="/tmp", prefix="sl") as folder:
        yield Path(folder)


def test_a_run_directory_is_private_and_its_socket_paths_are_short(short: Path) -> None:
    long = short / ("x" * 90)
    long.mkdir()
    run_dir, mark = make_run_dir([long, short / "missing", short])
    assert run_dir.parent == short
    assert run_dir.stat().st_mode & 0o077 == 0
    assert len(str(run_dir / "observations.sock")) < 100
    assert list((run_dir / "metrics").iterdir()) == []
    os.close(mark)


def test_what_a_killed_run_left_is_removed_by_the_next_and_nothing_else(short: Path) -> None:
    killed, mark = make_run_dir([short])
    os.close(mark)
    stranger = short / "shadowlane-12345678"
    stranger.mkdir()
    running, held = make_run_dir([short])
    assert not killed.exists()
    another, held_too = make_run_dir([short])
    assert running.exists()
    assert another.exists()
    assert stranger.exists()
    os.close(held)
    os.close(held_too)


def test_no_usable_directory_names_all_that_were_tried(tmp_path: Path) -> None:
    with pytest.raises(UnusableError, match=r"missing .*; set TMPDIR"):
        make_run_dir([tmp_path / "missing"])


def test_memory_backed_places_come_first_and_the_state_directory_last(tmp_path: Path) -> None:
    candidates = run_dir_candidates(tmp_path, "/run/user/1")
    assert candidates[0] == Path("/run/user/1")
    assert candidates[-1] == tmp_path
