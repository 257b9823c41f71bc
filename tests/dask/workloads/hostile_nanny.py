"""A preload of a nanny, which then logs values that no comm can carry, every three seconds."""

import logging
import sys
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from hostile import hostile_values


def dask_setup(nanny):
    def log():
        for number, value in enumerate(hostile_values()):
            with suppress(RecursionError):
                logging.getLogger("distributed.nanny").warning("hostile %02d %s", number, value)
        nanny.loop.call_later(3, log)

    nanny.loop.call_later(1, log)
