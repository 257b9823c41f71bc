"""What the plugin is told: settings out of Dask's configuration."""

import logging
import math
import re
from typing import Any, Callable, Dict, List, Mapping, Optional
from urllib.parse import urlsplit

import dask.config
from dask.utils import parse_timedelta

from .bundle import origin

VERSION = "0.1.0"

# Dask shows messages of loggers below "distributed" without any configuration.
logger = logging.getLogger("distributed.galvo")

PRELOAD_PATH = "/api/v2/analytics/preload"
# The value that the coiled package puts into the configuration. It is not a Galvo server, and a
# token for one must not be sent there.
COILED_DEFAULT_SERVER = "https://cloud.coiled.io"
SHORTEST_INTERVAL, LONGEST_INTERVAL = 0.5, 600.0  # seconds
SHORTEST_PROFILE_INTERVAL, LONGEST_PROFILE_INTERVAL = 5.0, 3600.0
TRUE, FALSE = ("true", "1", "yes", "on"), ("false", "0", "no", "off")


def read_settings(
    server: Optional[str] = None, token: Optional[str] = None, account: Optional[str] = None
) -> Dict[str, Any]:
    """What Dask's configuration says about reporting, as plain values that travel in a pickle.

    Arguments win over ``galvo.*``, which wins over what the ``coiled`` package would use. A value
    that cannot be understood is warned of, and its default taken.
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
        "account": None if account is None else str(account),
        "disabled": _shared("disabled", _truth, False),
        "interval_seconds": _shared("computation.interval", _interval, 15.0),
        "send_code": _shared("computation.code.transmit", _truth, True),
        "send_profiles": _shared("profile.transmit", _truth, False),
        "profile_interval_seconds": _shared("profile.interval", _profile_interval, 60.0),
        "events_interval_seconds": _shared("events.interval", _interval, 10.0),
        "events_allow": _shared("events.allow", _topics, ["*"]),
        "idle_timeout_seconds": _shared("idle.timeout", _timeout, None),
        "send_logs": _own("logs.transmit", _truth, True),
        "send_errors": _own("errors.transmit", _truth, True),
        "worker_plugin": _own("workers.plugin", _truth, True),
    }


def normalise_server(text: Any) -> str:
    """The address reports are sent below: with a scheme, without a slash at the end."""
    text = str(text).strip()
    if "://" not in text:
        text = "http://" + text
    return text.partition("?")[0].partition("#")[0].rstrip("/")


def what_is_missing(settings: Mapping[str, Any]) -> Optional[str]:
    """Why these settings do not allow to report anything, as a sentence; None when they do."""
    server, token = settings["server"], settings["token"]
    if not server:
        return "no server is configured: set galvo.server (DASK_GALVO__SERVER) to its address"
    try:
        address = urlsplit(server)
        usable = address.scheme in ("http", "https") and address.hostname and address.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in server:
        return "galvo.server is not an http or https address, free of user names and passwords"
    if not token:
        return "no token is configured: set galvo.token (DASK_GALVO__TOKEN)"
    # Anything else cannot stand in an HTTP header, and the complaint would show the token.
    if not re.match(r"[!-~]+\Z", token):
        return "galvo.token contains spaces or characters that a token never has"
    return None


def _configured(*names: str) -> Any:
    values = (dask.config.get(name, None) for name in names)
    return next((value for value in values if value is not None and value != ""), None)


def server_of_module(name: str) -> Optional[str]:
    """The server this very text came from, when the module is named after its address."""
    if not re.match(r"https?://", name):
        return None
    # Slashes are doubled when the configured address ends in one.
    found = re.match(r"(.+?)/*" + PRELOAD_PATH + r"/*(?:[?#].*)?\Z", name)
    return found.group(1) if found else None


def _shared(name: str, read: Callable[[Any], Any], default: Any) -> Any:
    """A setting that the coiled package knows too."""
    return _read(["galvo." + name, "coiled.analytics." + name], read, default)


def _own(name: str, read: Callable[[Any], Any], default: Any) -> Any:
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


def _truth(value: Any) -> bool:
    word = str(value).strip().lower()
    if word not in TRUE + FALSE:
        raise ValueError("neither true nor false")
    return word in TRUE


def _seconds(value: Any) -> float:
    if isinstance(value, bool):
        raise ValueError("not a duration")
    seconds = float(parse_timedelta(value, default="s"))
    if not math.isfinite(seconds) or seconds < 0:
        raise ValueError("a duration must be finite and not negative")
    return seconds


def _interval(value: Any) -> float:
    return clamp_interval(_seconds(value))


def _profile_interval(value: Any) -> float:
    return min(max(_seconds(value), SHORTEST_PROFILE_INTERVAL), LONGEST_PROFILE_INTERVAL)


def _timeout(value: Any) -> Optional[float]:
    return _seconds(value) or None


def _topics(value: Any) -> List[str]:
    if isinstance(value, str):
        value = [topic.strip() for topic in value.split(",") if topic.strip()]
    if not isinstance(value, (list, tuple)) or not all(isinstance(t, str) for t in value):
        raise ValueError("not a list of topics")
    return list(value)


def clamp_interval(seconds: float) -> float:
    if not math.isfinite(seconds):
        raise ValueError("an interval must be finite")
    return min(max(float(seconds), SHORTEST_INTERVAL), LONGEST_INTERVAL)
