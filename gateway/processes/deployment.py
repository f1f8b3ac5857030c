"""What one deployment keeps on disk: the directory its processes meet in, its secret, its lock."""

import fcntl
import hashlib
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterable
from pathlib import Path

_LONGEST_SOCKET_PATH = 99  # sun_path holds 108 bytes on Linux, 104 elsewhere
_LONGEST_SOCKET_NAME = "observations.sock"
SECRET_BYTES = 32
_PREFIX = "shadowlane-"
_MARK = "in-use"


class UnusableError(Exception):
    """A directory cannot be used; the text says why and what to do."""


def make_run_dir(candidates: Iterable[Path]) -> tuple[Path, int]:
    """A new directory, for this user only, in the first candidate that can be written and whose path is short
    enough for a unix socket.  It holds the sockets, the load table and the metrics of one run.

    Gives it and a descriptor that marks it as in use, until closed.  What a killed run left there is removed.
    """
    tried = []
    for parent in candidates:
        if len(str(parent / f"{_PREFIX}12345678" / _LONGEST_SOCKET_NAME)) > _LONGEST_SOCKET_PATH:
            tried.append(f"{parent} (path too long for a unix socket)")
            continue
        try:
            run_dir = Path(tempfile.mkdtemp(prefix=_PREFIX, dir=parent))
            mark = _mark(run_dir)
        except OSError as error:
            tried.append(f"{parent} ({error.strerror})")
            continue
        (run_dir / "metrics").mkdir(mode=0o700)
        for left in parent.glob(f"{_PREFIX}????????"):
            _remove_if_left(left)
        return run_dir, mark
    raise UnusableError(
        f"no room for the sockets of this run in {', '.join(tried)}; set TMPDIR to a short path"
    )


def run_dir_candidates(state_dir: Path, runtime_dir: str | None) -> list[Path]:
    """Where to look for room: local places first, since a state directory may be on a network."""
    places = [Path(runtime_dir)] if runtime_dir else []
    return [*places, Path(tempfile.gettempdir()), Path("/tmp"), state_dir.absolute()]


def secret(state_dir: Path) -> bytes:
    """The deployment's secret, made on first use, readable by this user only.

    It salts the choice of sampled conversations and keys the prefix hashes, so nobody can craft requests that
    land in an experiment or collide, and a restart samples the same conversations.
    """
    path = state_dir / "secret"
    try:
        state_dir.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            _write_whole(path, secrets.token_bytes(SECRET_BYTES))
        found = path.read_bytes()
    except OSError as error:
        raise _unusable(state_dir, error) from error
    if len(found) < SECRET_BYTES:
        raise UnusableError(f"{path} is cut short; remove it to make a new one (sampling then chooses anew)")
    return found


def derived(secret: bytes, purpose: str, size: int) -> bytes:
    """A key or a salt of so many bytes, the same for one purpose after a restart.

    A purpose is never reworded: with another, other conversations are sampled and prompts hash otherwise.
    """
    return hashlib.blake2b(purpose.encode(), digest_size=size, key=secret[:64], person=b"shadowlane").digest()


def lock(state_dir: Path) -> int:
    """Hold the state directory against a second run, which would write into the same logs.

    Gives the descriptor that holds it, until closed.
    """
    path = state_dir / "lock"
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    except OSError as error:
        raise _unusable(state_dir, error) from error
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(fd)
        raise UnusableError(
            f"another shadowlane writes its logs to {state_dir}; stop it or set another --state-dir"
        ) from error
    return fd


def _mark(run_dir: Path) -> int:
    unnamed = run_dir / f".{_MARK}"
    fd = os.open(unnamed, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    unnamed.rename(run_dir / _MARK)  # named once locked: a run that starts now never finds it free
    return fd


def _remove_if_left(run_dir: Path) -> None:
    """Remove the directory of a run that was killed; one without a mark may be anybody's."""
    try:
        fd = os.open(run_dir / _MARK, os.O_RDWR)
    except OSError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return  # its run goes on
    else:
        shutil.rmtree(run_dir, ignore_errors=True)
    finally:
        os.close(fd)


def _unusable(state_dir: Path, error: OSError) -> UnusableError:
    return UnusableError(f"cannot use the state directory {state_dir}: {error.strerror}; set --state-dir")


def _write_whole(path: Path, content: bytes) -> None:
    fresh = path.with_name(f".{path.name}.{os.getpid()}")
    fd = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        os.write(fd, content)
        os.fsync(fd)
    finally:
        os.close(fd)
    try:
        os.link(fresh, path)  # of two that start at once, the first wins and both read the same
    except FileExistsError:
        pass
    finally:
        fresh.unlink()
