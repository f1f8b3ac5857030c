"""Engines in a file: every way of writing it, and every way of writing it wrongly."""

import json
from pathlib import Path

import pytest
import uvloop

from gateway.discovery.file import FileSource
from gateway.discovery.spec import FileSpec
from tests.gateway.discovery.watching import watched
from tests.gateway.whole import put

A, B, SIX = "http://10.0.0.5:8000", "http://b:8000", "http://[fd00::7]:8000"


def source(path: Path) -> FileSource:
    return FileSource(FileSpec(str(path)), look_s=0.05)


def test_a_file_is_followed_however_it_is_written(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "engines"
        file.write_text(json.dumps([A]))
        async with watched(source(file)) as found:
            await found.urls(A)
            put(file, f"- {A}\n- {B}/\n- http://[FD00:0::7]:8000\n")  # renamed into place; YAML
            await found.urls(A, B, SIX)
            file.write_text(json.dumps([B]))  # in place
            await found.urls(B)
            other = tmp_path / "other"
            other.write_text(json.dumps([A, B]))
            link = tmp_path / "link"
            link.symlink_to(other)
            link.rename(file)  # as a ConfigMap does it
            await found.urls(A, B)

    uvloop.run(test())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[", ":1 is neither JSON nor YAML"),
        ("", "expected a list of URLs"),
        ("{}", "expected a list of URLs"),
        ("[]", "names no engine"),
        ("[1]", "item 1"),
        (f'["{A}", "ftp://x"]', "item 2"),
        (f'["{A}", "http://u:p@h"]', "item 2"),
        ("\x00", "neither JSON nor YAML"),
    ],
)
def test_what_cannot_be_used_is_complained_of_and_the_next_good_content_taken(
    tmp_path: Path, text: str, words: str
) -> None:
    async def test() -> None:
        file = tmp_path / "engines"
        file.write_text(json.dumps([A]))
        async with watched(source(file)) as found:
            await found.urls(A)
            put(file, text)
            await found.error(words)
            put(file, json.dumps([A, B]))
            await found.urls(A, B)

    uvloop.run(test())


def test_a_file_that_is_mended_after_many_tries_is_taken_as_soon_as_any(tmp_path: Path) -> None:
    """However often it was wrong before: a look costs nothing, so none is put off."""

    async def test() -> None:
        file = tmp_path / "engines"
        async with watched(source(file)) as found:
            for at in range(1, 9):
                put(file, json.dumps([A] * at + [1]))
                await found.error(f"item {at + 1}:", timeout_s=30)
            told = len(found.told)
            put(file, json.dumps([A, B]))
            await found.urls(A, B, timeout_s=30)
            file.unlink()
            await found.error("No such file", timeout_s=30)
            put(file, json.dumps([A, B]))
            await found.urls(A, B, timeout_s=30)
            assert told == 8 and len(found.told) == 11

    uvloop.run(test())


def test_a_file_that_comes_late_or_is_gone_for_a_while(tmp_path: Path) -> None:
    async def test() -> None:
        file = tmp_path / "engines"
        async with watched(source(file)) as found:
            await found.error("No such file")
            put(file, json.dumps([A]))
            await found.urls(A)
            file.unlink()
            await found.error("No such file")
            put(file, json.dumps([A]))
            await found.urls(A)

    uvloop.run(test())
