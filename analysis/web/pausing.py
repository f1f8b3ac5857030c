"""The kill switch over HTTP: POST .../pause and .../resume, for one experiment or for all."""

from collections.abc import Mapping, Sequence
from typing import Any

from aiohttp import web

from analysis.report import to_json
from analysis.web.guard import failure
from analysis.web.source import SOURCE

_MOST_WHY = 500


def install(app: web.Application) -> None:
    """Give `app` its routes."""
    for kind in ("pause", "resume"):
        app.router.add_post(f"/api/experiments/{{name}}/{kind}", asked)
        app.router.add_post(f"/api/{kind}", asked)


async def asked(request: web.Request) -> web.Response:
    """200 once every process obeys.  `?why=` is kept, and shown wherever the pause is.

    With `?stop_engines=1` a pause ends the engines launched for the experiment, which `resume` has started
    again; the answer says of which experiments engines stay, and of which they are ended.
    503 when somebody does not say so in time, who obeys as soon as it runs again; 404 for no such experiment;
    409 where the configuration pauses it.
    """
    kind = request.path.rpartition("/")[2]
    name = request.match_info.get("name")
    why = request.query.get("why", "")[:_MOST_WHY]
    ends = kind == "pause" and request.query.get("stop_engines", "") in ("1", "true")
    source = request.app[SOURCE]
    found = await source.switch(kind, [] if name is None else [name], why, stop_engines=ends)
    if found is None:
        return failure(503, "the supervisor did not answer; the log says why", "no_answer")
    if found["error"] is not None:
        status = 404 if found["code"] == "experiment_not_found" else 409
        return failure(status, found["error"], found["code"])
    if found["behind"]:
        who = ", ".join(found["behind"])
        return failure(503, f"{who} did not say in time that it obeys, and will once it runs", "not_obeyed")
    told = {"experiments": found["names"], "paused": kind == "pause"}
    if kind == "pause":
        told["engines"] = _engines(source.status(), found["names"])
    body = to_json(told)
    return web.Response(body=body, content_type="application/json")


def _engines(status: Mapping[str, Any], names: Sequence[str]) -> dict[str, str]:
    """Of each experiment for which engines were launched: whether these `stay` or are `ended`."""
    launched = {one["experiment"] for one in (status.get("launched") or {}).get("engines", ())}
    pauses = {one["name"]: one.get("paused") or {} for one in status["experiments"]}
    return {
        name: "ended" if pauses.get(name, {}).get("stops_engines") else "stay"
        for name in names
        if name in launched
    }
