"""A preload that logs when Dask has started, which is after all preloads and plugins."""

import asyncio
import logging


async def dask_setup(scheduler):
    async def say():
        while scheduler.status.name != "running":
            await asyncio.sleep(0.02)
        logging.getLogger("distributed.started").warning("Dask has started")

    scheduler.saying = asyncio.ensure_future(say())  # the event loop holds only a weak reference
