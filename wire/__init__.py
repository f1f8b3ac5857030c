"""HTTP/1.1 as Shadowlane speaks it, on both sides.

`http1` (requests) and `response` (answers) are sans-IO: bytes in, values out.  `upstream` owns the sockets
towards engines and arms: pooled keep-alive connections, one exchange on each at a time; `fetch` is its
awaitable form for small questions.  `dialect` and `engines` hold what each kind of engine speaks.  `tasks`
starts background tasks.
"""
