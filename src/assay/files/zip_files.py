"""Reads zip archives that other programs wrote: bounded in size, with deflate and zstd, and never onto the disk.

    with ZipArchive(path) as archive:
        header = decode_json(archive.read("header.json"), archive.where("header.json"))

The names in an archive are only looked up, so a name such as `../../etc/passwd` leads nowhere. Every size that the
archive declares is checked before anything is unpacked.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from pathlib import Path
from types import TracebackType
from typing import Self

from assay.core.errors import InputError, MissingExtra, Problem, unreadable
from assay.files.read import BY_PROGRAMS

_ZSTD = 93  # the number of the method in the zip format
_MAX_MEMBERS = 5_000_000
_MAX_RATIO = 200
"""Unpacked bytes for each byte of the archive. Logs of real agents reach about 50; a zip bomb exceeds 1,000."""
_RATIO_FROM = 1 << 28  # smaller archives may have any ratio: a few equal samples compress well
_LOCAL_HEADER_BYTES = 30
_ENCRYPTED = 1  # bit of the flags


class ZipArchive:
    """An open archive. Raises InputError if it is no archive, damaged, encrypted, or unpacks to too much."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            self._zip = zipfile.ZipFile(path)
        except OSError as error:
            raise InputError(unreadable(path, error)) from None
        except (zipfile.BadZipFile, ValueError, NotImplementedError, EOFError) as error:
            raise InputError(
                Problem(str(path), f"is no complete zip archive: {error}. Was it copied while it was written?")
            ) from None
        # A member that was written twice counts once, with its last content: Inspect appends new headers.
        self._members = {member.filename: member for member in self._zip.infolist()}
        try:
            self._check_sizes()
        except InputError:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._zip.close()

    def _check_sizes(self) -> None:
        members = self._zip.infolist()
        size = self.path.stat().st_size
        unpacked = sum(member.file_size for member in members)
        if len(members) > _MAX_MEMBERS:
            raise InputError(Problem(str(self.path), f"has {len(members):,} members; {_MAX_MEMBERS:,} are read"))
        if sum(member.compress_size for member in members) > size:
            raise InputError(Problem(str(self.path), "its members overlap, so the archive is damaged or hostile"))
        if unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * size:
            raise InputError(Problem(str(self.path), f"unpacks from {size:,} to {unpacked:,} bytes, which is not read"))

    def names(self) -> list[str]:
        """Return the names of the members, in the order of the archive."""
        return list(self._members)

    def __contains__(self, name: str) -> bool:
        return name in self._members

    def where(self, name: str) -> str:
        """Return the place of a member, for messages."""
        return f"{self.path}:{name}"

    def read(self, name: str) -> bytes:
        """Return the content of a member. Raises InputError if it is too large, damaged or encrypted."""
        member = self._members[name]
        if member.file_size > BY_PROGRAMS.line:
            raise InputError(
                Problem(self.where(name), f"has {member.file_size:,} bytes; {BY_PROGRAMS.line:,} are read")
            )
        if member.flag_bits & _ENCRYPTED:
            raise InputError(Problem(self.where(name), "is encrypted"))
        try:
            if member.compress_type == _ZSTD:
                return self._read_zstd(member)
            with self._zip.open(member) as file:
                # One byte more than declared: a member that unpacks to more is damaged.
                content = file.read(member.file_size + 1)
        except (zipfile.BadZipFile, zlib.error, EOFError, OSError) as error:
            raise InputError(Problem(self.where(name), f"is damaged: {error}")) from None
        except (NotImplementedError, RuntimeError) as error:
            raise InputError(Problem(self.where(name), f"cannot be unpacked: {error}")) from None
        return content

    def _read_zstd(self, member: zipfile.ZipInfo) -> bytes:
        try:
            import zstandard
        except ImportError:
            raise MissingExtra(f"{self.path} is compressed with zstd, which", "inspect") from None
        file = self._zip.fp
        assert file is not None
        file.seek(member.header_offset)
        header = file.read(_LOCAL_HEADER_BYTES)
        if len(header) < _LOCAL_HEADER_BYTES or header[:4] != b"PK\x03\x04":
            raise zipfile.BadZipFile("there is no member at its place")
        name_length, extra_length = (int.from_bytes(header[at : at + 2], "little") for at in (26, 28))
        file.seek(name_length + extra_length, io.SEEK_CUR)
        packed = file.read(member.compress_size)
        # Inspect writes large members as several frames.
        reader = zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(packed, read_across_frames=True)
        try:
            content = reader.read(member.file_size + 1)
        except zstandard.ZstdError as error:
            raise zipfile.BadZipFile(str(error)) from None
        if len(content) != member.file_size or zlib.crc32(content) != member.CRC:
            raise zipfile.BadZipFile("its checksum does not match")
        return content
