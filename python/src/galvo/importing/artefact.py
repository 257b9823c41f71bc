"""Reads untrusted files within bounds, and never executes them."""

from __future__ import annotations

import hashlib
import io
import zlib
from pathlib import Path
from typing import Any, BinaryIO

from galvo.client.errors import NotImportable

MEBIBYTE = 1 << 20
CHUNK = MEBIBYTE
# The bounds for the file on disk, and for its decompressed content.
MOST_BYTES, MOST_INFLATED = 4096 * MEBIBYTE, 16384 * MEBIBYTE
GZIP = b"\x1f\x8b"


class Artefact:
    """A file on disk, which may be compressed.

    Attributes
    ----------
    digest:
        The SHA-256 of the file as stored, in hexadecimal.
    beginning:
        The first bytes of the content, from which its kind is detected.
    """

    def __init__(self, path: Path):
        self.path = path
        self.digest = _digest(path)
        with self.open() as stream:
            self.beginning = stream.read(4096)

    def open(self) -> BinaryIO:
        """Returns the content as a stream that can be read once."""
        file = self.path.open("rb")
        compressed = file.read(2) == GZIP
        file.seek(0)
        return io.BufferedReader(_Inflated(file), CHUNK) if compressed else file

    def text(self, max_bytes: int) -> str:
        """Returns the content as text.

        Raises NotImportable if it exceeds ``most`` bytes or is not UTF-8.
        """
        with self.open() as stream:
            content = stream.read(max_bytes + 1)
        if len(content) > max_bytes:
            raise NotImportable(f"it is larger than {max_bytes // MEBIBYTE} MiB")
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise NotImportable(f"it is no text in UTF-8: {error}") from None


class _Inflated(io.RawIOBase):
    """The content of a compressed file. A truncated file is an error."""

    def __init__(self, file: BinaryIO):
        self._file = file
        self._inflate: Any = zlib.decompressobj(31)
        self._size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            content = self._read(len(buffer))
        except zlib.error as error:
            raise NotImportable(f"it is damaged: {error}") from None
        self._size += len(content)
        if self._size > MOST_INFLATED:
            raise NotImportable(f"there are more than {MOST_INFLATED // MEBIBYTE} MiB in it")
        buffer[: len(content)] = content
        return len(content)

    def _read(self, max_bytes: int) -> bytes:
        while True:
            if self._inflate.eof:
                compressed = self._inflate.unused_data or self._file.read(CHUNK)
                if not compressed.strip(b"\0"):
                    return b""
                self._inflate = zlib.decompressobj(31)  # another member follows
            else:
                compressed = self._inflate.unconsumed_tail or self._file.read(CHUNK)
                if not compressed:
                    raise NotImportable("it is damaged: its end is missing")
            content: bytes = self._inflate.decompress(compressed, max_bytes)
            if content:
                return content

    def close(self) -> None:
        self._file.close()
        super().close()


def _digest(path: Path) -> str:
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            size += len(chunk)
            if size > MOST_BYTES:
                raise NotImportable(f"it is larger than {MOST_BYTES // MEBIBYTE} MiB")
            digest.update(chunk)
    return digest.hexdigest()
