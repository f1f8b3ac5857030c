"""The worker that is measured in process is a worker: it relays what it gets, and copies where it is to."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.inprocess import CHUNK, CLIENTS, KINDS, Worker, answer, request
from gateway.spec import SamplingSpec


@pytest.fixture
def end() -> Iterator[socket.socket]:
    """One that is quiet, to be asked whether anything came."""
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()) as end,
    ):
        yield end


@pytest.mark.parametrize(("given", "record"), [kind[1:] for kind in KINDS], ids=[name for name, *_ in KINDS])
def test_every_kind_of_worker_relays_what_it_is_given(
    given: tuple[SamplingSpec, ...], record: SamplingSpec | None, end: socket.socket, tmp_path: Path
) -> None:
    loop = asyncio.new_event_loop()
    worker = Worker(loop, tmp_path, end, given, record)
    written: list[bytes] = []
    for client in worker.clients:
        client.write = written.append
    worker.serve([request(512, number) for number in range(2 * CLIENTS)], answer())
    worker.stream(3)
    worker.rest()
    worker.serve([request(32 << 10, 1)], answer())
    loop.close()
    served, said = 2 * CLIENTS + 2, b"".join(written)
    assert said.count(answer().partition(b"\r\n\r\n")[2]) == served - 1
    assert said.count(CHUNK) == 4
    outcomes = [n for key, n in worker.service.tallies.all().items() if key[0] == "requests"]
    assert sum(outcomes) == served
    copies = len(given) + (record is not None)
    for _ in range(100):  # turns of the loop, in which what waits for more goes
        worker.soon.run()
    assert worker.soon.frames == copies * 2 * served
