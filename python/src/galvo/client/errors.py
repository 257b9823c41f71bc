"""What can go wrong when Galvo is asked for something."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class GalvoError(Exception):
    """Galvo was asked for something, and it did not happen. No message ever shows a token.

    Attributes
    ----------
    codes:
        What the server says is wrong, for programs: stable words such as ``"NOT_FOUND"``. Empty
        when it was not the server that said so.
    """

    def __init__(self, message: str, codes: Sequence[str] = ()):
        super().__init__(message)
        self.codes = tuple(codes)

    @property
    def code(self) -> str | None:
        """The first of the codes, which mostly is the only one."""
        return self.codes[0] if self.codes else None

    @property
    def passes(self) -> bool:
        """Whether the same may well be answered some time later."""
        return False


class NotConfigured(GalvoError, ValueError):
    """A setting is missing, or is none that can be used; the message names it."""


class ServerUnreachable(GalvoError):
    """The server cannot be reached, does not answer in time, or broke off in the middle."""

    @property
    def passes(self) -> bool:
        return True


class RequestRefused(GalvoError):
    """The server does not do what it was asked for.

    Attributes
    ----------
    status:
        The status of the answer, as HTTP has it.
    """

    def __init__(self, message: str, codes: Sequence[str] = (), status: int = 200):
        super().__init__(message, codes)
        self.status = status

    @property
    def passes(self) -> bool:
        # Also said by what stands in front of a server that is being started again.
        return self.status in (429, 502, 503, 504)


class GraphQLError(RequestRefused):
    """A GraphQL request was answered with errors.

    Attributes
    ----------
    errors:
        The errors as the server wrote them: ``message``, ``path``, ``locations`` and
        ``extensions``, whose ``code`` stands in ``codes``, too.
    data:
        What was answered all the same; None when nothing ran.
    """

    def __init__(
        self,
        errors: Sequence[Mapping[str, Any]],
        data: Mapping[str, Any] | None = None,
        status: int = 200,
    ):
        self.errors = list(errors)
        self.data = data
        codes = [code_of(error) for error in self.errors]
        found = [code for code in codes if code is not None]
        super().__init__("; ".join(describe(error) for error in self.errors), found, status)


class NotFound(GalvoError, LookupError):
    """There is no such thing in the account."""


class NotImportable(GalvoError, ValueError):
    """A file cannot be imported, and nothing of it was; the message says what is wrong with it."""


class MissingPackage(GalvoError, ImportError):
    """A package is needed for this that is not installed; the message says how to get it."""


def code_of(error: Mapping[str, Any]) -> str | None:
    """The code of an error of GraphQL."""
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, Mapping) else None
    return code if isinstance(code, str) else None


def describe(error: Mapping[str, Any]) -> str:
    """An error of GraphQL as one line: what is wrong, where, and its code."""
    message = str(error.get("message", "an error without a message"))
    path = error.get("path")
    place = " at " + ".".join(map(str, path)) if isinstance(path, list) and path else ""
    code = code_of(error)
    return message + place + (f" ({code})" if code else "")
