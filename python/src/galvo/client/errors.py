"""The exceptions of the client."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class GalvoError(Exception):
    """The base class of the client's errors. No message contains a token.

    Attributes
    ----------
    codes:
        The server's stable error codes, such as ``"NOT_FOUND"``. Empty if the error does not come
        from the server.
    """

    def __init__(self, message: str, codes: Sequence[str] = ()):
        super().__init__(message)
        self.codes = tuple(codes)

    @property
    def code(self) -> str | None:
        """The first of the codes, usually the only one. None if there is none."""
        return self.codes[0] if self.codes else None

    @property
    def passes(self) -> bool:
        """True if the same request may succeed later."""
        return False


class NotConfigured(GalvoError, ValueError):
    """A setting is missing or unusable. The message names it."""


class ServerUnreachable(GalvoError):
    """The server cannot be reached, does not respond in time, or closed the connection in the
    middle of a response.
    """

    @property
    def passes(self) -> bool:
        return True


class RequestRefused(GalvoError):
    """The server refused the request.

    Attributes
    ----------
    status:
        The HTTP status of the response.
    """

    def __init__(self, message: str, codes: Sequence[str] = (), status: int = 200):
        super().__init__(message, codes)
        self.status = status

    @property
    def passes(self) -> bool:
        # A proxy in front of a restarting server returns these, too.
        return self.status in (429, 502, 503, 504)


class GraphQLError(RequestRefused):
    """The response to a GraphQL request contains errors.

    Attributes
    ----------
    errors:
        The errors as the server wrote them: ``message``, ``path``, ``locations`` and
        ``extensions``. The ``code`` in ``extensions`` is also in ``codes``.
    data:
        The partial result. None if nothing was executed.
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
        known_codes = [code for code in codes if code is not None]
        super().__init__("; ".join(describe(error) for error in self.errors), known_codes, status)


class NotFound(GalvoError, LookupError):
    """The account has no such object."""


class NotImportable(GalvoError, ValueError):
    """A file cannot be imported, and no part of it was.

    The message states what is wrong with it.
    """


class MissingPackage(GalvoError, ImportError):
    """A required package is not installed. The message states how to install it."""


def code_of(error: Mapping[str, Any]) -> str | None:
    """Returns the code of a GraphQL error; None if it has none."""
    extensions = error.get("extensions")
    code = extensions.get("code") if isinstance(extensions, Mapping) else None
    return code if isinstance(code, str) else None


def describe(error: Mapping[str, Any]) -> str:
    """Formats a GraphQL error as one line: message, path and code."""
    message = str(error.get("message", "an error without a message"))
    path = error.get("path")
    location = " at " + ".".join(map(str, path)) if isinstance(path, list) and path else ""
    code = code_of(error)
    return message + location + (f" ({code})" if code else "")
