"""Removes users' tokens from the configuration of processes that only run Dask.

Dask hands a client's configuration to the schedulers, workers and nannies that it starts, and
everyone who runs code there could read a token in it. Workers and nannies need no token, and a
scheduler only that of its plugin. A user's program or notebook keeps its token.
"""

import os
import sys
from contextlib import suppress
from typing import Any, Collection, Dict, Iterable, Iterator, Mapping, Optional, Set
from urllib.parse import urlsplit

import dask.config

from .identity import fingerprint

SETTINGS = ("galvo.token", "coiled.token")
# The variable in which Dask passes its configuration to the processes that it starts, and the
# setting that Dask makes of it, like of all variables.
INHERITED, INHERITED_SETTING = "DASK_INTERNAL_INHERIT_CONFIG", "internal_inherit_config"
# Dask's commands that run a scheduler, workers or nannies, and nothing of a user.
COMMANDS = (
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_spec",
    "distributed.cli.dask_worker",
)
# The domain of Coiled's own servers. Their tokens are none of Galvo's.
COILED = "coiled.io"
# Shorter ones are placeholders. What has the same text is no token.
SHORTEST_TOKEN = 8


def runs_only_dask() -> bool:
    """True if this process is one of Dask's commands, and not a user's program or notebook."""
    # A module that ``python -m`` runs has another name in ``sys.modules``.
    program = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return program in COMMANDS or any(name in sys.modules for name in COMMANDS)


def find(known: Collection[Any] = (), *others: Mapping[str, Any]) -> Set[str]:
    """Returns the tokens of Galvo servers in the configuration of this process, and in ``others``.

    ``coiled.token`` is one if it is for a Galvo server, or if its fingerprint is known.
    """
    found: Set[str] = set()
    for config in _all((dask.config.config, *_of_variables(os.environ), *others)):
        token, other = (_text(config, name) for name in SETTINGS)
        if token:
            found.add(token)
        if other and (fingerprint(other) in known or _is_galvo(_host(config, "coiled.server"))):
            found.add(other)
    return {token for token in found if len(token) >= SHORTEST_TOKEN}


def remove(tokens: Collection[str]) -> None:
    """Removes these tokens from the configuration and the environment of this process."""
    if not tokens:
        return
    for name in SETTINGS:
        if _text(dask.config.config, name) in tokens:
            dask.config.set({name: None})
    with dask.config.config_lock:
        _remove_from(dask.config.config, tokens)
    kept = without_variables(os.environ, tokens)
    for variable in list(os.environ):
        if variable not in kept:
            del os.environ[variable]
        elif kept[variable] != os.environ[variable]:
            os.environ[variable] = kept[variable]


def remove_from_nanny(nanny: Any, known: Collection[Any]) -> None:
    """Removes tokens from what a nanny hands to the workers that it starts.

    The nanny may be in the process of a user, which keeps its own configuration.
    """
    handed = [
        (holder, name, getattr(holder, name))
        for holder in (nanny, getattr(nanny, "process", None))
        for name in ("config", "env", "pre_spawn_env")
        if isinstance(getattr(holder, name, None), dict)
    ]
    configs = [
        config
        for _, name, value in handed
        for config in ([value] if name == "config" else _of_variables(value))
    ]
    tokens = find(known, *configs)
    for holder, name, value in handed:
        take_out = without if name == "config" else without_variables
        setattr(holder, name, take_out(value, tokens))


def without(held: Any, tokens: Collection[str]) -> Any:
    """Returns a copy of nested dicts and lists without these tokens."""
    if isinstance(held, dict):
        return {
            key: _without_inherited(value, tokens) if _is_inherited(key) else without(value, tokens)
            for key, value in held.items()
            if not _is(value, tokens)
        }
    if isinstance(held, list):
        return [without(value, tokens) for value in held if not _is(value, tokens)]
    return held


def _remove_from(config: Dict[str, Any], tokens: Collection[str]) -> None:
    """Removes these tokens, and touches nothing else: others read and change it meanwhile."""
    for key, value in list(config.items()):
        if isinstance(value, dict):
            _remove_from(value, tokens)
            continue
        kept = without({key: value}, tokens)
        if key not in kept:
            config.pop(key, None)
        elif kept[key] != value:
            config[key] = kept[key]


def without_variables(environment: Mapping[str, str], tokens: Collection[str]) -> Dict[str, str]:
    """Returns a copy of environment variables without these tokens."""
    return {
        variable: _without_inherited(value, tokens) if variable == INHERITED else value
        for variable, value in environment.items()
        # Dask reads variables as Python's literals.
        if not _is(str(value).strip().strip("\"'"), tokens)
    }


def _is_inherited(key: Any) -> bool:
    """True for the key of a serialized configuration: of a setting, or of a variable."""
    name = str(key).lower().replace("-", "_")
    return name in (INHERITED_SETTING, INHERITED.lower())


def _is_galvo(server: Optional[str]) -> bool:
    """True for the host in ``coiled.server`` if the coiled package reports to a Galvo server."""
    if not server or server == COILED or server.endswith("." + COILED):
        return False
    return _host(dask.config.config, "galvo.server") in (None, server)


def _host(config: Mapping[str, Any], name: str) -> Optional[str]:
    address = _text(config, name) or _text(dask.config.config, name)
    if not address:
        return None
    with suppress(ValueError):
        return urlsplit(address if "//" in address else "//" + address).hostname
    return None


def _without_inherited(serialized: Any, tokens: Collection[str]) -> Any:
    config = _deserialized(serialized)
    kept = without(config, tokens)
    return serialized if kept == config else dask.config.serialize(kept)


def _deserialized(serialized: Any) -> Any:
    try:
        return dask.config.deserialize(serialized)
    except Exception:
        return None


def _of_variables(environment: Mapping[str, str]) -> Iterator[Any]:
    """Returns the configurations that Dask makes of environment variables."""
    yield _deserialized(environment.get(INHERITED))
    variables = {key: value for key, value in environment.items() if key != INHERITED}
    with suppress(Exception):
        yield dask.config.collect_env(variables)


def _all(configs: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
    """Returns these configurations, and those that they were inherited from."""
    for config in configs:
        while isinstance(config, Mapping):
            yield config
            config = _deserialized(dask.config.get(INHERITED_SETTING, None, config=config))


def _text(config: Mapping[str, Any], name: str) -> Optional[str]:
    try:
        value = dask.config.get(name, None, config=config)
    except (TypeError, AttributeError):  # a section that is no mapping
        return None
    return str(value).strip() if value else None


def _is(value: Any, tokens: Collection[str]) -> bool:
    return isinstance(value, str) and value.strip() in tokens
