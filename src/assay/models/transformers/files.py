"""The files of a Hugging Face model: where they are, whether they are complete, and the hash of their content.

    folder = find_folder("Qwen/Qwen2.5-0.5B", "main")    # a folder, or a name in the cache of huggingface_hub
    hash_files([folder])                                 # the identity of the weights

Nothing is downloaded.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.core.events import notice
from assay.core.files import write_whole
from assay.core.hashing import file_sha256
from assay.models.llama.weights import cache_folder

# Files that transformers may read: configuration, tokenizer, chat template, weights, and the model's own code.
_READ_SUFFIXES = frozenset({".json", ".jinja", ".model", ".txt", ".tiktoken", ".py", ".safetensors"})
# transformers reads these weights only where there are no safetensors.
_OLD_WEIGHTS = frozenset({".bin", ".pt", ".pth"})
# Files from this size on have their hash cached: a model of 16 GB takes ten seconds or more to hash.
_CACHED_BYTES = 64_000_000


def find_folder(name: str, revision: str = "main", what: str = "hf") -> Path:
    """Return the folder of a model: the path `name`, else the snapshot of that name in the cache.

    Raises UsageError if there is none. `what` begins the message.
    """
    path = Path(name).expanduser()
    if path.is_dir():
        return path.resolve()
    if path.is_file():
        raise UsageError(
            f"{what}/{name} is a file. Name the folder with config.json, as save_pretrained writes it"
        )
    cache = _hub_cache()
    repository = cache / f"models--{name.replace('/', '--')}"
    commit = revision
    with suppress(OSError):
        commit = (repository / "refs" / revision).read_text(encoding="utf-8").strip()
    snapshot = repository / "snapshots" / commit
    if snapshot.is_dir():
        return snapshot
    if repository.is_dir():
        raise UsageError(f"{what}/{name}: the cache {cache} has no revision {revision!r} of this model")
    raise UsageError(
        f"{what}/{name}: there is no such folder, and the cache {cache} has no such model. assay downloads nothing "
        f"during a run; fetch it first: hf download {name}"
    )


def _hub_cache() -> Path:
    """Return the folder in which huggingface_hub keeps downloaded models, by its environment variables."""
    if cache := os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE"):
        return Path(cache).expanduser()
    if home := os.environ.get("HF_HOME"):
        return Path(home).expanduser() / "hub"
    user_cache = os.environ.get("XDG_CACHE_HOME")
    return (Path(user_cache) if user_cache else Path.home() / ".cache") / "huggingface" / "hub"


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json. Raises UsageError if it is missing or damaged, or if there are no weights."""
    path = folder / "config.json"
    try:
        config = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(
            f"{folder} has no config.json, so it is not the folder of a transformers model"
        ) from None
    except (OSError, msgspec.DecodeError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from None
    if not any(file.suffix in _OLD_WEIGHTS or file.suffix == ".safetensors" for file in _files(folder)):
        raise UsageError(f"{folder} has no weights (*.safetensors or *.bin); the download may be incomplete")
    return config


def has_chat_template(folder: Path) -> bool:
    """Return whether the tokenizer in this folder can format messages."""
    if (folder / "chat_template.jinja").is_file() or (folder / "chat_template.json").is_file():
        return True
    with suppress(OSError, msgspec.DecodeError):
        config = msgspec.json.decode((folder / "tokenizer_config.json").read_bytes(), type=dict[str, Any])
        return bool(config.get("chat_template"))
    return False


def hash_files(folders: list[Path]) -> str:
    """Return the SHA-256 over the names and contents of all files that transformers may read in the folders."""
    digest = hashlib.sha256()
    hashes = _HashCache(cache_folder() / "model-hashes.json")
    for folder in folders:
        for path in _files(folder):
            digest.update(f"{path.name}\0{hashes.sha256(path)}\n".encode())
    hashes.save()
    return digest.hexdigest()


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    has_safetensors = any(path.suffix == ".safetensors" for path in files)
    suffixes = _READ_SUFFIXES if has_safetensors else _READ_SUFFIXES | _OLD_WEIGHTS
    return [path for path in files if path.suffix in suffixes]


class _HashCache:
    """Hashes of large files, by path, inode, size and times. A rewritten file has another change time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: dict[str, str] = {}
        self._changed = False
        # A missing or damaged cache only costs time.
        with suppress(OSError, msgspec.DecodeError):
            self._known = msgspec.json.decode(path.read_bytes(), type=dict[str, str])

    def sha256(self, path: Path) -> str:
        real = path.resolve()
        stat = real.stat()
        if stat.st_size < _CACHED_BYTES:
            return file_sha256(real)
        key = f"{real}:{stat.st_ino}:{stat.st_size}:{stat.st_mtime_ns}:{stat.st_ctime_ns}"
        if key not in self._known:
            notice(f"hashing {real.name} ({stat.st_size / 1e9:.1f} GB), once")
            self._known[key] = file_sha256(real)
            self._changed = True
        return self._known[key]

    def save(self) -> None:
        """Write the cache, if it changed. A folder that cannot be written costs only time."""
        if self._changed:
            with suppress(OSError):
                self._path.parent.mkdir(parents=True, exist_ok=True)
                write_whole(self._path, msgspec.json.encode(self._known))
