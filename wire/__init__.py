"""HTTP/1.1 as Shadowlane speaks it, on both sides.

`http1` and `sse` are sans-IO: bytes in, events out.  `upstream` owns the sockets towards engines and
arms: pooled keep-alive connections, one request on each at a time.  `engines` holds what each kind of
engine speaks.  `tasks` starts background tasks.
"""
