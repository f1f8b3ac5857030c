"""The guide tells every setting, and what the schema says of it."""

from pathlib import Path

from config import reference
from config.explain import keys, nested
from config.schema import Config

GUIDE = Path(__file__).parents[2] / "docs" / "configuration.md"


def test_the_guide_is_what_the_schema_says() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    assert reference.rewrite(text) == text, "run `make docs`"


def test_every_setting_is_in_the_guide() -> None:
    text = GUIDE.read_text(encoding="utf-8")
    waiting, names = [Config], set[str]()
    while waiting:
        for name, kind in keys(waiting.pop()).items():
            names.add(name)
            if (inner := nested(kind)) is not None:
                waiting.append(inner)  # type: ignore[arg-type]
    assert len(names) > 40
    assert [name for name in sorted(names) if f"| `{name}` |" not in text] == []


def test_bounds_and_defaults_are_told() -> None:
    tables = reference.markdown()
    assert "| `alpha` | number, above 0, at most 0.5 | `0.05` |" in tables
    assert "| `engines` | list | empty |" in tables
    assert "| `lane_bytes` | whole number, at least 1024, at most 1099511627776 | `67108864` |" in tables
