"""What do engines say they hold?

Their KV events: decoded (`decode`), named by a chain of our own (`chain`), followed publisher by
publisher (`publisher`), kept in one table that every worker reads (`table`, `reader`).  Pure: the sockets
are in `gateway/kv`.
"""
