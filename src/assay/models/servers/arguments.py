"""--model-args of a managed server: assay's own, and the flags of the server.

    flags = server_flags({"tensor_parallel_size": 2, "trust_remote_code": True}, taken={"port"}, title="vllm")
    # ["--tensor-parallel-size", "2", "--trust-remote-code"]

Every argument that assay does not know becomes a flag. The server itself refuses a wrong one, and its words are in the
error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.models.likelihood.endpoint import LikelihoodArgs
from assay.models.servers.server import START_SECONDS
from assay.models.weights.files import find_snapshot, hash_model
from assay.usercode.model_args import read_args

# A year, because infinity is a number, too.
_Seconds = Annotated[float, Meta(gt=0, le=31_536_000, description="a number of seconds above 0, at most a year")]


class ServerArgs(LikelihoodArgs, frozen=True, forbid_unknown_fields=True):
    """assay's own --model-args of a managed server."""

    start_timeout: _Seconds = START_SECONDS
    """Seconds that the server may take until it is ready."""


# Flags with files that the server writes, or that change no reply.
_WRITTEN_ARGS = frozenset(
    {
        *("log_file", "lookup_cache_dynamic", "lcd", "uvicorn_log_config", "download_dir", "slot_save_path"),
        *("ssl_keyfile", "ssl_certfile", "ssl_key_file", "ssl_cert_file", "ssl_ca_certs"),
    }
)
# A folder of a model, a tokenizer or an adapter has such files. Other folders, such as one with pictures that requests
# may name, are not read: they may be the whole disk.
_MODEL_SUFFIXES = frozenset({".json", ".safetensors", ".bin", ".gguf", ".model"})


def read_server_args(args: Mapping[str, Any]) -> ServerArgs:
    """Return assay's own arguments among those of a server."""
    own = {name: value for name, value in args.items() if name in ServerArgs.__struct_fields__}
    return read_args(own, ServerArgs)


def server_flags(
    args: Mapping[str, Any],
    *,
    title: str,
    taken: Collection[str],
    renamed: Mapping[str, str] | None = None,
    negates: bool = True,
    short: bool = False,
) -> list[str]:
    """Return the arguments as flags of the server: `max_model_len=4096` becomes `--max-model-len 4096`.

    True becomes the flag alone, None nothing, a list several words, a mapping its JSON. False becomes `--no-FLAG` if
    the server `negates` flags that way, else nothing. With `short`, names of up to three letters get one dash, as in
    llama.cpp's `-ngl 99`. Raises UsageError for the flags that assay sets itself (`taken`).
    """
    flags: list[str] = []
    for name, value in args.items():
        key = name.replace("-", "_")
        if key in ServerArgs.__struct_fields__ or value is None:
            continue
        if key in taken:
            raise UsageError(f"--model-args {name}: assay sets --{key.replace('_', '-')} of {title} itself")
        key = (renamed or {}).get(key, key)
        if short and len(key) <= 3 and key.isalnum():
            flag = f"-{key}"
        else:
            flag = f"--{key.replace('_', '-')}"
        if value is False:
            flags += [f"--no-{flag.lstrip('-')}"] if negates else []
        elif value is True:
            flags.append(flag)
        elif isinstance(value, (list, tuple)):
            flags += [flag, *map(str, value)]
        else:
            flags += [flag, json.dumps(value) if isinstance(value, dict) else str(value)]
    return flags


def identify_server(model: str, weights: str, args: Mapping[str, Any]) -> str:
    """Return what identifies a model and its settings in requests: name, weights, arguments and the files they name.

    The time limit of the start is no part of it. A chat template or a LoRA adapter counts by its content.
    """
    relevant = {name: value for name, value in args.items() if name != "start_timeout"}
    files = {
        str(path): hash_model(path)
        for name, value in relevant.items()
        if name.replace("-", "_") not in _WRITTEN_ARGS
        for path in _named_paths(value)
    }
    return fingerprint([model, weights, relevant, files])


def _named_paths(value: Any) -> Iterator[Path]:
    """Yield the files and folders that the value of an argument names, such as `FILE`, `NAME=FILE` or `FILE:SCALE`."""
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from _named_paths(item)
    if not isinstance(value, str):
        return
    if value.startswith("{"):
        with suppress(msgspec.DecodeError):
            yield from _named_paths(msgspec.json.decode(value))
    for text in {value, *re.split(r"[,\s]+", value)}:
        for each in {text, text.partition("=")[2], text.rpartition(":")[0]}:
            # RuntimeError for `~nobody`, OSError for a text that is too long, ValueError for one with a zero byte.
            with suppress(OSError, ValueError, RuntimeError):
                path = Path(each).expanduser()
                if each and (path.is_file() or _has_model_files(path)):
                    yield path.resolve()


def _has_model_files(path: Path) -> bool:
    return path.is_dir() and any(file.suffix in _MODEL_SUFFIXES for file in path.iterdir())


def find_model(name: str, args: Mapping[str, Any]) -> tuple[str, str]:
    """Return the model as the server gets it, and the hash of its files.

    An existing file or folder becomes an absolute path. Any other name is that of a hub. Its files are those in the
    hub's cache, of the `revision` in the arguments; the hash is empty if there are none. Raises UsageError for a path
    that does not exist.
    """
    path = Path(name).expanduser()
    if path.exists():
        path = path.resolve()
        return str(path), hash_model(path)
    if name.startswith((".", "/", "~")):
        raise UsageError(f"{name}: there is no such file or folder")
    snapshot = find_snapshot(name, str(args.get("revision") or "main"))
    return name, hash_model(snapshot) if snapshot else ""
