"""Reports what a Dask cluster does to a Galvo server.

>>> import galvo
>>> galvo.register(server="http://127.0.0.1:8000", token="...")  # doctest: +SKIP

Or, where there is no client to do so: ``dask scheduler --preload galvo``.
"""

from galvo.plugin import VERSION as __version__
from galvo.plugin import CoiledTelemetry, dask_setup
from galvo.registration import register

__all__ = ["CoiledTelemetry", "__version__", "dask_setup", "register"]
