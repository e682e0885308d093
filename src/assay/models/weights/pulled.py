"""GGUF files that the user pulled: downloaded or linked into the cache, under a name, with their SHA-256.

    pull_model("https://example.org/model.gguf", name="tiny", sha256="", say=print)
    find_pulled("tiny").check()      # raises UsageError if a file is not as it was pulled

`models/NAME.json` in the cache describes a model and is written last. Without it the model does not exist. Without
--sha256 the hash of the first pull is recorded, so that later changes are found.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

import msgspec

from assay.core.errors import UsageError
from assay.core.hashing import file_sha256
from assay.models.weights.download import Download
from assay.models.weights.gguf import MAGIC, part_files, part_names, read_header
from assay.models.weights.wheel import KNOWN, cache_folder

Say = Callable[[str], None]
_NAME = re.compile(r"[A-Za-z0-9][\w.+-]{0,99}", re.ASCII)
_SHA256 = re.compile(r"[0-9a-f]{64}")
_PART_END = re.compile(r"-\d{5}-of-\d{5}$")


class PulledFile(msgspec.Struct, frozen=True):
    """One file of a model, beside the description."""

    name: str
    size: int
    sha256: str


class PulledModel(msgspec.Struct, frozen=True):
    """A model in the cache. It has several files if its GGUF is split into parts. `source` is the URL or the path."""

    name: str
    source: str
    files: list[PulledFile]

    @property
    def path(self) -> Path:
        """The first file, which is the one that llama.cpp gets."""
        return _folder() / self.files[0].name

    @property
    def identity(self) -> str:
        """The hash that identifies the weights."""
        return combined_sha256([file.sha256 for file in self.files])

    @property
    def size(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)

    def problem(self) -> str:
        """Return what is wrong with the files, or an empty text. Reads them all."""
        for file in self.files:
            path = _folder() / file.name
            if not path.is_file():
                return f"{path} is missing"
            if path.stat().st_size != file.size or file_sha256(path) != file.sha256:
                return f"{path} is not the file that was pulled: its SHA-256 is not {file.sha256}"
        return ""

    def check(self) -> None:
        """Raise UsageError if a file is missing or is not as it was pulled."""
        if problem := self.problem():
            raise UsageError(f"{problem}. Run: assay models pull {self.source} --name {self.name}")


def combined_sha256(digests: list[str]) -> str:
    """Return one hash for the files of a model: that of the only file, or of all hashes together."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def find_pulled(name: str) -> PulledModel | None:
    """Return the model of this name, or None. Its files are not checked."""
    if not _NAME.fullmatch(name):
        return None
    try:
        return msgspec.json.decode((_folder() / f"{name}.json").read_bytes(), type=PulledModel)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def list_pulled() -> list[PulledModel]:
    """Return all pulled models, by name."""
    models = [find_pulled(path.stem) for path in sorted(_folder().glob("*.json"))]
    return [model for model in models if model is not None]


class LocalWeights(NamedTuple):
    """One model that `local/NAME` finds by name. `sha256` is empty if the file is not there."""

    name: str
    size: int
    sha256: str
    context_length: int
    has_template: bool
    source: str


def list_local() -> list[LocalWeights]:
    """Return the known models and the pulled ones. Only headers are read, so a damaged file is listed, too."""
    known = [
        _describe(name, weights.path, weights.size, weights.sha256, weights.requirement)
        for name, weights in sorted(KNOWN.items())
    ]
    return known + [
        _describe(pulled.name, pulled.path, pulled.size, pulled.identity, pulled.source) for pulled in list_pulled()
    ]


def _describe(name: str, path: Path, size: int, sha256: str, source: str) -> LocalWeights:
    try:
        header = read_header(path)
    except (UsageError, OSError):
        return LocalWeights(name, size, "", 0, has_template=False, source=source)
    return LocalWeights(name, size, sha256, header.context_length, bool(header.chat_template), source)


