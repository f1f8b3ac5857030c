"""Messages that two readers could read in two ways: what an attacker hides a second request or answer with.

Each is a name and bytes.  Everything in `REQUESTS` and `ANSWERS` is to be refused; what follows it, a request
or an answer that says "hidden", must never be taken for one.
"""

HIDDEN = b"GET /v1/hidden HTTP/1.1\r\nHost: x\r\n\r\n"
HIDDEN_ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nhidden"

_P = b"POST /v1/x HTTP/1.1\r\nHost: x\r\n"
_TE = b"Transfer-Encoding: chunked\r\n"
_C = _P + _TE + b"\r\n"
_LAST = b"0\r\n\r\n"


def _fields(*lines: bytes, body: bytes = b"hello") -> bytes:
    return _P + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


REQUESTS: dict[str, bytes] = {
    # two framings, or one said twice
    "length, then chunked": _fields(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=_LAST),
    "chunked, then length": _fields(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=_LAST),
    "chunked and length 0": _fields(b"Transfer-Encoding: chunked", b"Content-Length: 0", body=_LAST),
    "chunked and a length, cases mixed": _fields(
        b"tRANSFER-eNCODING: chunked", b"cONTENT-lENGTH: 5", body=_LAST
    ),
    "two lengths": _fields(b"Content-Length: 5", b"Content-Length: 6"),
    "the same length twice": _fields(b"Content-Length: 5", b"Content-Length: 5"),
    "lengths in a list": _fields(b"Content-Length: 5, 5"),
    "two lengths apart": _fields(b"Content-Length: 5", b"X: 1", b"content-length: 0"),
    # how a length is written
    "plus": _fields(b"Content-Length: +5"),
    "minus": _fields(b"Content-Length: -5"),
    "minus nothing": _fields(b"Content-Length: -0"),
    "hexadecimal": _fields(b"Content-Length: 0x5"),
    "blank inside": _fields(b"Content-Length: 5 5"),
    "empty length": _fields(b"Content-Length: "),
    "fraction": _fields(b"Content-Length: 5.0"),
    "exponent": _fields(b"Content-Length: 5e0"),
    "underscore": _fields(b"Content-Length: 0_5"),
    "arabic digit": _fields("Content-Length: ٥".encode()),
    "quoted length": _fields(b'Content-Length: "5"'),
    "vertical tab after": _fields(b"Content-Length: 5\x0b"),
    "form feed before": _fields(b"Content-Length: \x0c5"),
    "NUL after": _fields(b"Content-Length: 5\x00"),
    "beyond 64 bits": _fields(b"Content-Length: 18446744073709551621"),
    "far beyond 64 bits": _fields(b"Content-Length: " + b"9" * 60),
    # blanks and line ends around fields
    "blank before the colon of a length": _fields(b"Content-Length : 5"),
    "tab before the colon of a coding": _fields(b"Transfer-Encoding\t: chunked", body=_LAST),
    "blank before the first field": b"POST /v1/x HTTP/1.1\r\n Host: x\r\nContent-Length: 5\r\n\r\nhello",
    "folded length": _fields(b"Content-Length: 5\r\n 0"),
    "folded value": _fields(b"X: a\r\n b", b"Content-Length: 5"),
    "folded by a tab": _fields(b"X: a\r\n\tContent-Length: 5"),
    "folded coding": _fields(b"Transfer-Encoding:\r\n chunked", body=_LAST),
    "bare LF between fields": _P + b"X: a\nContent-Length: 5\r\n\r\nhello",
    "bare CR between fields": _P + b"X: a\rContent-Length: 5\r\n\r\nhello",
    "bare LF after the request line": b"POST /v1/x HTTP/1.1\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    "head ended by LF LF": b"POST /v1/x HTTP/1.1\nHost: x\nContent-Length: 5\n\nhello",
    "head ended by CRLF LF": _P + b"Content-Length: 5\r\n\nhello",
    "head ended by CR": _P + b"Content-Length: 5\r\n\rhello",
    "CR CR LF": b"POST /v1/x HTTP/1.1\r\r\nHost: x\r\n\r\n",
    "NUL in a value": _fields(b"X: a\x00b", b"Content-Length: 5"),
    "NUL in a name": _fields(b"X\x00: a", b"Content-Length: 5"),
    "control in a value": _fields(b"X: a\x01b", b"Content-Length: 5"),
    "no name": _fields(b": a", b"Content-Length: 5"),
    "no colon": _fields(b"Content-Length", b"X: a"),
    "bracket in a name": _fields(b"Content-Length(: 5"),
    "name beyond ASCII": _fields(b"Content-Length\xff: 5"),
    # codings
    "unknown coding": _fields(b"Transfer-Encoding: xchunked", body=_LAST),
    "identity": _fields(b"Transfer-Encoding: identity", body=_LAST),
    "gzip, chunked": _fields(b"Transfer-Encoding: gzip, chunked", body=_LAST),
    "chunked, gzip": _fields(b"Transfer-Encoding: chunked, gzip", body=_LAST),
    "chunked, identity": _fields(b"Transfer-Encoding: chunked, identity", body=_LAST),
    "chunked twice": _fields(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=_LAST),
    "chunked, then identity": _fields(_TE[:-2], b"Transfer-Encoding: identity", body=_LAST),
    "identity, then chunked": _fields(b"Transfer-Encoding: identity", _TE[:-2], body=_LAST),
    "list begins empty": _fields(b"Transfer-Encoding: ,chunked", body=_LAST),
    "list ends empty": _fields(b"Transfer-Encoding: chunked,", body=_LAST),
    "empty coding": _fields(b"Transfer-Encoding: ", body=_LAST),
    "empty coding, and a length": _fields(b"Transfer-Encoding: ", b"Content-Length: 5"),
    "quoted coding": _fields(b'Transfer-Encoding: "chunked"', body=_LAST),
    "coding with a parameter": _fields(b"Transfer-Encoding: chunked;q=1", body=_LAST),
    "vertical tab before chunked": _fields(b"Transfer-Encoding: \x0bchunked", body=_LAST),
    "NUL after chunked": _fields(b"Transfer-Encoding: chunked\x00", body=_LAST),
    "chunked in HTTP/1.0": b"POST /v1/x HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    # chunks
    "LF in a chunk's extension": _C + b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "CR in a chunk's extension": _C + b"5;a\rb\r\nhello\r\n0\r\n\r\n",
    "NUL in a chunk's extension": _C + b"5;\x00\r\nhello\r\n0\r\n\r\n",
    "extension open over the line": _C + b'5;a="\r\nhello\r\n0\r\n\r\n',
    "extension without a size": _C + b";a=b\r\nhello\r\n0\r\n\r\n",
    "chunk's size ended by LF": _C + b"5\nhello\r\n0\r\n\r\n",
    "chunk ended by LF": _C + b"5\r\nhello\n0\r\n\r\n",
    "chunk longer than said": _C + b"5\r\nhello!\r\n0\r\n\r\n",
    "chunk ended by nothing": _C + b"5\r\nhello0\r\n\r\n",
    "blank after a size": _C + b"5 \r\nhello\r\n0\r\n\r\n",
    "blank before a size": _C + b" 5\r\nhello\r\n0\r\n\r\n",
    "plus before a size": _C + b"+5\r\nhello\r\n0\r\n\r\n",
    "minus before a size": _C + b"-5\r\nhello\r\n0\r\n\r\n",
    "0x before a size": _C + b"0x5\r\nhello\r\n0\r\n\r\n",
    "size beyond 64 bits": _C + b"10000000000000005\r\nhello\r\n0\r\n\r\n",
    "empty line before a size": _C + b"\r\n5\r\nhello\r\n0\r\n\r\n",
    "last chunk ended by LF LF": _C + b"5\r\nhello\r\n0\n\n",
    "last chunk ended by CRLF LF": _C + b"5\r\nhello\r\n0\r\n\n",
    "length in a trailer": _C + b"5\r\nhello\r\n0\r\nContent-Length: 50\r\n\r\n",
    "coding in a trailer": _C + b"5\r\nhello\r\n0\r\nTransfer-Encoding: gzip\r\n\r\n",
    "LF in a trailer": _C + b"5\r\nhello\r\n0\r\nX: a\nGET /v1/hidden HTTP/1.1\r\nHost: x\r\n\r\n",
    "blank before a trailer's colon": _C + b"5\r\nhello\r\n0\r\nX : a\r\n\r\n",
    # request lines, hosts, versions
    "no host": b"POST /v1/x HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello",
    "two hosts": _fields(b"Host: y", b"Content-Length: 5"),
    "blank before host's colon": b"POST /v1/x HTTP/1.1\r\nHost : x\r\nContent-Length: 5\r\n\r\nhello",
    "blank in the target": b"POST /v1/x /v1/y HTTP/1.1\r\nHost: x\r\n\r\n",
    "tab after the method": b"POST\t/v1/x HTTP/1.1\r\nHost: x\r\n\r\n",
    "blank after the version": b"POST /v1/x HTTP/1.1 \r\nHost: x\r\n\r\n",
    "method in small letters": b"post /v1/x HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\n\r\nhello",
    "blank before the method": b" POST /v1/x HTTP/1.1\r\nHost: x\r\n\r\n",
    "NUL in the target": b"POST /v1/\x00 HTTP/1.1\r\nHost: x\r\n\r\n",
    "byte beyond ASCII in the target": b"POST /v1/\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    "no version": b"GET /v1/x\r\n\r\n",
    "HTTP/0.9": b"GET /v1/x HTTP/0.9\r\nHost: x\r\n\r\n",
    "HTTP/1.2": b"GET /v1/x HTTP/1.2\r\nHost: x\r\n\r\n",
    "HTTP/1.10": b"GET /v1/x HTTP/1.10\r\nHost: x\r\n\r\n",
    "HTTP/2 preface": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "TLS": b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    "a body that was not announced": b"POST /v1/x HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\nhello",
}  # fmt: skip

