"""The tree: our packages are ours, every file says what it is for, and imports point down."""

import ast
import subprocess
import sys
from importlib.metadata import packages_distributions
from importlib.util import find_spec
from pathlib import Path

import pytest

import analysis.metrics
import analysis.readers
import routing.policies
import wire.engines
from config import plugins

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ["gateway", "routing", "mirror", "analysis", "config", "wire", "emulator", "workload"]
SOURCES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
TESTS = sorted((ROOT / "tests").rglob("*.py"))
MOST_LINES = 400
VAGUE = {"manager", "utils", "util", "helper", "helpers", "base", "common", "data", "info", "misc"}

every_source = pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))


@pytest.mark.parametrize("name", PACKAGES)
def test_a_top_level_name_is_ours(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin == str(ROOT / name / "__init__.py")


def test_no_other_distribution_owns_a_name_of_ours() -> None:
    owners = packages_distributions()
    assert [name for name in PACKAGES if set(owners.get(name, ())) - {"shadowlane"}] == []


def test_no_folder_of_tests_can_pass_for_a_package() -> None:
    assert list((ROOT / "tests").rglob("__init__.py")) == []


@pytest.mark.parametrize("name", PACKAGES)
def test_a_package_says_what_it_is_for_and_nothing_else(name: str) -> None:
    module = ast.parse((ROOT / name / "__init__.py").read_text(encoding="utf-8"))
    text = ast.get_docstring(module)
    assert text is not None
    assert len(text) > len(name) + 20
    assert len(module.body) == 1


@every_source
def test_a_file_says_in_its_first_line_what_it_is_for(path: Path) -> None:
    source = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(source)), "the first statement is not a docstring"
    assert source.startswith(('"""', "#!")), "the docstring is not on the first line"
    assert len(source.splitlines()[0].strip('"')) > 20, "the first line says nothing"


@every_source
def test_a_file_is_short_enough_to_be_read(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


@every_source
def test_a_file_has_a_name_that_means_something(path: Path) -> None:
    words = set(path.stem.strip("_").split("_")) | set(path.parent.name.split("_"))
    assert not words & VAGUE


@pytest.mark.parametrize("path", TESTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_test_file_says_what_it_tests(path: Path) -> None:
    assert ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    "package",
    [routing.policies, wire.engines, analysis.readers, analysis.metrics],
    ids=lambda package: package.__name__,
)
def test_every_plugin_is_in_the_guide(package: object) -> None:
    guide = "\n".join(path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").rglob("*.md")))
    assert [name for name in plugins.names(package) if f"`{name}`" not in guide] == []  # type: ignore[arg-type]


def test_links_inside_the_guide_lead_somewhere() -> None:
    pages = [*sorted((ROOT / "docs").rglob("*.md")), *sorted(ROOT.glob("*.md"))]
    assert [
        f"{page.name}: {target}"
        for page in pages
        for target in _links(page)
        if not (page.parent / target).exists()
    ] == []


def test_imports_point_down() -> None:
    command = [str(Path(sys.executable).with_name("lint-imports")), "--no-cache"]
    checked = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert checked.returncode == 0, checked.stdout[-3000:] + checked.stderr[-2000:]


def _links(page: Path) -> list[str]:
    """The relative targets of a page's links, without anchors."""
    text = page.read_text(encoding="utf-8")
    targets = [piece.split(")")[0].split("#")[0] for piece in text.split("](")[1:]]
    return [
        target for target in targets if target and "://" not in target and not target.startswith("mailto:")
    ]
