"""The admin server over HTTP: who may ask, what an error looks like, what a stream carries."""

import asyncio
import json
import os
import struct
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from prometheus_client.parser import text_string_to_metric_families
from yarl import URL

from analysis.web.app import start_admin
from analysis.web.guard import host_allowed
from tests.analysis.shell import rankings
from tests.analysis.shell.source import Still

NAME = "/api/experiments/fp8-kv-cache"


def _served(
    talk: Callable[[aiohttp.ClientSession, str], Awaitable[None]],
    ranking: dict[str, Any] | None = None,
    metrics_dir: str | None = None,
) -> None:
    async def run() -> None:
        source = Still(rankings.status(), ranking or rankings.ranking())
        admin = await start_admin(source, "127.0.0.1", 0, metrics_dir)
        try:
            async with aiohttp.ClientSession() as http:
                await talk(http, f"http://{admin.host}:{admin.port}")
        finally:
            await admin.close()

    asyncio.run(run())


@pytest.mark.parametrize(
    ("host", "bound", "allowed"),
    [
        ("127.0.0.1:8090", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("LOCALHOST:8090", "127.0.0.1", True),
        ("box.localhost:1", "127.0.0.1", True),
        ("[::1]:8090", "127.0.0.1", True),
        ("10.1.2.3:8090", "127.0.0.1", True),
        ("evil.example", "127.0.0.1", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("127.0.0.1.evil.example:8090", "127.0.0.1", False),
        ("shadowlane:8090", "127.0.0.1", False),
        ("", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("localhost:x", "127.0.0.1", False),
        ("shadowlane:8090", "0.0.0.0", True),
        ("evil.example:8090", "0.0.0.0", False),
        ("gw.internal:8090", "gw.internal", True),
    ],
)
def test_only_names_nobody_else_can_own_are_taken_as_host(host: str, bound: str, allowed: bool) -> None:
    assert host_allowed(host, bound) is allowed


def test_a_foreign_host_is_refused_on_every_path() -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        for path in ("/", "/api/status", "/metrics", "/static/app.css", "/nowhere"):
            async with http.get(url + path, headers={"Host": "evil.example"}) as answer:
                assert answer.status == 403
                assert (await answer.json())["error"]["code"] == "host_not_allowed"

    _served(talk)


def test_every_answer_carries_the_policy_and_none_allows_another_origin() -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        for path in ("/", "/livez", "/api/status", "/static/js/main.js", "/nowhere", "/api/events", NAME):
            async with http.get(url + path, headers={"Origin": "http://evil.example"}) as answer:
                assert answer.headers["Content-Security-Policy"].startswith("default-src 'self'"), path
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert not any(name.lower().startswith("access-control") for name in answer.headers)

    _served(talk)


@pytest.mark.parametrize(
    ("method", "path", "code", "status"),
    [
        ("GET", "/nowhere", "not_found", 404),
        ("GET", "/static/../app.py", "not_found", 404),
        ("GET", "/static/none.js", "not_found", 404),
        ("GET", "/static/%2e%2e/app.py", "not_found", 404),
        ("GET", "/static/..%2fapp.py", "not_found", 404),
        ("GET", "/static/js", "not_found", 404),
        ("GET", "/api/experiments/none", "experiment_not_found", 404),
        ("GET", "/api/experiments/none/report.html", "experiment_not_found", 404),
        ("POST", "/api/status", "method_not_allowed", 405),
        ("DELETE", NAME, "method_not_allowed", 405),
    ],
)
def test_errors_have_openais_shape(method: str, path: str, code: str, status: int) -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.request(method, URL(url + path, encoded=True)) as answer:
            error = (await answer.json())["error"]
            assert answer.status == status and error["code"] == code
            assert set(error) == {"message", "type", "param", "code"}

    _served(talk)


def test_events_carry_status_every_time_and_a_ranking_when_it_changed() -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        seen: list[str] = []
        async with http.get(url + "/api/events") as answer:
            assert answer.content_type == "text/event-stream"
            async for line in answer.content:
                if line.startswith(b"event: "):
                    seen.append(line[7:].decode().strip())
                elif line.startswith(b"data: "):
                    assert isinstance(json.loads(line[6:]), dict)
                if len(seen) == 4:
                    break
        assert seen == ["status", "ranking", "status", "status"]

    _served(talk)


def test_a_reader_who_does_not_read_is_disconnected_not_buffered_for() -> None:
    huge = rankings.ranking()
    huge["summary"] = "x" * (32 << 20)

    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        port = int(url.rsplit(":", 1)[1])
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
        writer.write(b"GET /api/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        transport = writer.transport
        assert isinstance(transport, asyncio.ReadTransport)
        await reader.readuntil(b"\r\n\r\n")
        transport.pause_reading()
        await asyncio.sleep(6.5)
        transport.resume_reading()
        got = 0
        try:
            while data := await asyncio.wait_for(reader.read(1 << 20), 30):
                got += len(data)
        except ConnectionError:
            pass
        assert got < 32 << 20
        writer.close()

    _served(talk, huge)


def test_metrics_hold_every_verdict_and_the_books() -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(url + "/metrics") as answer:
            families = {f.name: f for f in text_string_to_metric_families(await answer.text())}
        ratios = families["shadowlane_verdict_ratio"].samples
        assert len(ratios) == 3 * 4 * 3
        books = {
            (s.labels["fate"], s.labels["reason"]): s.value
            for s in families["shadowlane_experiment_copies"].samples
        }
        assert books["admitted", ""] == 4388 and books["dropped", "too_large"] == 9

    _served(talk)


def test_metrics_hold_load_gpus_and_the_forced_phase_and_no_sample_of_what_is_unknown() -> None:
    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(url + "/metrics") as answer:
            families = {f.name: f.samples for f in text_string_to_metric_families(await answer.text())}
        said = {(s.labels["arm"], s.value) for s in families["shadowlane_experiment_inflight"]}
        assert said == {("control", 7.9), ("fp8-kv", 6.4), ("production", 8.0)}
        energy = [s for s in families["shadowlane_arm_gpu_energy_joules"] if s.name.endswith("_total")]
        assert [(s.labels["gpu"], s.value) for s in energy] == [("GPU-7d1f", 20.5 * 3600)]
        for name in ("power_watts", "utilisation_ratio", "sm_clock_hertz", "throttled_ratio"):
            assert [s.labels["gpu"] for s in families[f"shadowlane_arm_gpu_{name}"]] == ["GPU-7d1f"], name
        assert {s.labels["metric"] for s in families["shadowlane_forced_ratio"]} == {"itl", "tpot", "e2e"}
        assert [s.value for s in families["shadowlane_experiment_pairs_marked"]] == [17]
        k3 = [s for s in families["shadowlane_scored_distance"] if s.labels["metric"] == "kl_k3"]
        assert {s.labels["of"]: round(s.value, 4) for s in k3} == {
            "value": 0.0123, "floor": 0.0004, "excess": 0.0119, "lower": 0.0098, "upper": 0.014,
        }  # fmt: skip
        assert "flips_when_sure" not in {s.labels["metric"] for s in families["shadowlane_scored_distance"]}
        assert [s.value for s in families["shadowlane_scored_pairs"]] == [300]

    _served(talk, {**rankings.ranking(), **rankings.conditions()})


def test_the_report_shows_load_gpus_and_the_forced_phase_and_escapes_their_names() -> None:
    ranking = {**rankings.ranking(), **rankings.conditions()}
    ranking["hardware"]["control"]["gpus"][0]["name"] = "<b>NVIDIA"

    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(f"{url}{NAME}/report.html") as answer:
            page = await answer.text()
        assert "&lt;b&gt;NVIDIA" in page and "<b>NVIDIA" not in page
        for said in ("1755 / 1410", "power_cap 12%", "300 of 300 pairs", "one production engine", "0.99"):
            assert said in page, said

    _served(talk, ranking)


def test_the_report_is_one_page_without_scripts_and_escapes_what_it_is_told(tmp_path: Path) -> None:
    ranking = rankings.ranking()
    evil = "<script>alert(1)</script>"
    ranking["candidates"][0]["name"] = ranking["summary"] = ranking["checks"][0]["detail"] = evil
    ranking["books"]["dropped"][evil] = 1

    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(f"{url}{NAME}/report.html") as answer:
            page = await answer.text()
            assert answer.headers["Content-Security-Policy"].startswith("default-src 'none'")
        assert "<script" not in page and page.count("&lt;script&gt;") >= 4
        assert "http://" not in page and "https://" not in page
        assert "observed only" in page and "cache parity" in page

    _served(talk, ranking)


def test_metrics_hold_what_other_processes_wrote_and_survive_a_broken_file(tmp_path: Path) -> None:
    write = "from prometheus_client import Counter; Counter('shadowlane_requests', 'Requests.').inc(7)"
    subprocess.run(
        [sys.executable, "-c", write],
        env={**os.environ, "PROMETHEUS_MULTIPROC_DIR": str(tmp_path)},
        check=True,
    )

    async def talk(http: aiohttp.ClientSession, url: str) -> None:
        async with http.get(url + "/metrics") as answer:
            text = await answer.text()
            assert "shadowlane_requests_total 7.0" in text and "shadowlane_metrics_incomplete 0.0" in text
        (tmp_path / "counter_99.db").write_bytes(struct.pack("iii", 64, 0, 10_000) + bytes(52))
        async with http.get(url + "/metrics") as answer:
            text = await answer.text()
            assert answer.status == 200 and "shadowlane_metrics_incomplete 1.0" in text

    _served(talk, metrics_dir=str(tmp_path))
