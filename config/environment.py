"""What the environment adds: SHADOWLANE_* settings, and the ${VARIABLE}s that a file refers to."""

import re
from collections.abc import Mapping
from typing import Any

import yaml

from config.complaint import Complaint, ConfigError, Path, nearest, one_of, shown
from config.document import Document

PREFIX = "SHADOWLANE_"
REFERENCE = re.compile(r"\$\$\{|\$\{([^}]*)(\}?)")
VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
# Read by other parts: which file to load, and where real engines for tests are installed.
NOT_SETTINGS = {"CONFIG", "ENGINES_DIR"}
# Kubernetes puts these into every pod for each Service whose name begins with "shadowlane".
SERVICE_LINK = re.compile(
    r"(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)=.*"
    r"|(\w+_)?PORT=(tcp|udp|sctp)://.*"
)


def substitute(document: Document, env: Mapping[str, str]) -> tuple[dict[str, Any], list[Complaint]]:
    """The settings with each ${VARIABLE} in a text replaced; `$${` stands for a plain `${`."""
    complaints: list[Complaint] = []

    def fill(value: Any, path: Path) -> Any:
        if isinstance(value, dict):
            return {key: fill(item, (*path, key)) for key, item in value.items()}
        if isinstance(value, list):
            return [fill(item, (*path, index)) for index, item in enumerate(value)]
        return REFERENCE.sub(lambda match: one(match, path), value) if isinstance(value, str) else value

    def one(match: re.Match[str], path: Path) -> str:
        name, closed = match.groups()
        if name is None:
            return "${"
        if not closed or not VARIABLE.match(name):
            expected = "${NAME} with a variable's name, or $${ for a plain ${"
            complaints.append(Complaint(document.origin(path), path, expected, shown(match[0])))
        elif name not in env:
            expected = f"the environment variable {name} to be set"
            near = nearest(name, sorted(env))
            complaints.append(Complaint(document.origin(path), path, expected, "it is not", near))
        return env.get(name, "")

    return fill(document.settings, ()), complaints


def settings(env: Mapping[str, str], top: list[str]) -> tuple[dict[Path, tuple[str, Any]], list[Complaint]]:
    """What SHADOWLANE_* variables set: path to (variable, value).  `top` holds the first steps that exist.

    SHADOWLANE_FLEETS__0__POLICY__NAME is fleets[0].policy.name.  Lists and mappings are written as in YAML.
    """
    found: dict[Path, tuple[str, Any]] = {}
    complaints: list[Complaint] = []
    for variable in sorted(env):
        name = variable.removeprefix(PREFIX)
        if name == variable or name in NOT_SETTINGS or SERVICE_LINK.match(f"{name}={env[variable]}"):
            continue
        path: Path = tuple(int(s) if s.isascii() and s.isdigit() else s for s in name.lower().split("__"))
        if path[0] not in top:
            near = nearest(str(path[0]).upper(), [word.upper() for word in top])
            expected = f"{PREFIX} and then {one_of([word.upper() for word in top])}"
            complaints.append(Complaint(variable, (), expected, str(path[0]).upper(), near))
            continue
        value: Any = env[variable]
        if value[:1] in "[{" and value:
            try:
                value = yaml.safe_load(value)
            except yaml.YAMLError:
                complaints.append(
                    Complaint(variable, path, "a list or mapping as in YAML", "a mistake in it")
                )
                continue
        found[path] = (variable, value)
    return found, complaints


def place(target: dict[str, Any], path: Path, value: Any) -> None:
    """Set one value inside nested settings, making what lies on the way.  Raises ConfigError."""
    here: Any = target
    for depth, step in enumerate(path):
        last = depth == len(path) - 1
        if isinstance(step, int):
            if not isinstance(here, list) or step > len(here):
                length = len(here) if isinstance(here, list) else 0
                expected = (
                    f"an index up to {length}" if isinstance(here, list) else "a name, as this is no list"
                )
                raise ConfigError([Complaint("", path[: depth + 1], expected, str(step))])
            if step == len(here):
                here.append(None)
        elif not isinstance(here, dict):
            expected = "an index" if isinstance(here, list) else "nothing below this setting"
            raise ConfigError([Complaint("", path[: depth + 1], expected, step)])
        if last:
            here[step] = value
            return
        inner = here[step] if isinstance(step, int) else here.get(step)
        if inner is None:
            inner = [] if isinstance(path[depth + 1], int) else {}
        elif isinstance(inner, str) and path[:1] == ("fleets",) and path[depth - 1 : depth] == ("engines",):
            inner = {"url": inner}
        here[step] = inner
        here = inner
