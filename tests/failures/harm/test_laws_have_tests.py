"""What docs/mirroring.md promises of I1 to I8: a test for each, by the names it gives."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_each_law_is_a_row_that_names_a_test_of_its_own_and_every_file_named_is_there() -> None:
    text = (ROOT / "docs/mirroring.md").read_text()
    rows = dict(re.findall(r"^\| (I\d) \| (.*)$", text, re.MULTILINE))
    assert list(rows) == [f"I{n}" for n in range(1, 9)]
    for law, row in rows.items():
        files = re.findall(r"`(tests/[\w/]+\.py)`", row)
        assert files, law
        own = [file for file in files if f"def test_{law.lower()}_" in (ROOT / file).read_text()]
        assert own, law
