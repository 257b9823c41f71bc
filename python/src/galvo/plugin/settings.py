"""Reads the plugin's settings from Dask's configuration."""

import ipaddress
import logging
import math
import re
from typing import Any, Callable, Dict, List, Mapping, Optional
from urllib.parse import urlsplit

import dask.config
from dask.utils import parse_timedelta

from .bundle import origin
from .sections import TYPES_ONLY

VERSION = "0.1.0"

# Dask shows messages of loggers below "distributed" by default.
logger = logging.getLogger("distributed.galvo")

PRELOAD_PATH = "/api/v2/analytics/preload"
# The default of the coiled package. It is not a Galvo server, and a Galvo token must not be sent
# there.
COILED_DEFAULT_SERVER = "https://cloud.coiled.io"
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.5, 600.0  # seconds
SHORTEST_PROFILE_INTERVAL, LONGEST_PROFILE_INTERVAL = 5.0, 3600.0
TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def read_settings(
    server: Optional[str] = None, token: Optional[str] = None, account: Optional[str] = None
) -> Dict[str, Any]:
    """Returns the reporting settings of Dask's configuration, as plain values that can be pickled.

    Arguments take precedence over ``galvo.*``, and these over the settings of the ``coiled``
    package. An invalid value causes a warning, and its default is used.
    """
    server = server or _configured("galvo.server") or server_of_module(origin())
    if server is None:
        server = _configured("coiled.server")
        if server is not None and normalise_server(server) == COILED_DEFAULT_SERVER:
            server = None
    token = token or _configured("galvo.token", "coiled.token")
    account = account or _configured("galvo.account", "coiled.workspace", "coiled.account")
    return {
        "server": None if server is None else normalise_server(server),
        "token": None if token is None else str(token).strip(),
        # The fingerprint of the token that this one was exchanged for; None for the configured
        # token.
        "exchanged_for": None,
        "ship_token": _read_own("ship_token", _parse_truth, False),
        "account": None if account is None else str(account),
        "disabled": _read_shared("disabled", _parse_truth, False),
        "interval_seconds": _read_shared("computation.interval", _parse_interval, 15.0),
        "send_code": _read_shared("computation.code.transmit", _parse_truth, True),
        "send_profiles": _read_shared("profile.transmit", _parse_truth, False),
        "profile_interval_seconds": _read_shared("profile.interval", _parse_profile_interval, 60.0),
        "profile_by_worker": _read_shared("profile.by-worker", _parse_truth, False),
        "events_interval_seconds": _read_shared("events.interval", _parse_interval, 10.0),
        "events_allow": _read_shared("events.allow", _parse_topics, ["*"]),
        "idle_timeout_seconds": _read_shared("idle.timeout", _parse_timeout, None),
        "send_logs": _read_own("logs.transmit", _parse_truth, True),
        "send_errors": _read_own("errors.transmit", _parse_errors, True),
        "worker_plugin": _read_own("workers.plugin", _parse_truth, True),
        "spool_directory": _read_own("spool.directory", _parse_directory, None),
    }


# Suffixes of names that no public server has: of local networks and of Kubernetes.
PRIVATE_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".svc", ".test")


def normalise_server(text: Any) -> str:
    """Returns the base address for reports: with a scheme, without a trailing slash.

    Without a scheme, traffic beyond this machine and private networks is encrypted, because anyone
    who can read plain HTTP would have the token.
    """
    text = str(text).strip()
    if "://" not in text:
        text = ("http://" if _is_private(text) else "https://") + text
    return text.partition("?")[0].partition("#")[0].rstrip("/")


def _is_private(address: str) -> bool:
    """True if an address without a scheme is on this machine or a private network."""
    try:
        host = urlsplit("//" + address).hostname or ""
    except ValueError:
        return True  # rejected later as no address
    try:
        return ipaddress.ip_address(host).is_private
    except ValueError:
        return "." not in host or host.endswith(PRIVATE_NAMES)


