"""TLS towards clients and towards engines in one gateway, and mistakes in either."""

import asyncio
import ssl
from pathlib import Path

from gateway.spec import EngineSpec, FleetSpec
from tests.gateway.clients.test_tls import trusting
from tests.gateway.programs import program, shadowlane
from tests.support import (
    FINISH,
    TOKEN,
    Engine,
    ask,
    parse,
    post,
    running,
    streams,
)
from tests.support_shared import run
from tests.wire.certificates import Authority
from wire.tls import ClientTls


def test_an_engine_over_tls_that_cannot_prove_itself_is_an_engine_error(tmp_path: Path) -> None:
    async def test() -> None:
        authority = Authority(tmp_path)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*authority.sign("127.0.0.1"))
        reached = Engine(streams(TOKEN, FINISH))

        server = await asyncio.start_server(reached._serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        for tls, status in ((ClientTls(ca=authority.file), 200), (None, 502), (ClientTls(verify=False), 200)):
            specs = (EngineSpec(0, url, kind="vllm", tls=tls),)
            async with running(fleets=[FleetSpec(None, (), True, specs, "least_load")]) as gateway:
                got = await ask(gateway.port, post())
                assert got.status == status or (status == 502 and got.status == 503)
        assert len(reached.asked) == 2
        server.close()

    run(test())


def test_a_config_with_tls_on_both_sides_serves_and_mistakes_are_told_before_the_start(
    tmp_path: Path,
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.sign("gw.test")
    engine_cert = authority.sign("engine.internal", as_file="engine")
    config = tmp_path / "gw.yaml"

    def written(url: str, shown: str, name: str) -> str:
        config.write_text(
            f"listen: 127.0.0.1:0\nadmin: 127.0.0.1:0\nstate_dir: {tmp_path}/state\n"
            f"tls: {{cert: {shown}, key: {key}}}\n"
            f"fleets:\n  - engines: [{{url: '{url}', kind: vllm}}]\n"
            f"    tls: {{ca: {authority.file}, server_name: {name}}}\n"
        )
        return str(config)

    async def test() -> None:
        reached = Engine(streams(TOKEN, FINISH))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*engine_cert)
        server = await asyncio.start_server(reached._serve, "127.0.0.1", 0, ssl=context)
        url = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        for shown_cert, name, status, said in (
            (cert, "engine.internal", 0, "1 engine: all reachable"),
            (cert, "other.internal", 1, "its certificate is not trusted"),
            (f"{cert}.none", "engine.internal", 2, "tls: "),
        ):
            with program(shadowlane("check", "-c", written(url, shown_cert, name))) as checked:
                assert await asyncio.to_thread(checked.ended) == status
                assert said in checked.said

        with program(shadowlane("serve", "-c", written(url, f"{cert}.none", "x"))) as refused:
            assert await asyncio.to_thread(refused.ended) != 0
            assert "tls: " in refused.said and "cannot be read" in refused.said

        with program(shadowlane("serve", "-c", written(url, cert, "engine.internal"))) as gateway:
            line = await asyncio.to_thread(gateway.line, "listening on")
            port = int(line.split("https://")[1].split()[0].rpartition(":")[2])
            reader, writer = await asyncio.open_connection(
                "127.0.0.1", port, ssl=trusting(authority), server_hostname="gw.test"
            )
            writer.write(post())
            got = parse(await asyncio.wait_for(reader.read(), 20))
            assert got.is_whole and b"tok" in got.text
            writer.close()
        server.close()

    run(test())