_A = b"HTTP/1.1 200 OK\r\n"
_AC = _A + _TE + b"\r\n"


def _answer(*lines: bytes, body: bytes = b"hello") -> bytes:
    return _A + b"".join(line + b"\r\n" for line in lines) + b"\r\n" + body


ANSWERS: dict[str, bytes] = {
    "length, then chunked": _answer(b"Content-Length: 5", b"Transfer-Encoding: chunked", body=_LAST),
    "chunked, then length": _answer(b"Transfer-Encoding: chunked", b"Content-Length: 5", body=_LAST),
    "two lengths": _answer(b"Content-Length: 5", b"Content-Length: 6"),
    "the same length twice": _answer(b"Content-Length: 5", b"Content-Length: 5"),
    "lengths in a list": _answer(b"Content-Length: 5, 5"),
    "plus": _answer(b"Content-Length: +5"),
    "minus": _answer(b"Content-Length: -5"),
    "hexadecimal": _answer(b"Content-Length: 0x5"),
    "blank inside": _answer(b"Content-Length: 5 5"),
    "empty length": _answer(b"Content-Length: "),
    "NUL after": _answer(b"Content-Length: 5\x00"),
    "beyond 64 bits": _answer(b"Content-Length: 99999999999999999999"),
    "blank before the colon of a length": _answer(b"Content-Length : 5"),
    "blank before the first field": _answer(b" Content-Length: 5"),
    "folded value": _answer(b"X: a\r\n b", b"Content-Length: 5"),
    "bare LF between fields": _A + b"X: a\nContent-Length: 5\r\n\r\nhello",
    "bare CR between fields": _A + b"X: a\rContent-Length: 5\r\n\r\nhello",
    "bare LF after the status line": b"HTTP/1.1 200 OK\nContent-Length: 5\r\n\r\nhello",
    "head ended by LF LF": b"HTTP/1.1 200 OK\nContent-Length: 5\n\nhello",
    "control in a value": _answer(b"X: \x01", b"Content-Length: 5"),
    "name beyond ASCII": _answer(b"X\xff: a", b"Content-Length: 5"),
    "no colon": _answer(b"X", b"Content-Length: 5"),
    "unknown coding": _answer(b"Transfer-Encoding: xchunked", body=_LAST),
    "identity": _answer(b"Transfer-Encoding: identity"),
    "gzip, chunked": _answer(b"Transfer-Encoding: gzip, chunked", body=_LAST),
    "chunked, gzip": _answer(b"Transfer-Encoding: chunked, gzip", body=_LAST),
    "chunked twice": _answer(b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked", body=_LAST),
    "list begins empty": _answer(b"Transfer-Encoding: ,chunked", body=_LAST),
    "empty coding": _answer(b"Transfer-Encoding: "),
    "blank before the colon of a coding": _answer(b"Transfer-Encoding : chunked", body=_LAST),
    "LF in a chunk's extension": _AC + b"5;a\nb\r\nhello\r\n0\r\n\r\n",
    "extension open over the line": _AC + b'5;a="\r\nhello\r\n0\r\n\r\n',
    "chunk's size ended by LF": _AC + b"5\nhello\r\n0\r\n\r\n",
    "chunk ended by LF": _AC + b"5\r\nhello\n0\r\n\r\n",
    "chunk longer than said": _AC + b"5\r\nhello!\r\n0\r\n\r\n",
    "blank after a size": _AC + b"5 \r\nhello\r\n0\r\n\r\n",
    "minus before a size": _AC + b"-5\r\nhello\r\n0\r\n\r\n",
    "plus before a size": _AC + b"+5\r\nhello\r\n0\r\n\r\n",
    "0x before a size": _AC + b"0x5\r\nhello\r\n0\r\n\r\n",
    "size beyond 64 bits": _AC + b"fffffffffffffffff\r\nhello\r\n0\r\n\r\n",
    "garbage chunk": _AC + b"zz\r\nhello\r\n0\r\n\r\n",
    "last chunk ended by LF LF": _AC + b"5\r\nhello\r\n0\n\n",
    "length in a trailer": _AC + b"5\r\nhello\r\n0\r\nContent-Length: 5\r\n\r\n",
    "blank before a trailer's colon": _AC + b"5\r\nhello\r\n0\r\nX : 1\r\n\r\n",
    "HTTP/2.0": b"HTTP/2.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/0.9": b"HTTP/0.9 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "HTTP/1.2": b"HTTP/1.2 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "RTSP": b"RTSP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "ICY": b"ICY 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "small letters": b"http/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "empty line first": b"\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    "status of two digits": b"HTTP/1.1 20 OK\r\nContent-Length: 5\r\n\r\nhello",
    "status of four digits": b"HTTP/1.1 2000 OK\r\nContent-Length: 5\r\n\r\nhello",
    "status below 100": b"HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\nhello",
    "status in words": b"HTTP/1.1 abc OK\r\nContent-Length: 5\r\n\r\nhello",
    "CR in the reason": b"HTTP/1.1 200 O\rK\r\nContent-Length: 5\r\n\r\nhello",
    "NUL in the reason": b"HTTP/1.1 200 O\x00K\r\nContent-Length: 5\r\n\r\nhello",
    "protocol switched unasked": b"HTTP/1.1 101 S\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
    "protocol switched unasked, to none": b"HTTP/1.1 101 S\r\n\r\n",
    "no HTTP": b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
}

# Whole and read in one way, and yet followed by what could pass for the next answer on the connection.
OVERLONG_ANSWERS: dict[str, bytes] = {
    "after a length": _answer(b"Content-Length: 5"),
    "after a length of 0": _answer(b"Content-Length: 0", body=b""),
    "after the last chunk": _AC + b"5\r\nhello\r\n0\r\n\r\n",
    "after a trailer": _AC + b"5\r\nhello\r\n0\r\nT: 1\r\n\r\n",
    "after a 204": b"HTTP/1.1 204 No Content\r\n\r\n",
    "after a 204 with a length": b"HTTP/1.1 204 No Content\r\nContent-Length: 60\r\n\r\n",
    "after a 304 with a length": b"HTTP/1.1 304 Not Modified\r\nContent-Length: 60\r\n\r\n",
    "after a 103": b"HTTP/1.1 103 Early Hints\r\nContent-Length: 60\r\n\r\n" + _answer(b"Content-Length: 5"),
}
