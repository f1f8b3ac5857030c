"""How a mistake is told: where it is, what was expected, what was found, and the nearest valid word."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches

Path = tuple[str | int, ...]
PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*\Z")
LONGEST_SHOWN = 60


@dataclass(frozen=True, slots=True)
class Complaint:
    """One mistake.  `source` is a file with its line, a variable or the command line; `path` leads on."""

    source: str
    path: Path
    expected: str
    found: str | None = None
    hint: str | None = None

    def __str__(self) -> str:
        text = (
            ": ".join(part for part in (self.source, spelled(self.path)) if part)
            + f": expected {self.expected}"
        )
        if self.found is not None:
            text += f", found {self.found}"
        return f"{text}; {self.hint}" if self.hint else text


class ConfigError(ValueError):
    """The configuration cannot be used.  Its text holds every mistake found, one a line, never a secret."""

    def __init__(self, complaints: str | Iterable[Complaint]) -> None:
        if isinstance(complaints, str):
            self.complaints: tuple[Complaint, ...] = ()
            super().__init__(complaints)
        else:
            self.complaints = tuple(complaints)
            super().__init__("\n".join(dict.fromkeys(str(complaint) for complaint in self.complaints)))


def spelled(path: Path) -> str:
    """`fleets[0].policy.name`, with odd keys in quotes."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif PLAIN_KEY.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{shown(step)}]"
    return text


def nearest(word: str, valid: Sequence[str]) -> str | None:
    """The hint `did you mean …?`, or None when nothing is close."""
    folded = {choice.lower().replace("-", "_"): choice for choice in valid}
    close = get_close_matches(word.lower().replace("-", "_"), folded, n=1, cutoff=0.6)
    return f"did you mean {folded[close[0]]}?" if close else None


def one_of(valid: Sequence[str]) -> str:
    """A list of alternatives in words."""
    return f"one of {', '.join(valid)}" if len(valid) > 1 else ", ".join(valid)


def shown(value: object) -> str:
    """A value as a person would recognise it: short, on one line, without the credentials of a URL."""
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        return f"a mapping with {spelled(tuple(value)[:1])}" if value else "an empty mapping"
    if isinstance(value, (list, tuple)):
        return f"a list of {len(value)}" if value else "an empty list"
    if not isinstance(value, str):
        return str(value)[:LONGEST_SHOWN]
    text = re.sub(r"//[^/\s]*@", "//…@", value)
    if len(text) > LONGEST_SHOWN:
        text = f"{text[: LONGEST_SHOWN - 1]}…"
    return '"' + "".join(c if c.isprintable() else repr(c)[1:-1] for c in text) + '"'
