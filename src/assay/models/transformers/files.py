"""The files of a Hugging Face model: where they are, whether they are complete, and the hash of their content.

    folder = find_folder("Qwen/Qwen2.5-0.5B", "main")    # a folder, or a name in the cache of huggingface_hub
    hash_folders([folder])                               # the identity of the weights

Nothing is downloaded.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import UsageError
from assay.models.weights.files import find_snapshot, hash_files, hub_cache

# Files that transformers may read: configuration, tokenizer, chat template, weights, and the model's own code.
_READ_SUFFIXES = frozenset({".json", ".jinja", ".model", ".txt", ".tiktoken", ".py", ".safetensors"})
# transformers reads these weights only where there are no safetensors.
_OLD_WEIGHTS = frozenset({".bin", ".pt", ".pth"})


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


def read_config(folder: Path) -> dict[str, Any]:
    """Return the content of config.json. Raises UsageError if it is missing or damaged, or if there are no weights."""
    path = folder / "config.json"
    try:
        config = msgspec.json.decode(path.read_bytes(), type=dict[str, Any])
    except FileNotFoundError:
        raise UsageError(f"{folder} has no config.json, so it is not the folder of a transformers model") from None
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


def hash_folders(folders: list[Path]) -> str:
    """Return the SHA-256 over the names and contents of all files that transformers may read in the folders."""
    files = {f"{number}/{path.name}": path for number, folder in enumerate(folders) for path in _files(folder)}
    return hash_files(files)


def _files(folder: Path) -> list[Path]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    has_safetensors = any(path.suffix == ".safetensors" for path in files)
    suffixes = _READ_SUFFIXES if has_safetensors else _READ_SUFFIXES | _OLD_WEIGHTS
    return [path for path in files if path.suffix in suffixes]
