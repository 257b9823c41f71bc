"""Exchanges a token for one that is limited to a scheduler.

Everyone who runs code on a scheduler can read the plugin's token. So it is valid only for the
reports of this scheduler, and expires soon after the last one. A client exchanges its own token
before it sends anything. A scheduler that was configured with another token exchanges it itself,
and then discards it.
"""

import json
import re
from typing import Any, Dict, Mapping, MutableMapping, Optional

from .configured import find_tokens, remove_tokens, runs_only_dask
from .identity import fingerprint, identity
from .scrub import add_secret, remove_secret

PATH = "/api/v1/scheduler-tokens"
CREATED = 201
# Servers without token exchange do not know this path.
UNKNOWN_STATUS = (404, 405)
# The token is already bound to a scheduler.
BOUND_STATUS, BOUND_CODE = 403, "TOKEN_BOUND"
SLUG = re.compile(r"[a-z0-9][a-z0-9_-]{0,62}\Z")


def is_due(settings: Mapping[str, Any]) -> bool:
    """True if the token must be exchanged before anything is reported with it."""
    is_exchanged = settings.get("exchanged_for") or settings.get("ship_token")
    return bool(settings.get("token")) and not is_exchanged


def settings_without_token(settings: Mapping[str, Any]) -> Dict[str, Any]:
    """Returns the settings without a token, for a plugin that collects until a successor has one.

    The successor replaces it and continues from its state.
    """
    changes = {"token": None, "exchanged_for": fingerprint(settings["token"]), "awaits_token": True}
    return {**settings, **changes}


def request_headers(settings: Mapping[str, Any]) -> Dict[str, str]:
    """Returns the headers of a token request, in addition to those of every request."""
    headers = {"Content-Type": "application/json", "Accept": "application/json"}
    account = settings.get("account")
    if isinstance(account, str) and SLUG.match(account):
        headers["Galvo-Account"] = account
    return headers


def request_body(scheduler_id: Optional[str] = None) -> bytes:
    """Returns the body of a token request.

    A scheduler that sends the request itself adds its identifier, so that the server knows that the
    other token was present on the scheduler.
    """
    body = {} if scheduler_id is None else {"schedulerId": scheduler_id}
    return json.dumps(body).encode("utf-8")


def parse_response(body: Any) -> Dict[str, Any]:
    """Parses the response; empty if it is not a JSON object."""
    try:
        answer = json.loads(body)
    except (TypeError, ValueError):
        return {}
    return answer if isinstance(answer, dict) else {}


def issued_token(status: int, answer: Mapping[str, Any]) -> Optional[str]:
    """Returns the issued token; None if there is none."""
    token = answer.get("token")
    is_usable = status == CREATED and isinstance(token, str) and re.match(r"[!-~]+\Z", token)
    return token if is_usable else None


def needs_no_exchange(status: int, answer: Mapping[str, Any]) -> bool:
    """True if the token is already bound to a scheduler and must be used unchanged."""
    return status == BOUND_STATUS and answer.get("code") == BOUND_CODE


def adopt_token(settings: MutableMapping[str, Any], token: str) -> None:
    """Replaces the token by the issued one, and discards the old one in this process."""
    old_token = settings["token"]
    settings.update(token=token, exchanged_for=fingerprint(old_token))
    add_secret(token)
    forget_token(old_token)


def forget_token(token: str) -> None:
    """Removes a token from the configuration of a process that only runs a scheduler.

    In any other process, such as a notebook, it stays in use. The configuration file or environment
    variable that it came from is not changed.
    """
    remove_secret(token)
    if runs_only_dask():
        remove_tokens([token])


def forget_other_tokens(settings: Mapping[str, Any]) -> None:
    """Removes all tokens but the plugin's own from a process that only runs a scheduler.

    A client's configuration, which the scheduler may have inherited, has the token that the
    plugin's was exchanged for, or another one of the same user. Nothing on the scheduler uses it.
    """
    if runs_only_dask():
        remove_tokens(find_tokens([identity(settings)]) - {settings.get("token")})