def pull_model(source: str, *, name: str, sha256: str, say: Say) -> PulledModel:
    """Put a GGUF file into the cache, from a URL or a path, unless it is there. Returns its description.

    `name` may be empty: the name of the file is used. `sha256` may be empty. Raises UsageError.
    """
    is_url = "://" in source
    sha256 = sha256.lower().removeprefix("sha256:")
    if sha256 and not _SHA256.fullmatch(sha256):
        raise UsageError(f"--sha256 takes 64 hexadecimal digits, not {sha256!r}")
    if is_url and not source.startswith(("http://", "https://")):
        raise UsageError(f"{source}: assay downloads from http:// and https:// only")
    if is_url and "@" in urlsplit(source).netloc:
        raise UsageError("Remove the user and password from the URL: it is written to the cache.")
    file_name = Path(unquote(urlsplit(source).path)).name if is_url else Path(source).name
    name = name or _PART_END.sub("", file_name.removesuffix(".gguf"))
    _check_name(name)
    # A signed URL has its token after the question mark.
    stored_source = source.partition("?")[0] if is_url else str(Path(source).expanduser().absolute())
    existing = find_pulled(name)
    if existing is not None and not existing.problem():
        if existing.source != stored_source or sha256 not in ("", existing.identity):
            raise UsageError(
                f"there is already another model named {name}, from {existing.source}. "
                f"Choose another --name, or delete {_folder() / name}.json"
            )
        say(f"{name} is already there: {existing.path} (SHA-256 {existing.identity})")
        return existing

    parts = part_names(file_name)
    if sha256 and len(parts) > 1:
        raise UsageError(f"{file_name} is one of {len(parts)} parts, each with its own SHA-256. Leave --sha256 out")
    targets = [f"{name}.gguf"] if len(parts) == 1 else part_names(f"{name}-00001-of-{len(parts):05d}.gguf")
    try:
        _folder().mkdir(parents=True, exist_ok=True)
        if is_url:
            files = [
                _download(_part_url(source, number), target, sha256, say)
                for number, target in enumerate(targets, start=1)
            ]
        else:
            paths = part_files(_existing_file(source))
            files = [_adopt(path, target, sha256, say) for path, target in zip(paths, targets, strict=True)]
        model = PulledModel(name, stored_source, files)
        description = _folder() / f".{name}.json"
        description.write_bytes(msgspec.json.format(msgspec.json.encode(model)) + b"\n")
        description.replace(_folder() / f"{name}.json")
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or error
        raise UsageError(
            f"cannot write {error.filename or _folder()}: {reason}. "
            "Free some disk space, or set ASSAY_CACHE to another folder"
        ) from error
    if not sha256:
        say("No --sha256 was given, so this hash is recorded: later changes of the file are found.")
    say(f"{name} is ready: --model local/{name}")
    return model


def _part_url(url: str, number: int) -> str:
    """Return the URL of another part, given that of the first. A model in one file has only the first."""
    start, mark, end = url.rpartition("-00001-of-")
    return f"{start}-{number:05d}-of-{end}" if mark else url


def _check_name(name: str) -> None:
    if name in KNOWN:
        raise UsageError(f"{name} is the name of a model that assay knows. Choose another --name")
    if not _NAME.fullmatch(name):
        raise UsageError(f"{name!r} cannot be a model's name: use letters, digits, and the characters . _ + -")


def _existing_file(source: str) -> Path:
    path = Path(source).expanduser()
    if not path.is_file():
        hint = f". Known models: {', '.join(sorted(KNOWN))}" if path.name == source else ""
        raise UsageError(f"{source}: there is no such file{hint}")
    return path


def _adopt(path: Path, target_name: str, sha256: str, say: Say) -> PulledFile:
    """Link or copy a local file into the cache."""
    read_header(path)  # raises if this is no GGUF file
    digest = file_sha256(path)
    if sha256 and digest != sha256:
        raise UsageError(f"the SHA-256 of {path} is {digest}, not {sha256}. Nothing was written")
    target = _folder() / target_name
    temporary = _folder() / f".{target_name}.new"
    temporary.unlink(missing_ok=True)
    try:
        os.link(path.resolve(), temporary)
        verb = "linked"
    except OSError:  # another disk, or a file system without hard links
        shutil.copyfile(path, temporary)
        verb = "copied"
    temporary.replace(target)
    # If target and temporary are links of one file already, rename does nothing and leaves both.
    temporary.unlink(missing_ok=True)
    say(f"{verb} {path} to {target}")
    say(f"SHA-256 {digest}")
    return PulledFile(target_name, target.stat().st_size, digest)


def _download(url: str, target_name: str, sha256: str, say: Say) -> PulledFile:
    target = _folder() / target_name
    part = _folder() / f".{target_name}.part"
    with Download(url, part, MAGIC, say) as download:
        digest = download.run()
        if sha256 and digest != sha256:
            download.discard()
            raise UsageError(
                f"the SHA-256 of {url.partition('?')[0]} is {digest}, not {sha256}. The download was deleted"
            )
        try:
            read_header(part)
        except UsageError:
            download.discard()
            raise
        download.finish(target)
    say(f"SHA-256 {digest}")
    return PulledFile(target_name, target.stat().st_size, digest)


def _folder() -> Path:
    return cache_folder() / "models"
