"""A server of embeddings that speaks slowly or wrongly: a call ends in its time, and says what came."""

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from socket import SHUT_RDWR, socket
from ssl import PROTOCOL_TLS_SERVER, SSLContext
from threading import Event, Thread

import pytest

from analysis.embedder import Embedder, NoVectors
from analysis.spec import EmbedderSpec
from tests.wire.certificates import Authority

Answer = Callable[[socket], None]
WAIT_S = 30.0


def sized(body: bytes, more: bytes = b"") -> bytes:
    return b"HTTP/1.1 200 OK\r\n" + more + b"content-length: %d\r\n\r\n" % len(body) + body


def is_asked(line: socket) -> bool:
    """A whole question has come; False where the other end has hung up."""
    while piece := line.recv(1 << 16):
        if piece.endswith(b"}"):
            return True
    return False


@contextmanager
def serving(answer: Answer, tls: SSLContext | None = None) -> Iterator[str]:
    """Lets `answer` say what comes over each connection once something was asked, one after another."""
    lines: list[socket] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                line, _ = door.accept()
                lines.append(line)
                with suppress(OSError), line if tls is None else tls.wrap_socket(line, True) as spoken:
                    if is_asked(spoken):
                        answer(spoken)

    with socket() as door:
        door.bind(("127.0.0.1", 0))
        door.listen()
        thread = Thread(target=serve)
        thread.start()
        try:
            yield f"http{'s' if tls else ''}://127.0.0.1:{door.getsockname()[1]}"
        finally:
            door.shutdown(SHUT_RDWR)
            for line in lines:
                with suppress(OSError):
                    line.shutdown(SHUT_RDWR)
            thread.join(WAIT_S)


def asked(url: str, timeout_s: float = WAIT_S) -> Embedder:
    return Embedder(EmbedderSpec("trial", url, "m", timeout_s=timeout_s))


BEGINNINGS = {
    "a header's line": b"HTTP/1.1 200 OK\r\nx-a: ",
    "a chunk's line": b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    "a body": b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n",
}


@pytest.mark.parametrize("what", BEGINNINGS)
def test_who_drips_is_given_up_while_it_still_drips(what: str) -> None:
    """Bytes come as long as anybody is there: a timeout that begins anew with each would never end."""
    given_up = Event()

    def drip(line: socket) -> None:
        line.sendall(BEGINNINGS[what])
        for _ in range(1000):  # 20 s, were it listened to for so long
            if given_up.wait(0.02):
                break
            line.sendall(b"0")

    with serving(drip) as url, closing(asked(url, 0.2)) as embedder:
        try:
            with pytest.raises(NoVectors, match="it does not answer in time") as error:
                embedder.vectors(["a"])
        finally:
            given_up.set()
    assert error.value.reason == "unreachable"


@pytest.mark.parametrize(
    "body", [b'{"data":' + b"[" * 200_000, b'{"x":' + b"[" * 9_000 + b"]" * 9_000 + b"}"]
)
def test_nesting_without_end_is_malformed(body: bytes) -> None:
    with serving(lambda line: line.sendall(sized(body))) as url, closing(asked(url)) as embedder:
        with pytest.raises(NoVectors, match="not a list of embeddings") as error:
            embedder.vectors(["a"])
        assert error.value.reason == "malformed"


@pytest.mark.parametrize("more", [b"", b"connection: close\r\n"])
def test_an_answer_follows_another_whether_the_connection_is_kept_or_not(
    more: bytes,
) -> None:
    body = b'{"data":[{"index":0,"embedding":[1,2]}]}'
    lines = []

    def answer(line: socket) -> None:
        lines.append(line)
        line.sendall(sized(body, more))
        while not more and is_asked(line):
            line.sendall(sized(body, more))

    with serving(answer) as url, closing(asked(url)) as embedder:
        for _ in range(3):
            assert embedder.vectors(["a"]) == {"a": [1.0, 2.0]}
    assert len(lines) == (3 if more else 1)


def test_over_tls_who_it_is_must_be_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority, tls = Authority(tmp_path), SSLContext(PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(*authority.sign("127.0.0.1"))
    body = b'{"data":[{"index":0,"embedding":[1,2]}]}'
    with serving(lambda line: line.sendall(sized(body)), tls) as url:
        with closing(asked(url)) as embedder, pytest.raises(NoVectors, match="cannot be asked") as error:
            embedder.vectors(["a"])
        assert error.value.reason == "unreachable"
        monkeypatch.setenv("SSL_CERT_FILE", authority.file)
        with closing(asked(url)) as embedder:
            assert embedder.vectors(["a"]) == {"a": [1.0, 2.0]}
