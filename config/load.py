"""How settings come together: file, environment, command line; checked whole, every mistake told at once."""

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import replace
from pathlib import Path as FilePath
from typing import Any

from pydantic import ValidationError

from config import beside, document, environment, keys_file
from config.complaint import Complaint, Path
from config.complaint import ConfigError as ConfigError
from config.document import Document
from config.explain import explain, keys
from config.schema import Config

COMMAND_LINE = "command line"
FLAGS = {"fleets": "--engine", "experiments": "--control and --candidate"}


def load(path: FilePath | str | None, env: Mapping[str, str], overrides: Mapping[str, Any]) -> Config:
    """The configuration: `path`'s file where given, SHADOWLANE_* of `env` over it, `overrides` over both.

    `overrides` is nested like the file (see `flags.overrides`): mappings merge, everything else replaces.
    Raises ConfigError with every mistake, one a line.
    """
    gathered, written, complaints = _gathered(path, env, overrides)
    settings = gathered.settings
    if "fleets" not in settings and path is None:
        expected = "an engine to stand in front of: --engine URL, or a file with fleets: -c FILE"
        complaints.append(Complaint(COMMAND_LINE, ("fleets",), expected, "neither"))
    try:
        config = Config.model_validate(settings)
    except ValidationError as error:
        told = {complaint.path for complaint in complaints if complaint.path}
        more = explain(error, gathered, written)
        complaints += [c for c in more if not any(c.path[:n] in told for n in range(len(c.path) + 1))]
    if complaints:
        raise ConfigError(_by_line(complaints))
    return config if path is None else beside.placed(config, gathered, FilePath(path))


def located(
    complaints: Iterable[Complaint],
    path: FilePath | str | None,
    env: Mapping[str, str],
    overrides: Mapping[str, Any],
) -> list[Complaint]:
    """Complaints of what `load` took, each with the file and line, or else, that its setting is from."""
    gathered, _, _ = _gathered(path, env, overrides)
    return _by_line([replace(one, source=gathered.origin(one.path)) for one in complaints])


def _gathered(
    path: FilePath | str | None, env: Mapping[str, str], overrides: Mapping[str, Any]
) -> tuple[Document, dict[str, Any], list[Complaint]]:
    """The settings of all sources, the same as errors show them, and what is amiss with where they are."""
    read = document.read(FilePath(path)) if path is not None else Document({})
    origins = dict(read.origins)
    settings, complaints = environment.substitute(read, env)
    written = deepcopy(read.settings)  # what errors show: references to variables, never their values

    complaints += _add_environment(settings, written, origins, env)
    complaints += _add_overrides(settings, written, origins, overrides)
    complaints += keys_file.add(settings, written, origins, FilePath(path) if path is not None else None)
    return Document(settings, origins), written, complaints


def _add_environment(
    settings: dict[str, Any], written: dict[str, Any], origins: dict[Path, str], env: Mapping[str, str]
) -> list[Complaint]:
    variables, complaints = environment.settings(env, list(keys(Config)))
    for where, (variable, value) in sorted(variables.items(), key=lambda item: _in_order(item[0])):
        try:
            environment.place(settings, where, value)
            environment.place(written, where, deepcopy(value))
        except ConfigError as error:
            complaints += [Complaint(variable, c.path, c.expected, c.found, c.hint) for c in error.complaints]
        else:
            _came_from(origins, where, variable)
    return complaints


def _add_overrides(
    settings: dict[str, Any], written: dict[str, Any], origins: dict[Path, str], overrides: Mapping[str, Any]
) -> list[Complaint]:
    complaints: list[Complaint] = []
    for key, value in overrides.items():
        if key in FLAGS and value and settings.get(key):  # never silently replace what is written elsewhere
            source = next(origin for path, origin in origins.items() if path[:1] == (key,))
            expected = f"no {FLAGS[key]} together with {key} from elsewhere"
            complaints.append(Complaint(COMMAND_LINE, (key,), expected, f"some at {source}"))
            continue
        for where in _leaves({key: value}, ()):
            _came_from(origins, where, COMMAND_LINE)
        for target in (settings, written):
            _merge(target, {key: value})
    return complaints


def _merge(target: dict[str, Any], over: Mapping[str, Any]) -> None:
    for key, value in over.items():
        inner = target.get(key)
        if isinstance(value, Mapping) and isinstance(inner, dict):
            _merge(inner, value)
        else:
            target[key] = deepcopy(value)


def _leaves(value: Any, path: Path) -> list[Path]:
    if isinstance(value, Mapping) and value:
        return [leaf for key, item in value.items() for leaf in _leaves(item, (*path, key))]
    return [path]


def _came_from(origins: dict[Path, str], path: Path, source: str) -> None:
    for other in [other for other in origins if other[: len(path)] == path]:
        del origins[other]
    origins[path] = source


def _in_order(path: Path) -> list[tuple[int, str]]:
    """Sorts paths by name and, within a list, by number."""
    return [(step, "") if isinstance(step, int) else (0, step) for step in path]


def _by_line(complaints: Iterable[Complaint]) -> list[Complaint]:
    """In the order of the file's lines; what is not from the file comes first."""

    def line(complaint: Complaint) -> int:
        number = complaint.source.rpartition(":")[2]
        return int(number) if number.isascii() and number.isdigit() else 0

    return sorted(complaints, key=line)
