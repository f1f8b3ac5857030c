"""Engines by EndpointSlices, of an API server over real sockets: lists, watches, cuts, rotation, history."""

import asyncio
from pathlib import Path

import uvloop

from gateway.discovery.kubernetes import KubernetesSource
from gateway.discovery.spec import KubernetesSpec
from tests.gateway.discovery.api_server import ApiServer, api_server, certificate, endpoint
from tests.gateway.discovery.watching import watched
from tests.support import until

ONE, TWO, THREE = (f"http://10.0.0.{n}:8000" for n in (1, 2, 3))


def source(server: ApiServer, folder: Path, port: str | int | None = "http") -> KubernetesSource:
    spec = KubernetesSpec(
        server.url, "vllm", None, port, "http", str(folder / "token"), str(folder / "ca.crt")
    )
    return KubernetesSource(spec)


def test_pods_come_become_unready_and_go(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1", ready=True))
        server.put("b", endpoint("10.0.0.2", "p2"))
        async with api_server(tmp_path, server), watched(source(server, tmp_path)) as found:
            await found.urls(ONE, TWO)  # listed in two pages
            await until(lambda: server.watches == 1)
            server.put("c", endpoint("10.0.0.3", "p3", ready=True))
            await found.urls(ONE, TWO, THREE)
            server.put("c", endpoint("10.0.0.3", "p3", ready=False))
            await found.urls(ONE, TWO)
            server.put("c", endpoint("10.0.0.3", "p3", ready=True))
            server.remove("b")
            await found.urls(ONE, THREE)
            server.put("c", endpoint("10.0.0.3", "p3", ready=True, terminating=True))
            await found.urls(ONE)
            server.bookmark()
            server.remove("a")
            await found.error("names no engine")  # an empty answer is no answer: what was found stays
            server.put("a", endpoint("10.0.0.1", "p1", ready=True))
            await found.urls(ONE)
            assert (server.lists, server.watches) == (2, 1)

    uvloop.run(test())


def test_a_watch_that_is_cut_goes_on_and_one_too_old_begins_with_a_new_list(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1"))
        async with api_server(tmp_path, server), watched(source(server, tmp_path)) as found:
            await found.urls(ONE)
            await until(lambda: server.watches == 1)
            server.cut()
            await until(lambda: server.watches >= 2, 20)
            server.put("b", endpoint("10.0.0.2", "p2"))
            await found.urls(ONE, TWO)
            lists = server.lists
            server.slices.pop("a")  # nobody is told of it: only a new list knows
            server.forget()
            await found.urls(TWO, timeout_s=20)
            assert server.lists > lists

    uvloop.run(test())


def test_a_watch_that_is_told_it_is_too_old_begins_with_a_new_list_and_complains_to_nobody(
    tmp_path: Path,
) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1"))
        server.put("b", endpoint("10.0.0.2", "p2"))
        async with api_server(tmp_path, server), watched(source(server, tmp_path)) as found:
            await found.urls(ONE, TWO)
            await until(lambda: server.watches == 1)
            server.slices.pop("a")
            server.expire()
            await found.urls(TWO)
            assert [one.error for one in found.told] == [None, None]

    uvloop.run(test())


def test_an_api_server_that_fails_is_asked_again_and_what_was_found_stays(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1"))
        server.fail = 503
        async with api_server(tmp_path, server), watched(source(server, tmp_path)) as found:
            await found.error("answered 503: not now")
            server.fail = None
            await found.urls(ONE)
            server.fail = 500
            server.cut()
            await found.error("answered 500")
            server.fail = None
            server.put("b", endpoint("10.0.0.2", "p2"))
            await found.urls(ONE, TWO, timeout_s=30)

    uvloop.run(test())


def test_a_rotated_token_is_read_again(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1"))
        async with api_server(tmp_path, server), watched(source(server, tmp_path)) as found:
            await found.urls(ONE)
            await until(lambda: server.watches == 1)
            server.token = "second"
            server.cut()
            await found.error("answered 401: Unauthorized")
            (tmp_path / "token").write_text("second\n")
            server.put("b", endpoint("10.0.0.2", "p2"))
            await found.urls(ONE, TWO, timeout_s=30)

    uvloop.run(test())


def test_another_certificate_than_the_clusters_is_not_trusted_with_the_token(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        server.put("a", endpoint("10.0.0.1", "p1"))
        other = tmp_path / "other"
        other.mkdir()
        async with api_server(tmp_path, server):
            cert, _ = certificate(other)
            (tmp_path / "ca.crt").write_bytes(cert.read_bytes())
            async with watched(source(server, tmp_path)) as found:
                await found.error("certificate")
                assert not server.lists and not server.refused

    uvloop.run(test())


def test_nothing_there_at_all_is_told_and_waited_for(tmp_path: Path) -> None:
    async def test() -> None:
        server = ApiServer()
        async with api_server(tmp_path, server):
            pass
        async with watched(source(server, tmp_path)) as found:
            await found.error("localhost")
            (tmp_path / "token").unlink()
            await found.error("token cannot be read")
            await asyncio.sleep(0)

    uvloop.run(test())
