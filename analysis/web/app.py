"""Which routes does the admin server have, and how is it started?"""

from dataclasses import dataclass
from pathlib import Path

from aiohttp import web

from analysis.report import render_html, to_json
from analysis.web import events, forgetting, pausing, probes
from analysis.web.guard import REPORT_POLICY, failure, guard, harden
from analysis.web.source import SOURCE, Source

STATIC = (Path(__file__).parent / "static").resolve()


def build_app(source: Source, bound: str, metrics_dir: str | None = None) -> web.Application:
    """The admin application for a server bound to `bound`; workers write metrics to `metrics_dir`."""
    app = web.Application(middlewares=[guard(bound)], client_max_size=64 << 10)
    app[SOURCE] = source
    app[probes.METRICS_DIR] = metrics_dir
    app.on_response_prepare.append(harden)
    app.router.add_get("/livez", probes.livez)
    app.router.add_get("/readyz", probes.readyz)
    app.router.add_get("/metrics", probes.metrics)
    app.router.add_get("/api/status", status)
    app.router.add_post("/api/reload", reload)
    app.router.add_get("/api/experiments", experiments)
    app.router.add_get("/api/experiments/{name}", ranking)
    app.router.add_get("/api/experiments/{name}/report.html", report_page)
    events.install(app)
    pausing.install(app)
    forgetting.install(app)
    app.router.add_get("/", page)
    app.router.add_get("/static/{file:.+}", static)
    return app


async def page(_request: web.Request) -> web.FileResponse:
    """The live page."""
    return web.FileResponse(STATIC / "index.html")


async def static(request: web.Request) -> web.StreamResponse:
    """A file of the page; only what lies in the package's folder."""
    path = (STATIC / request.match_info["file"]).resolve()
    if not path.is_relative_to(STATIC) or not path.is_file():
        raise web.HTTPNotFound
    return web.FileResponse(path)


async def status(request: web.Request) -> web.Response:
    """Processes, engines, experiments, inbox and logs."""
    return _json(to_json(request.app[SOURCE].status()))


async def reload(request: web.Request) -> web.Response:
    """Read the configuration again: 200 when it is used now, 422 with what is wrong with it when not."""
    found = await request.app[SOURCE].reload()
    if found is None:
        return failure(503, "the supervisor did not answer; the log says why", "no_answer")
    if found.get("error") is not None:
        return failure(422, found["error"], "config_refused")
    return _json(to_json(found))


async def experiments(request: web.Request) -> web.Response:
    """The experiments: their settings, phase and epoch."""
    return _json(to_json({"experiments": request.app[SOURCE].status()["experiments"]}))


async def ranking(request: web.Request) -> web.Response:
    """One experiment's ranking, the same bytes that `report` gives from its log."""
    found = await request.app[SOURCE].ranking(request.match_info["name"])
    return _unknown(request) if found is None else _json(to_json(found))


async def report_page(request: web.Request) -> web.Response:
    """One experiment's report, a page that can be saved and sent."""
    found = await request.app[SOURCE].ranking(request.match_info["name"])
    if found is None:
        return _unknown(request)
    headers = {"Content-Security-Policy": REPORT_POLICY}
    return web.Response(text=render_html(found), content_type="text/html", charset="utf-8", headers=headers)


def _json(body: bytes) -> web.Response:
    return web.Response(body=body, content_type="application/json")


def _unknown(request: web.Request) -> web.Response:
    names = ", ".join(request.app[SOURCE].names()) or "none"
    return failure(404, f"no such experiment; there are: {names}", "experiment_not_found")


@dataclass(frozen=True, slots=True)
class Admin:
    """A running admin server and where it listens."""

    host: str
    port: int
    runner: web.AppRunner

    async def close(self) -> None:
        """End streams, finish requests, close the socket."""
        await self.runner.cleanup()


async def start_admin(source: Source, host: str, port: int, metrics_dir: str | None = None) -> Admin:
    """Listen on `host:port` (port 0: any free one). OSError when that cannot be bound."""
    runner = web.AppRunner(build_app(source, host, metrics_dir), access_log=None, shutdown_timeout=2.0)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    bound = runner.addresses[0]
    shown = f"[{host}]" if ":" in host else host
    return Admin(shown, int(bound[1]), runner)
