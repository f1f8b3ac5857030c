"""A connection to an engine for another protocol than HTTP, out of what its pool may have open."""

import asyncio

from wire.dial import CannotConnect
from wire.upstream import Pool


async def dial(pool: Pool, protocol: asyncio.Protocol) -> None:
    """Connect `protocol`; afterwards `hung_up` is owed, once, when the connection is gone.

    Raises CannotConnect, after which nothing is owed.
    """
    if pool._closed:
        raise CannotConnect("the engine is not used any more", is_ours=False)
    if not pool._room.take():
        raise CannotConnect("no connection to spare", is_ours=True)
    try:
        await pool._dialer.connect(protocol)
    except BaseException:
        pool._room.give()
        raise


def hung_up(pool: Pool) -> None:
    """A connection made by `dial` is gone."""
    pool._room.give()
