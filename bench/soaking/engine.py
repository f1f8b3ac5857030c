"""An engine that does as each request's X-Soak header says, and names itself in every answer.

`python -m bench.soaking.engine PORT`.  X-Soak holds pairs such as `chunks=20,gap_ms=5,fault=reset,at=3`:

chunks, gap_ms: a stream of so many events; size: JSON with so many bytes of padding; fault, at: what goes
wrong, after so many events.  JSON answers hold the CRC of the body that came.
"""

import asyncio
import json
import os
import socket
import struct
import sys
import zlib

import uvloop

KEEP_ALIVE_S = 5.0  # as uvicorn
_SSE = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
_COMMENTS, _COMMENT_GAP_S = 6, 0.6  # longer than the gateway bears silence, together
_ME = str(os.getpid())


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def event(number: int, finish: str = "null") -> bytes:
    text = f'{{"content":"n{number} "}}' if finish == "null" else "{}"
    choice = f'{{"index":0,"delta":{text},"finish_reason":{finish}}}'
    return _chunk(
        f'data: {{"id":"{_ME}","object":"chat.completion.chunk","choices":[{choice}]}}\n\n'.encode()
    )


def whole(status: str, body: object) -> bytes:
    text = json.dumps(body).encode()
    head = f"HTTP/1.1 {status}\r\nContent-Type: application/json\r\nContent-Length: {len(text)}\r\n\r\n"
    return head.encode() + text


class Connection:
    """One connection of the gateway."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    async def serve(self) -> None:
        try:
            while True:
                async with asyncio.timeout(KEEP_ALIVE_S):
                    head = await self._reader.readuntil(b"\r\n\r\n")
                lines = head.decode("latin-1").split("\r\n")
                fields = {name.lower(): value.strip() for name, _, value in (x.partition(":") for x in lines)}
                crc = await self._body_crc(fields)
                if lines[0].startswith("GET "):
                    await self._send(whole("200 OK", {"data": [{"id": "m"}]}))
                    continue
                asked = dict(pair.split("=") for pair in fields.get("x-soak", "size=100").split(","))
                if not await self._answer(asked, crc):
                    break
        except (OSError, TimeoutError, asyncio.IncompleteReadError, RuntimeError):
            pass  # the gateway has left; uvloop says so with a RuntimeError
        finally:
            self._writer.close()

    async def _body_crc(self, fields: dict[str, str]) -> int:
        crc = 0
        if "chunked" in fields.get("transfer-encoding", ""):
            while size := int((await self._reader.readline()).split(b";")[0], 16):
                crc = zlib.crc32((await self._reader.readexactly(size + 2))[:-2], crc)
            await self._reader.readline()
            return crc
        left = int(fields.get("content-length", "0"))
        while left:
            piece = await self._reader.read(min(left, 1 << 18))
            if not piece:
                raise ConnectionError
            crc, left = zlib.crc32(piece, crc), left - len(piece)
        return crc

    async def _answer(self, asked: dict[str, str], crc: int) -> bool:
        """Whether the connection goes on."""
        fault, at = asked.get("fault", ""), int(asked.get("at", "-1"))
        if fault in _STATUSES:
            await self._send(whole(_STATUSES[fault], {"error": {"message": fault, "code": fault}}))
        elif fault == "garbage":
            await self._send(b"SMTP/2 hello\r\n\r\n")
            return False
        elif fault == "mute":
            await self._until_left()
            return False
        elif "chunks" not in asked:
            await self._send(whole("200 OK", {"id": _ME, "crc": crc, "text": "x" * int(asked["size"])}))
        else:
            await self._send(_SSE)
            for _ in range(_COMMENTS if fault == "comments" else 0):
                await asyncio.sleep(_COMMENT_GAP_S)
                await self._send(_chunk(b": still here\n\n"))
            for number in range(int(asked["chunks"])):
                if number == at:
                    return await self._fail(fault)
                await asyncio.sleep(float(asked["gap_ms"]) / 1e3)
                await self._send(event(number))
            await self._send(event(0, '"stop"') + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n")
        return True

    async def _fail(self, fault: str) -> bool:
        if fault == "reset":
            raw: socket.socket = self._writer.get_extra_info("socket")
            raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            self._writer.transport.abort()
        elif fault == "silent":
            await self._until_left()
        return False

    async def _until_left(self) -> None:
        async with asyncio.timeout(30):
            await self._reader.read(1)

    async def _send(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()


_STATUSES = {"busy": "429 Too Many Requests", "broken": "500 Internal Server Error"}


async def main(port: int) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await Connection(reader, writer).serve()

    server = await asyncio.start_server(serve, "127.0.0.1", port, backlog=1024)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1])))
