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
# Shorter texts are placeholders, and other settings may have the same value.
SHORTEST_TOKEN = 8


def runs_only_dask() -> bool:
    """True if this process is one of Dask's commands, and not a user's program or notebook."""
    # A module that ``python -m`` runs has another name in ``sys.modules``.
    program = getattr(getattr(sys.modules.get("__main__"), "__spec__", None), "name", None)
    return program in COMMANDS or any(name in sys.modules for name in COMMANDS)


def find_tokens(fingerprints: Collection[Any] = (), *others: Mapping[str, Any]) -> Set[str]:
    """Returns the tokens of Galvo servers in the configuration of this process, and in ``others``.

    ``coiled.token`` is one if it is for a Galvo server, or if its fingerprint is known.
    """
    tokens: Set[str] = set()
    for config in _with_inherited((dask.config.config, *_variable_configs(os.environ), *others)):
        token, coiled_token = (_text(config, name) for name in SETTINGS)
        if token:
            tokens.add(token)
        if coiled_token and (
            fingerprint(coiled_token) in fingerprints or _is_galvo(_host(config, "coiled.server"))
        ):
            tokens.add(coiled_token)
    return {token for token in tokens if len(token) >= SHORTEST_TOKEN}


def remove_tokens(tokens: Collection[str]) -> None:
    """Removes these tokens from the configuration and the environment of this process."""
    if not tokens:
        return
    for name in SETTINGS:
        if _text(dask.config.config, name) in tokens:
            dask.config.set({name: None})
    with dask.config.config_lock:
        _remove_from(dask.config.config, tokens)
    cleaned = clean_variables(os.environ, tokens)
    for variable in list(os.environ):
        if variable not in cleaned:
            del os.environ[variable]
        elif cleaned[variable] != os.environ[variable]:
            os.environ[variable] = cleaned[variable]


def remove_tokens_from_nanny(nanny: Any, fingerprints: Collection[Any]) -> None:
    """Removes tokens from what a nanny hands to the workers that it starts.

    The nanny may be in the process of a user, which keeps its own configuration.
    """
    holders = [
        (holder, name, getattr(holder, name))
        for holder in (nanny, getattr(nanny, "process", None))
        for name in ("config", "env", "pre_spawn_env")
        if isinstance(getattr(holder, name, None), dict)
    ]
    configs = [
        config
        for _, name, value in holders
        for config in ([value] if name == "config" else _variable_configs(value))
    ]
    tokens = find_tokens(fingerprints, *configs)
    for holder, name, value in holders:
        clean = clean_config if name == "config" else clean_variables
        setattr(holder, name, clean(value, tokens))


def clean_config(config: Any, tokens: Collection[str]) -> Any:
    """Returns a copy of nested dicts and lists without these tokens."""
    if isinstance(config, dict):
        return {
            key: _without_inherited(value, tokens)
            if _is_inherited(key)
            else clean_config(value, tokens)
            for key, value in config.items()
            if not _is_token(value, tokens)
        }
    if isinstance(config, list):
        return [clean_config(value, tokens) for value in config if not _is_token(value, tokens)]
    return config


def _remove_from(config: Dict[str, Any], tokens: Collection[str]) -> None:
    """Removes these tokens and changes nothing else, because other threads use it meanwhile."""
    for key, value in list(config.items()):
        if isinstance(value, dict):
            _remove_from(value, tokens)
            continue
        cleaned = clean_config({key: value}, tokens)
        if key not in cleaned:
            config.pop(key, None)
        elif cleaned[key] != value:
            config[key] = cleaned[key]


def clean_variables(environment: Mapping[str, str], tokens: Collection[str]) -> Dict[str, str]:
    """Returns a copy of environment variables without these tokens."""
    return {
        variable: _without_inherited(value, tokens) if variable == INHERITED else value
        for variable, value in environment.items()
        # Dask reads variables as Python's literals.
        if not _is_token(str(value).strip().strip("\"'"), tokens)
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
    cleaned = clean_config(config, tokens)
    return serialized if cleaned == config else dask.config.serialize(cleaned)


def _deserialized(serialized: Any) -> Any:
    try:
        return dask.config.deserialize(serialized)
    except Exception:
        return None


def _variable_configs(environment: Mapping[str, str]) -> Iterator[Any]:
    """Returns the configurations that Dask makes of environment variables."""
    yield _deserialized(environment.get(INHERITED))
    variables = {key: value for key, value in environment.items() if key != INHERITED}
    with suppress(Exception):
        yield dask.config.collect_env(variables)


def _with_inherited(configs: Iterable[Any]) -> Iterator[Mapping[str, Any]]:
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


def _is_token(value: Any, tokens: Collection[str]) -> bool:
    return isinstance(value, str) and value.strip() in tokens
