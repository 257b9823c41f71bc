"""Removes users' tokens from the configuration of processes that only run Dask.

Dask hands a client's configuration to the schedulers, workers and nannies that it starts, and
everyone who runs code there could read a token in it. Workers and nannies need no token, and a
scheduler only that of its plugin. A user's program or notebook keeps its token.
"""

import os
import sys
from contextlib import suppress
from typing import Any, Collection, Dict, Iterator, Mapping, Optional, Set

import dask.config

from .identity import fingerprint

SETTINGS = ("galvo.token", "coiled.token")
# The variable in which Dask passes its configuration to the processes that it starts.
INHERITED = "DASK_INTERNAL_INHERIT_CONFIG"
# Dask's commands that run a scheduler, workers or nannies, and nothing of a user.
COMMANDS = (
    "distributed.cli.dask_scheduler",
    "distributed.cli.dask_spec",
    "distributed.cli.dask_worker",
)
# The default server of the coiled package. Its tokens are none of Galvo's.
COILED = "cloud.coiled.io"


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
    for config in (dask.config.config, *_inherited(os.environ), *others):
        token, other = (_text(config, name) for name in SETTINGS)
        server = _text(config, "coiled.server") or _text(dask.config.config, "coiled.server")
        if token:
            found.add(token)
        if other and (fingerprint(other) in known or (server and COILED not in server)):
            found.add(other)
    return found


def remove(tokens: Collection[str]) -> None:
    """Removes these tokens from the configuration and the environment of this process."""
    if not tokens:
        return
    for name in SETTINGS:
        if _text(dask.config.config, name) in tokens:
            dask.config.set({name: None})
    with dask.config.config_lock:
        for section, value in list(dask.config.config.items()):
            kept = without(value, tokens)
            if kept != value:
                dask.config.config[section] = kept
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
        for config in ([value] if name == "config" else _inherited(value))
    ]
    tokens = find(known, *configs)
    for holder, name, value in handed:
        take_out = without if name == "config" else without_variables
        setattr(holder, name, take_out(value, tokens))


def without(held: Any, tokens: Collection[str]) -> Any:
    """Returns a copy of nested dicts and lists without these tokens."""
    if isinstance(held, dict):
        return {
            key: without(value, tokens) for key, value in held.items() if not _is(value, tokens)
        }
    if isinstance(held, list):
        return [without(value, tokens) for value in held if not _is(value, tokens)]
    return held


def without_variables(environment: Mapping[str, str], tokens: Collection[str]) -> Dict[str, str]:
    """Returns a copy of environment variables without these tokens."""
    kept = {
        variable: value
        for variable, value in environment.items()
        # Dask reads variables as Python's literals.
        if not _is(str(value).strip().strip("\"'"), tokens)
    }
    with suppress(Exception):
        config = dask.config.deserialize(kept[INHERITED])
        if without(config, tokens) != config:
            kept[INHERITED] = dask.config.serialize(without(config, tokens))
    return kept


def _inherited(environment: Mapping[str, str]) -> Iterator[Dict[str, Any]]:
    """Returns the configurations in environment variables."""
    with suppress(Exception):
        yield dask.config.deserialize(environment[INHERITED])
    variables = {key: value for key, value in environment.items() if key != INHERITED}
    with suppress(Exception):
        yield dask.config.collect_env(variables)


def _text(config: Mapping[str, Any], name: str) -> Optional[str]:
    try:
        value = dask.config.get(name, None, config=config)
    except (TypeError, AttributeError):  # a section that is no mapping
        return None
    return str(value).strip() if value else None


def _is(value: Any, tokens: Collection[str]) -> bool:
    return isinstance(value, str) and value.strip() in tokens
