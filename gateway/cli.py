"""What `shadowlane` does with what was typed.

Everything heavy is imported by the command that needs it, so that `--help` is quick and a child process loads
only its own part.
"""

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

from gateway.commands.child import run_child
from gateway.commands.configured import configured, file_of
from gateway.commands.flags import CHILDREN, child_parser, parser
from wire.plain import plain

_FAILED = 1
_WRONG = 2  # what was typed or written is wrong; nothing was started
_INTERRUPTED = 130
_SHORTEST_KEY = 16  # a plain hash hides only what cannot be guessed


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and give its exit status.  The user's mistakes end as a line on stderr."""
    typed = sys.argv[1:] if argv is None else list(argv)
    if typed[:1] == ["emulate"]:
        return _emulate(typed[1:])
    if typed[:1] in (["replay"], ["workload"]):
        from workload.command import main as traffic

        try:
            return traffic(typed)
        except KeyboardInterrupt:
            return _INTERRUPTED
    is_child = typed[:1] and typed[0] in CHILDREN
    if is_child:
        gc.disable()  # what it loads stays: looking it through, again and again, is a seventh of its start
        _load_structlog()
    given = (child_parser() if is_child else parser()).parse_args(typed)
    try:
        return run_child(given) if is_child else _COMMANDS[given.command](given)
    except KeyboardInterrupt:
        return _INTERRUPTED
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # `| head` read all it wanted
        return _FAILED


def version() -> str:
    """The installed version, or "dev" when run from a checkout."""
    from importlib import metadata

    try:
        return metadata.version("shadowlane")
    except metadata.PackageNotFoundError:
        return "dev"


def is_compiled() -> bool:
    """Whether the way of a request runs as machine code (docs/decisions/0006); nothing of it is loaded."""
    found = find_spec("wire.http1")
    return found is not None and not str(found.origin).endswith(".py")


def _serve(given: argparse.Namespace) -> int:
    from config.load import ConfigError

    try:
        config = configured(given)
    except ConfigError as error:
        return _say(str(error), _WRONG)
    _load_structlog()
    from gateway.clients.listen import CannotListenError
    from gateway.processes.deployment import UnusableError
    from gateway.processes.serve import serve

    try:
        return serve(
            config, version=version(), env=os.environ, reread=lambda: configured(given), file=file_of(given)
        )
    except (CannotListenError, UnusableError) as error:
        return _say(f"shadowlane serve: {error}", _FAILED)


def _check(given: argparse.Namespace) -> int:
    from config.load import ConfigError

    try:
        config = configured(given)
    except ConfigError as error:
        return _say(str(error), _WRONG)
    from gateway.commands.check import check

    return check(config, source=str(file_of(given) or "settings"))


def _report(given: argparse.Namespace) -> int:
    from gateway.commands.report import UnreadableError, WrongError, report

    try:
        return report(
            given.log,
            state_dir=_state_dir(given),
            html=given.html,
            as_json=given.json,
            prices=given.prices,
            slo=given.slo,
            also=given.also,
        )
    except UnreadableError as error:
        return _say(f"shadowlane report: {error}", _FAILED)
    except WrongError as error:
        return _say(f"shadowlane report: {error}", _WRONG)


def _rank(given: argparse.Namespace) -> int:
    from gateway.commands.rank import Asked, rank
    from gateway.commands.report import UnreadableError, WrongError

    asked = Asked(
        given.log,
        _state_dir(given),
        given.fail_if,
        given.weight,
        given.accept_outputs,
        given.unknown_passes,
        given.form,
        given.html,
        given.prices,
        given.slo,
        given.also,
    )
    try:
        return rank(asked)
    except UnreadableError as error:
        return _say(f"shadowlane rank: {error}", _FAILED)
    except WrongError as error:
        return _say(f"shadowlane rank: {error}", _WRONG)


def _diff(given: argparse.Namespace) -> int:
    from gateway.commands.diff import diff
    from gateway.commands.report import UnreadableError

    try:
        return diff(
            given.log,
            given.pair,
            state_dir=_state_dir(given),
            by=given.by,
            candidate=given.candidate,
            limit=given.limit,
            as_json=given.json,
        )
    except UnreadableError as error:
        return _say(f"shadowlane diff: {error}", _FAILED)


