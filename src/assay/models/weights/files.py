"""The files of a model on this disk: where they are, whether they are complete, and the hash of their content.

    folder = find_folder("Qwen/Qwen2.5-0.5B", "main")    # a folder, or a name in the cache of huggingface_hub
    hash_model(folder)                                   # the identity of the weights, of all files
    hash_folders([folder])                               # the same, of those that transformers may read

Every provider that reads weights identifies them here: `hf/`, `local/`, `llama-server/`, `vllm/`, `sglang/` and
--serve. Files are hashed whole, since edited weights may differ in one tensor. The hashes of large files are cached.
"""

from __future__ import annotations

import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.core.events import notice
from assay.core.hashing import file_sha256
from assay.files.write import write_whole
from assay.models.weights.gguf import part_files

# Files from this size on have their hash cached: a model of 16 GB takes ten seconds or more to hash.
_CACHED_BYTES = 64_000_000
# Files that transformers may read: configuration, tokenizer, chat template, weights, and the model's own code.
_READ_SUFFIXES = frozenset({".json", ".jinja", ".model", ".txt", ".tiktoken", ".py", ".safetensors"})
# transformers reads these weights only where there are no safetensors.
_OLD_WEIGHTS = frozenset({".bin", ".pt", ".pth"})
# A file that was written again within a tick of the file system's clock has the same times as before. The hash of a
# younger file is not cached.
_SETTLED_SECONDS = 2.0


def cache_folder() -> Path:
    """Return the cache folder: $ASSAY_CACHE, else $XDG_CACHE_HOME/assay, else ~/.cache/assay."""
    assay_cache = os.environ.get("ASSAY_CACHE")
    return Path(assay_cache) if assay_cache else _user_cache() / "assay"


def _user_cache() -> Path:
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return Path(user_cache) if user_cache else Path.home() / ".cache"


def find_snapshot(name: str, revision: str = "main") -> Path | None:
    """Return the folder of a model of the hub in the cache of huggingface_hub, or None. Nothing is downloaded."""
    repository = hub_cache() / f"models--{name.replace('/', '--')}"
    commit = revision
    with suppress(OSError, UnicodeDecodeError):
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    snapshot = repository / "snapshots" / commit
    return snapshot if commit and snapshot.is_dir() else None


def hub_cache() -> Path:
    """Return the folder in which huggingface_hub keeps downloaded models, by its environment variables."""
    if cache := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(cache).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    return _user_cache() / "huggingface" / "hub"


def find_folder(name: str, revision: str = "main", what: str = "hf") -> Path:
    """Return the folder of a model: the path `name`, else the snapshot of that name in the cache.

    Raises UsageError if there is none. `what` begins the message.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_file():
        raise UsageError(f"{what}/{name} is a file. Name the folder with config.json, as save_pretrained writes it")
    if snapshot := find_snapshot(name, revision):
        return snapshot
    cache = hub_cache()
    if (cache / f"models--{name.replace('/', '--')}").is_dir():
        raise UsageError(f"{what}/{name}: the cache {cache} has no revision {revision!r} of this model")
    raise UsageError(
        f"{what}/{name}: there is no such folder, and the cache {cache} has no such model. assay downloads nothing "
        f"during a run; fetch it first: hf download {name}"
    )


def check_folder(folder: Path) -> None:
    """Raise UsageError if config.json is missing or damaged, or if there are no weights."""
    path = folder / "config.json"
    try:
        msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(f"{folder} has no config.json, so it is not the folder of a transformers model") from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not any(file.suffix in _OLD_WEIGHTS or file.suffix == ".safetensors" for file in _transformers_files(folder)):
        raise UsageError(f"{folder} has no weights (*.safetensors or *.bin); the download may be incomplete")


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer in this folder can format messages."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    with suppress(OSError, msgspec.DecodeError):
        config = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes(), type=dict[str, Any])
        return bool(config.get("chat_template"))
    return False


def hash_model(path: Path) -> str:
    """Return the SHA-256 over names and contents of a model: a file, or a folder with everything below it.

    A GGUF file that is the first of several parts counts with all of them. Hidden files, such as those that a download
    leaves, do not count. Raises UsageError if a part is missing.
    """
    if path.is_file():
        return hash_files({str(number): part for number, part in enumerate(part_files(path))})
    names = {file.relative_to(path): file for file in path.rglob("*") if file.is_file()}
    shown = {
        name.as_posix(): file for name, file in names.items() if not any(part.startswith(".") for part in name.parts)
    }
    return hash_files(dict(sorted(shown.items())))


def hash_folders(folders: list[Path]) -> str:
    """Return the SHA-256 over the names and contents of all files that transformers may read in the folders."""
    files = {
        f"{number}/{path.name}": path for number, folder in enumerate(folders) for path in _transformers_files(folder)
    }
    return hash_files(files)


def _transformers_files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    has_safetensors = any(path.suffix == ".safetensors" for path in files)
    suffixes = _READ_SUFFIXES if has_safetensors else _READ_SUFFIXES | _OLD_WEIGHTS
    return [path for path in files if path.suffix in suffixes]


def hash_files(files: Mapping[str, Path]) -> str:
    """Return the SHA-256 over the names and contents of files, in the order of the mapping."""
    digest = hashlib.sha256()
    for name, sha256 in zip(files, read_hashes(files.values()), strict=True):
        digest.update(f"{name}\0{sha256}\n".encode())
    return digest.hexdigest()


def read_hashes(paths: Iterable[Path]) -> list[str]:
    """Return the SHA-256 of each file. That of a large file is computed again only after the file has changed."""
    cache = _HashCache(cache_folder() / "model-hashes.json")
    hashes = [cache.sha256(path) for path in paths]
    cache.save()
    return hashes


class _KnownHash(msgspec.Struct, frozen=True):
    """The hash of a file and the state that the file had: inode, size and times. A rewritten file has another state."""

    state: str
    sha256: str


class _HashCache:
    """Hashes of large files, by path."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, _KnownHash] = {}
        self._changed = False
        # A missing or damaged cache only costs time.
        with suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, _KnownHash])

    def sha256(self, path: Path) -> str:
        real = path.resolve()
        size = real.stat().st_size
        if size < _CACHED_BYTES:
            return file_sha256(real)
        state = _state(real)
        known = self._known.get(str(real))
        if known is not None and known.state == state:
            return known.sha256
        notice(f"hashing {path.name} ({size / 1e9:.1f} GB), once")
        sha256 = file_sha256(real)
        stat = real.stat()
        is_settled = time.time() - max(stat.st_mtime, stat.st_ctime) > _SETTLED_SECONDS
        if is_settled and _state(real) == state:
            self._known[str(real)] = _KnownHash(state, sha256)
            self._changed = True
        return sha256

    def save(self) -> None:
        """Write the cache, if it changed. A folder that cannot be written costs only time."""
        if self._changed:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._path, msgspec.json.encode(self._known))


def _state(path: Path) -> str:
    stat = path.stat()
    return f"{stat.st_dev}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
