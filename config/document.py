"""What a YAML file says and on which line: duplicate keys, odd keys and unending aliases are refused."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

import yaml

from config.complaint import Complaint, ConfigError, Path, shown

MOST_VALUES = 100_000  # a few kilobytes of nested aliases can unfold into billions of values
MOST_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Document:
    """Settings before they are checked, and where each came from.

    `origins` names the source of a path and of all below it.
    """

    settings: dict[str, Any]
    origins: Mapping[Path, str] = field(default_factory=dict)

    def origin(self, path: Path) -> str:
        """The source of the setting at `path`, else of the nearest above, else of one inside, else ""."""
        for n in range(len(path), 0, -1):
            if path[:n] in self.origins:
                return self.origins[path[:n]]
        inside = (source for other, source in self.origins.items() if path and other[: len(path)] == path)
        return next(inside, self.origins.get((), ""))


def read(path: FilePath, what: str = "a configuration file") -> Document:
    """Read one file.  Raises ConfigError for anything that keeps it from being a mapping of settings."""
    name = str(path)
    try:
        size = path.stat().st_size
        content = path.read_bytes() if size <= MOST_BYTES else b""
    except FileNotFoundError:
        raise ConfigError(f"{name}: expected {what}, found no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{name}: expected {what}, found a directory") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ConfigError(f"{name}: expected a readable file, found: {reason.lower()}") from None
    if size > MOST_BYTES:
        raise ConfigError(f"{name}: expected at most {MOST_BYTES} bytes, found {size}")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{name}: expected UTF-8 text, found byte {content[error.start]:#04x} at {error.start}"
        ) from None
    return parse(text, name)


def parse(text: str, name: str) -> Document:
    """Read YAML text; `name` stands for the file in errors.  Raises ConfigError."""
    loader: yaml.SafeLoader | None = None
    try:
        loader = yaml.SafeLoader(text)
        node = loader.get_single_node()
        if node is None:
            raise ConfigError(f"{name}: expected settings, found an empty file")
        walk = _Walk(name)
        walk.visit(node, ())
        if walk.complaints:
            raise ConfigError(walk.complaints)
        settings = loader.construct_document(node)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark is not None else ""
        problem = " ".join(part for part in (error.context, error.problem) if part)
        if mark is not None and text[max(0, mark.index - 1) : mark.index + 1] == "${":
            problem += '; inside { } and [ ] a ${NAME} is written in quotes: "${NAME}"'
        raise ConfigError(f"{name}{at}: expected YAML, found a mistake: {problem}") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        raise ConfigError(
            f"{name}:{line}: expected YAML text, found the character {error.character!r}"
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(f"{name}: expected YAML, found a mistake: {error}") from None
    finally:
        if loader is not None:
            loader.dispose()
    if not isinstance(settings, dict):
        found = shown(settings)
        raise ConfigError(f"{name}:{node.start_mark.line + 1}: expected a mapping of settings, found {found}")
    return Document(settings, walk.origins)


class _Walk:
    """Visits every node once per place it appears in, noting lines and what no settings file may hold."""

    def __init__(self, name: str) -> None:
        self.origins: dict[Path, str] = {}
        self.complaints: list[Complaint] = []
        self._name = name
        self._open: set[int] = set()
        self._visits = 0

    def visit(self, node: yaml.Node, path: Path) -> None:
        origin = self._origin(node)
        self._visits += 1
        self.origins.setdefault(path, origin)
        if id(node) in self._open:
            self.complaints.append(Complaint(origin, path, "settings", "an alias of what it stands in"))
            return
        if self._visits > MOST_VALUES:
            raise ConfigError(
                f"{origin}: expected at most {MOST_VALUES} values, found more (aliases count each time)"
            )
        self._open.add(id(node))
        if isinstance(node, yaml.MappingNode):
            self._mapping(node, path)
        elif isinstance(node, yaml.SequenceNode):
            for index, item in enumerate(node.value):
                self.visit(item, (*path, index))
        self._open.discard(id(node))

    def _mapping(self, node: yaml.MappingNode, path: Path) -> None:
        seen: dict[str, str] = {}
        for key, value in node.value:
            origin = self._origin(key)
            if key.tag == "tag:yaml.org,2002:merge":
                for merged in value.value if isinstance(value, yaml.SequenceNode) else [value]:
                    self.visit(merged, path)
            elif not isinstance(key, yaml.ScalarNode) or key.tag != "tag:yaml.org,2002:str":
                found = shown(key.value) if isinstance(key, yaml.ScalarNode) else "a list or mapping"
                hint = "write it in quotes" if isinstance(key, yaml.ScalarNode) else None
                self.complaints.append(Complaint(origin, path, "a name as the key", found, hint))
            elif key.value in seen:
                found = "it again"
                expected = f"each key once (the first is at {seen[key.value]})"
                self.complaints.append(Complaint(origin, (*path, key.value), expected, found))
            else:
                seen[key.value] = origin
                self.origins[(*path, key.value)] = origin
                self.visit(value, (*path, key.value))

    def _origin(self, node: yaml.Node) -> str:
        return f"{self._name}:{node.start_mark.line + 1}"