def _export(given: argparse.Namespace) -> int:
    from gateway.commands.export import exported
    from gateway.commands.report import UnreadableError

    try:
        return exported(given.log, given.to, state_dir=_state_dir(given))
    except UnreadableError as error:
        return _say(f"shadowlane export: {error}", _FAILED)


def _state_dir(given: argparse.Namespace) -> Path:
    return Path(given.state_dir or os.environ.get("SHADOWLANE_STATE_DIR") or "shadowlane-state")


def _demo(given: argparse.Namespace) -> int:
    from gateway.demo.play import run

    return run(given.seed, keep=given.keep, html=given.html, seconds=given.seconds)


def _top(given: argparse.Namespace) -> int:
    from gateway.commands.experiment import NotDone, asked, base_of, place_of

    base = base_of(given.admin)
    try:
        if given.experiment is not None:
            asked(f"{base}/{place_of(given.experiment)}")  # who has it says so, or which there are
    except NotDone as error:
        return _say(f"shadowlane top: {error}", _FAILED)
    from gateway.commands.terminal import run_top

    return run_top(base, given.experiment)


def _experiment(given: argparse.Namespace) -> int:
    from gateway.commands.experiment import NotDone, experiment

    try:
        if given.action == "forget":
            from gateway.commands.forget import forget

            place = None if given.state_dir is None else Path(given.state_dir)
            return forget(given.experiment, given.id, every=given.all, admin=given.admin, state_dir=place)
        if given.id or given.state_dir is not None:
            raise NotDone("--id and --state-dir go with forget")
        return experiment(
            given.action,
            given.experiment,
            every=given.all,
            admin=given.admin,
            why=given.why,
            stop_engines=given.stop_engines,
        )
    except NotDone as error:
        return _say(f"shadowlane experiment {given.action}: {error}", _FAILED)


def _key(given: argparse.Namespace) -> int:
    import secrets

    import yaml

    from gateway.admission.keys import hashed, new_key

    if given.stdin:
        key = sys.stdin.readline().strip()
        if len(key) < _SHORTEST_KEY or not key.isascii() or not key.isprintable() or " " in key:
            return _say(f"shadowlane key: a key has {_SHORTEST_KEY} or more characters, no blanks", _WRONG)
    else:
        key = new_key(secrets.token_bytes)
        print("the key, for the client alone, kept nowhere; below it its entry for keys:", file=sys.stderr)
        print(key)
    entry = {"name": given.name, "hash": hashed(key)}
    print(yaml.safe_dump([entry], sort_keys=False, allow_unicode=True, width=10_000), end="")
    return 0


def _emulate(rest: Sequence[str]) -> int:
    packages = str(Path(__file__).resolve().parent.parent)
    searched = os.pathsep.join(p for p in (packages, os.environ.get("PYTHONPATH", "")) if p)
    command = [sys.executable, "-P", "-m", "emulator", *rest]
    os.execve(sys.executable, command, {**os.environ, "PYTHONPATH": searched})


def _version(_given: argparse.Namespace) -> int:
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"shadowlane {version()} ({'compiled' if is_compiled() else 'not compiled'}, Python {python})")
    return 0


def _definitions(given: argparse.Namespace) -> int:
    from gateway.commands.definitions import command

    return command(given.url, given.model, given.prompt, given.max_tokens, given.timeout)


def _load_structlog() -> None:
    """It loads rich where that is found, for tracebacks that nobody writes: a fifth of a child's start."""
    if "structlog" in sys.modules or "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # how Python is told that there is none
    try:
        import structlog  # noqa: F401
    finally:
        del sys.modules["rich"]


def _say(text: str, status: int) -> int:
    print(plain(text), file=sys.stderr)
    return status


_COMMANDS = {
    "serve": _serve,
    "record": _serve,
    "check": _check,
    "report": _report,
    "rank": _rank,
    "diff": _diff,
    "export": _export,
    "demo": _demo,
    "top": _top,
    "experiment": _experiment,
    "definitions": _definitions,
    "key": _key,
    "version": _version,
}

if __name__ == "__main__":
    status = main()
    if sys.argv[1:2] and sys.argv[1] in CHILDREN:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # all is closed, and the interpreter need not be taken apart: a tenth of its start
    sys.exit(status)
