"""Reports the activity of Dask clusters to a Galvo server, and queries that server.

>>> import galvo
>>> galvo.register(server="http://127.0.0.1:8000", token="...")  # doctest: +SKIP
>>> galvo.list_clusters()  # doctest: +SKIP

Without a client to register, load the plugin with ``dask scheduler --preload galvo``.
"""

from galvo.client.cluster import close, list_clusters
from galvo.client.computation import list_computations
from galvo.client.errors import (
    GalvoError,
    GraphQLError,
    MissingPackage,
    NotConfigured,
    NotFound,
    NotImportable,
    RequestRefused,
    ServerUnreachable,
)
from galvo.client.event import list_events
from galvo.client.exception import list_exceptions
from galvo.client.export import Export, export
from galvo.client.graphql import graphql
from galvo.client.log import list_logs
from galvo.client.login import login
from galvo.client.profile import save_profile
from galvo.client.records import Records
from galvo.client.report import Report, report
from galvo.client.snapshot import Snapshot
from galvo.client.watch import Watch, watch
from galvo.importing import Imported, import_file
from galvo.plugin import VERSION as __version__
from galvo.plugin import CoiledTelemetry, dask_setup
from galvo.registration import Registration, register

__all__ = [
    "CoiledTelemetry",
    "Export",
    "GalvoError",
    "GraphQLError",
    "Imported",
    "MissingPackage",
    "NotConfigured",
    "NotFound",
    "NotImportable",
    "Records",
    "Registration",
    "Report",
    "RequestRefused",
    "ServerUnreachable",
    "Snapshot",
    "Watch",
    "__version__",
    "close",
    "dask_setup",
    "export",
    "graphql",
    "import_file",
    "list_clusters",
    "list_computations",
    "list_events",
    "list_exceptions",
    "list_logs",
    "login",
    "register",
    "report",
    "save_profile",
    "watch",
]
