"""`/metrics` grows to megabytes, because clients invent labels; files of dead workers pile up and live on."""

import asyncio
import json
import os
import signal
from pathlib import Path

from tests.failures.processes import Whole, engine_that, get, serving
from tests.failures.support import at_once
from tests.support import (
    FINISH,
    LAST,
    SSE_HEAD,
    TOKEN,
    Peer,
    ask,
    event,
    json_answer,
    post,
    streams,
    until,
)
from tests.support_shared import run

PATH = "/v1/chat/completions"


def names(series: list[str]) -> set[str]:
    return {line.rsplit(" ", 1)[0] for line in series}


async def counted(whole: Whole, n: int) -> list[str]:
    """The series once so many requests are in them, of whatever outcome."""
    async with asyncio.timeout(20):
        while True:
            series = await whole.metrics()
            found = [line for line in series if line.startswith("shadowlane_requests_total{")]
            if sum(float(line.rsplit(" ", 1)[1]) for line in found) >= n:
                return series
            await asyncio.sleep(0.1)


def test_h38_series_explosion_nothing_a_client_invents_makes_a_series(tmp_path: Path) -> None:
    """Models, paths, methods, hosts, headers, keys, ids: after a first of each kind, no more series."""

    def invented(n: int) -> list[bytes]:
        body = json.dumps({"model": f"made-up-{n}", "user": f"u{n}", "messages": []}).encode()
        plain = b'{"model":"m","stream":true,"messages":[{"role":"user","content":"%d"}]}' % n
        return [
            post(body),
            post(plain, f"/v1/made/up/{n}"),
            post(plain, f"/{n}"),
            post(plain, f"{PATH}?{n}={n}"),
            post(
                plain, PATH, f"X-Request-Id: r{n}", f"X-Session-Id: s{n}", f"X-{n}: {n}", f"User-Agent: a{n}"
            ),
            post(plain, PATH, f"Authorization: Bearer k{n}", f"X-Api-Key: k{n}", f"X-Priority: p{n}"),
            post(plain, PATH).replace(b"Host: gw", b"Host: h%d.example" % n),
            f"M{n} /v1/x HTTP/1.1\r\nHost: g\r\n\r\n".encode(),
            get(f"/v1/models/{n}"),
            post(b"{bad %d" % n),
        ]

    async def script(peer: Peer) -> None:
        if peer.line.startswith("POST /v1/chat"):
            await streams(TOKEN, FINISH)(peer)
        else:
            status = 200 + len(peer.line) * 7919 % 400  # engines may invent too
            await peer.send(json_answer(b"{}", f"{status if status not in (204, 304) else 200} S"))

    async def test() -> None:
        async with engine_that(script) as engine:
            config = tmp_path / "config.yaml"
            config.write_text(f"fleets: [{{model: m, engines: ['{engine.url}']}}]")
            async with serving(tmp_path, "--config", str(config)) as whole:
                await at_once(ask(whole.port, one) for n in range(3) for one in invented(n))
                before = await settled(whole)
                await at_once(ask(whole.port, one) for n in range(100, 400) for one in invented(n))
                after = await settled(whole)
                new = names(after) - names(before)
                assert len(new) <= 12, new  # outcomes and buckets that had not occurred yet
                assert not [line for line in after if "made-up" in line or "made/up" in line]
                assert sum(map(len, after)) < 200_000

    run(test())


async def settled(whole: Whole) -> list[str]:
    """The series once they do not change any more."""
    await asyncio.sleep(1.2)  # exported once a second
    last: list[str] = []
    async with asyncio.timeout(20):
        while (now := [one for one in await whole.metrics() if "shadowlane_requests" in one]) != last:
            last = now
            await asyncio.sleep(1.2)
    return await whole.metrics()


def metric_files(whole: Whole) -> list[str]:
    worker = whole.child("_worker")
    assert worker is not None
    environment = Path(f"/proc/{worker}/environ").read_bytes().split(b"\0")
    (folder,) = [one.split(b"=", 1)[1] for one in environment if one.startswith(b"PROMETHEUS_MULTIPROC_DIR=")]
    return sorted(os.listdir(folder.decode()))


def test_h38_series_explosion_workers_that_die_leave_no_files_and_no_gauges(tmp_path: Path) -> None:
    async def test() -> None:
        gone = asyncio.Event()

        async def script(peer: Peer) -> None:
            await peer.send(SSE_HEAD, event(TOKEN))
            if b"hold" in peer.body:
                await peer.left()
                gone.set()
            else:
                await peer.send(event(FINISH), LAST)

        async with engine_that(script) as engine, serving(tmp_path, "--engine", engine.url) as whole:
            assert (await ask(whole.port, post())).status == 200
            await counted(whole, 1)
            for turn in range(2):
                gone.clear()
                seen = len(engine.asked)
                held = asyncio.get_running_loop().create_task(
                    ask(whole.port, post(b'{"model":"m","stream":true,"prompt":"hold"}'))
                )
                await until(lambda seen=seen: len(engine.asked) > seen)  # type: ignore[misc]
                worker = whole.child("_worker")
                assert worker is not None
                os.kill(worker, signal.SIGKILL)
                await held
                await asyncio.wait_for(gone.wait(), 30)
                async with asyncio.timeout(30):
                    while whole.child("_worker") in (None, worker):
                        await asyncio.sleep(0.02)
                assert (await asked_until_served(whole)) == 200
                series = await counted(whole, turn + 2)
                inflight = [line for line in series if line.startswith("shadowlane_inflight{")]
                assert sum(float(line.rsplit(" ", 1)[1]) for line in inflight) == 0, inflight
                owners = {file.rsplit("_", 1)[1] for file in metric_files(whole)}
                assert "worker-0.db" in owners and owners <= {"worker-0.db", "events.db"}
                assert not [line for line in series if "pid=" in line]

    run(test())


async def asked_until_served(whole: Whole) -> int:
    """The listening socket outlives the worker: what is asked meanwhile waits and is served."""
    async with asyncio.timeout(30):
        while True:
            got = await ask(whole.port, post())
            if got.status:
                return got.status
            await asyncio.sleep(0.05)
