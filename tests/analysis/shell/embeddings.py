"""A server of embeddings: OpenAI's `/v1/embeddings` over real sockets, of vectors that count letters."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any


@dataclass
class Served:
    """Where it is, and what it was asked: path, headers and body of each request.

    `hang_up()` closes the connections there are, `connections()` counts those there were.
    """

    url: str
    hang_up: Callable[[], None]
    connections: Callable[[], int]
    requests: list[tuple[str, dict[str, str], Any]] = field(default_factory=list)


def letters(text: str) -> list[float]:
    """How often each of eight letters is in it: texts that share letters are alike."""
    return [1.0 * text.count(letter) for letter in "aeionrst"]


def embedded(body: Any) -> tuple[int, Any]:
    """The answer to a request, its vectors in another order than its texts."""
    data = [
        {"object": "embedding", "index": at, "embedding": letters(text)}
        for at, text in enumerate(body["input"])
    ]
    return 200, {"object": "list", "model": body["model"], "data": data[::-1], "usage": {"prompt_tokens": 1}}


class _Server(ThreadingHTTPServer):
    daemon_threads = False

    def __init__(self, *how: Any) -> None:
        super().__init__(*how)
        self.lines: list[socket.socket] = []

    def get_request(self) -> tuple[socket.socket, Any]:
        line, address = super().get_request()
        self.lines.append(line)
        return line, address

    def handle_error(self, *about: Any) -> None:
        pass  # whoever asked is gone

    def hang_up(self) -> None:
        for line in self.lines:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)


@contextmanager
def embeddings(answer: Callable[[Any], tuple[int, Any]] = embedded) -> Iterator[Served]:
    """Serves until the block ends; `answer(body)` gives status and body, and may take its time."""

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            headers = {name.lower(): value for name, value in self.headers.items()}
            served.requests.append((self.path, headers, asked))
            status, said = answer(asked)
            body = said if isinstance(said, bytes) else json.dumps(said).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            pass

    server = _Server(("127.0.0.1", 0), Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    served = Served(url, server.hang_up, lambda: len(server.lines))
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield served
    finally:
        server.shutdown()
        server.hang_up()
        server.server_close()  # once every request has ended
        thread.join()
