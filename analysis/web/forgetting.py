"""Deletion over HTTP: POST .../forget?id=REQUEST takes what was said to requests out of kept texts."""

from aiohttp import web

from analysis.report import to_json
from analysis.web.guard import failure
from analysis.web.source import SOURCE


def install(app: web.Application) -> None:
    """Give `app` its routes."""
    app.router.add_post("/api/experiments/{name}/forget", asked)
    app.router.add_post("/api/forget", asked)


async def asked(request: web.Request) -> web.Response:
    """200 once it is done, with how many pairs had texts of such requests, by experiment.

    `?id=` names a request and may come more than once.  400 where none is named, 404 for no such experiment,
    500 where the disk refuses: then some may still be there.
    """
    ids = request.query.getall("id", [])
    if not any(ids):
        return failure(400, "say which requests: ?id=REQUEST, by their x-request-id", "no_request")
    name = request.match_info.get("name")
    try:
        found = await request.app[SOURCE].forget([] if name is None else [name], ids)
    except OSError as error:
        return failure(500, f"the texts cannot all be taken out: {error.strerror or error}", "not_forgotten")
    if found is None:
        names = ", ".join(request.app[SOURCE].names()) or "none"
        return failure(404, f"no such experiment; there are: {names}", "experiment_not_found")
    return web.Response(body=to_json({"forgotten": found}), content_type="application/json")
