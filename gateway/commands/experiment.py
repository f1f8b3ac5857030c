"""What does `shadowlane experiment` do?  Has a running Shadowlane pause experiments, go on, or list them."""

import json
import sys
import urllib.error
import urllib.parse
import urllib.request
from typing import Any, TextIO

from gateway.commands.progress import progress

_PATIENCE_S = 10.0
_ENGINES = {
    "stay": "; the engines launched for it stay, with their GPUs (--stop-engines ends them)",
    "ended": "; the engines launched for it are ended, until it is resumed",
}


class NotDone(Exception):
    """What was asked could not be done; the text says why."""


def experiment(
    action: str,
    name: str | None,
    *,
    every: bool,
    admin: str,
    why: str = "",
    stop_engines: bool = False,
    out: TextIO | None = None,
) -> int:
    """Do `action` (pause, resume, list) to one experiment or to `every` one.  Raises NotDone."""
    stream = sys.stdout if out is None else out
    base = base_of(admin)
    if stop_engines and action != "pause":
        raise NotDone("--stop-engines goes with pause; a resume starts them again")
    if action == "list":
        for one in asked(f"{base}/api/experiments")["experiments"]:
            stream.write(line(one) + "\n")
        return 0
    if (name is None) is not every:
        raise NotDone(f"say which experiment to {action}, or --all, and not both")
    place = place_of(name)
    said = {**({"why": why} if why else {}), **({"stop_engines": "1"} if stop_engines else {})}
    query = f"?{urllib.parse.urlencode(said)}" if said else ""
    done = asked(f"{base}/{place}/{action}{query}", "POST")
    for each in done["experiments"]:
        engines = _ENGINES.get(done.get("engines", {}).get(each), "")
        stream.write(f"{each}: {'paused' if done['paused'] else 'copied'}{engines}\n")
    return 0


def line(one: dict[str, Any]) -> str:
    """One experiment in a line: its state, why it is paused, and how far a replay is."""
    pause = one.get("paused")
    text = f"{one['name']}  {one['phase']}  epoch {one['epoch']}  "
    far = f"; {said}" if (said := progress(one.get("slots"))) else ""
    if pause is None:
        return text + ("copied" if one.get("mode") != "replay" else "replayed") + far
    until = pause["resumes_in_s"]
    ends = "until it is resumed" if until is None else f"for {until:.0f} s more at least"
    return f"{text}paused {ends} ({pause['reason']}): {pause['detail']}; {pause['remedy']}{far}"


def base_of(admin: str) -> str:
    """The admin address as a URL."""
    return (admin if "://" in admin else f"http://{admin}").rstrip("/")


def place_of(name: str | None) -> str:
    """The path of what is asked of one experiment, or of all."""
    return "api" if name is None else f"api/experiments/{urllib.parse.quote(name, safe='')}"


def asked(url: str, method: str = "GET") -> dict[str, Any]:
    """What the admin server answers.  Raises NotDone with why it does not."""
    try:
        request = urllib.request.Request(url, method=method, data=b"" if method == "POST" else None)
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))  # it is nobody else's business
        with opener.open(request, timeout=_PATIENCE_S) as answer:
            found: dict[str, Any] = json.load(answer)
            return found
    except urllib.error.HTTPError as error:
        with error:
            raise NotDone(_said(error.read(), f"{url}: {error.code}")) from None
    except (OSError, ValueError) as error:
        why = getattr(error, "reason", error)
        why = getattr(why, "strerror", None) or why
        raise NotDone(
            f"{url} does not answer as a Shadowlane's admin address does: {why}; is it running, and is this"
            " its address (--admin)?"
        ) from None


def _said(body: bytes, otherwise: str) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return otherwise