def find_configuration_problem(settings: Mapping[str, Any]) -> Optional[str]:
    """Returns the reason why these settings cannot report, as a sentence; None if they can."""
    server, token = settings["server"], settings["token"]
    if not server:
        return "no server is configured: set galvo.server (DASK_GALVO__SERVER) to its address"
    try:
        address = urlsplit(server)
        is_usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        is_usable = False
    if not is_usable or "@" in server:
        return "galvo.server is not an http or https address, free of user names and passwords"
    route_match = re.match(r"(.*?)(?:/graphql|/api/v[0-9]+)(?:/|\Z)", address.path)
    if route_match is not None:
        root = f"{address.scheme}://{address.netloc}{route_match.group(1)}"
        return f"galvo.server is the address of the server itself, {root}, and not {server}"
    if not token:
        if settings.get("awaits_token"):
            return None
        return "no token is configured: set galvo.token (DASK_GALVO__TOKEN)"
    # Other characters cannot be in an HTTP header, and the error message would show the token.
    if not re.match(r"[!-~]+\Z", token):
        return "galvo.token contains spaces or characters that a token never has"
    return None


def _configured(*names: str) -> Any:
    values = (dask.config.get(name, None) for name in names)
    return next((value for value in values if value is not None and value != ""), None)


def server_of_module(name: str) -> Optional[str]:
    """Returns the server that this source came from, if the module is named after its address."""
    if not re.match(r"https?://", name):
        return None
    # Slashes are doubled if the configured address ends in one.
    match = re.match(r"(.+?)/*" + PRELOAD_PATH + r"/*(?:[?#].*)?\Z", name)
    return match.group(1) if match else None


def _read_shared(name: str, read: Callable[[Any], Any], default: Any) -> Any:
    """Reads a setting that the coiled package has, too."""
    return _read(["galvo." + name, "coiled.analytics." + name], read, default)


def _read_own(name: str, read: Callable[[Any], Any], default: Any) -> Any:
    return _read(["galvo." + name], read, default)


def _read(names: List[str], read: Callable[[Any], Any], default: Any) -> Any:
    for name in names:
        value = _configured(name)
        if value is None:
            continue
        try:
            return read(value)
        except Exception:
            logger.warning(
                "Galvo does not understand %s = %.100r and takes the default, %r",
                name,
                value,
                default,
            )
            break
    return default


def _parse_truth(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError("neither true nor false")
    return word in TRUE


def _parse_errors(value: Any) -> Any:
    """Parses whether exceptions are sent, or only their types and frames."""
    word = str(value).strip().lower()
    return TYPES_ONLY if word == TYPES_ONLY else word == "full" or _parse_truth(value)


def _parse_seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("not a duration")
    seconds = float(parse_timedelta(value, default="s"))
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("a duration must be finite and not negative")
    return seconds


def _parse_interval(value: Any) -> float:
    return clamp_interval(_parse_seconds(value))


def _parse_profile_interval(value: Any) -> float:
    return min(max(_parse_seconds(value), SHORTEST_PROFILE_INTERVAL), LONGEST_PROFILE_INTERVAL)


def _parse_directory(value: Any) -> str:
    if not isinstance(value, str) or "\0" in value:
        raise ValueError("not a directory")
    return value


def _parse_timeout(value: Any) -> Optional[float]:
    return _parse_seconds(value) or None


def _parse_topics(value: Any) -> List[str]:
    if isinstance(value, str):
        value = [topic.strip() for topic in value.split(",") if topic.strip()]
    if not isinstance(value, (list, tuple)) or not all(isinstance(t, str) for t in value):
        raise ValueError("not a list of topics")
    return list(value)


def clamp_interval(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError("an interval must be finite")
    return min(max(float(seconds), SHORTEST_INTERVAL), LONGEST_INTERVAL)
