"""The log: one JSON object a line, which process it was, and no credentials."""

import io
import json

from gateway.processes.log import logger


def test_each_line_is_one_json_object_that_names_its_process() -> None:
    out = io.StringIO()
    logger("worker-0", out).info("started\nhere", pid=3)
    (line,) = out.getvalue().splitlines()
    told = json.loads(line)
    assert (told["event"], told["process"], told["level"], told["pid"]) == (
        "started\nhere", "worker-0", "info", 3,
    )  # fmt: skip
    assert "timestamp" in told


def test_an_exception_is_told_within_its_line() -> None:
    out = io.StringIO()
    log = logger("shadow", out)
    try:
        raise ValueError("broken")
    except ValueError:
        log.exception("failed")
    (line,) = out.getvalue().splitlines()
    assert "ValueError: broken" in json.loads(line)["exception"]


def test_credentials_are_masked() -> None:
    out = io.StringIO()
    logger("worker-0", out).warning("odd", api_key="sk-1", Authorization="Bearer sk-1", url="http://e")
    assert "sk-1" not in out.getvalue()
    assert "http://e" in out.getvalue()


def test_the_level_is_the_least_that_is_told() -> None:
    out = io.StringIO()
    log = logger("worker-0", out, level="warning")
    log.info("not told")
    log.error("told")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == ["told"]


def test_console_style_is_text() -> None:
    out = io.StringIO()
    logger("worker-0", out, style="console").info("started", pid=3)
    assert "started" in out.getvalue()
    assert not out.getvalue().startswith("{")


def test_an_exception_is_told_without_the_values_that_were_at_hand() -> None:
    for style in ("console", "json"):
        out = io.StringIO()
        log = logger("shadow", out, style=style)
        try:
            body = "-".join(["a", "private", "prompt"])
            raise ValueError(len(body))
        except ValueError:
            log.exception("failed")
        assert "ValueError: 16" in out.getvalue() and body not in out.getvalue()


def test_two_loggers_of_one_process_live_apart() -> None:
    ours, theirs = io.StringIO(), io.StringIO()
    logger("a", ours).info("one")
    logger("b", theirs).info("two")
    assert (json.loads(ours.getvalue())["process"], json.loads(theirs.getvalue())["process"]) == ("a", "b")
