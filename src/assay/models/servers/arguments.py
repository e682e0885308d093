"""--model-args of a managed server: assay's own, and the flags of the server.

    flags = server_flags({"tensor_parallel_size": 2, "trust_remote_code": True}, taken={"port"}, title="vllm")
    # ["--tensor-parallel-size", "2", "--trust-remote-code"]

Every argument that assay does not know becomes a flag. The server itself refuses a wrong one, and its words are in the
error.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import UsageError
from assay.models.likelihood.endpoint import LIKELIHOOD_ARGUMENTS
from assay.models.servers.server import START_SECONDS

START_TIMEOUT = "start_timeout"
"""Seconds that the server may take until it is ready."""
OWN_ARGS = LIKELIHOOD_ARGUMENTS | {START_TIMEOUT}
# The harness's arguments that are options of assay, name the model a second time, or concern its own batches.
_OTHER_ARGS = frozenset(
    {
        *("base_url", "num_concurrent", "max_retries", "timeout"),
        *("pretrained", "model", "batch_size", "max_batch_size"),
    }
)
# Parts of a large file that identify it. Reading 16 of 64 kB takes a millisecond, hashing 40 GB a minute. Two
# trainings of one model differ in nearly every weight.
_SAMPLES = 16
_SAMPLE_BYTES = 1 << 16


def read_start_seconds(args: Mapping[str, Any]) -> float:
    """Return the time limit of the server's start."""
    value = args.get(START_TIMEOUT, START_SECONDS)
    try:
        seconds = float(value)
    except (TypeError, ValueError):
        seconds = -1.0
    if not 0 < seconds < float("inf"):
        raise UsageError(f"--model-args: {START_TIMEOUT} is a number of seconds above 0, not {value!r}")
    return seconds


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
        if key in OWN_ARGS or key in _OTHER_ARGS or value is None:
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


def relevant_args(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments that can change a reply. The time limit of the start cannot."""
    return {name: value for name, value in args.items() if name not in _OTHER_ARGS | {START_TIMEOUT}}


def find_model(name: str) -> tuple[str, str]:
    """Return the model as the server gets it, and a fingerprint of its files.

    An existing file or folder becomes an absolute path. Any other name is that of a hub, without a fingerprint. Raises
    UsageError for a path that does not exist.
    """
    path = Path(name).expanduser()
    if path.exists():
        path = path.resolve()
        return str(path), fingerprint_weights(path)
    if name.startswith((".", "/", "~")):
        raise UsageError(f"{name}: there is no such file or folder")
    return name, ""


def fingerprint_weights(path: Path) -> str:
    """Return a hash over the files of a model: names, sizes, small files whole, parts of large ones."""
    digest = hashlib.sha256()
    files = [path] if path.is_file() else sorted(file for file in path.rglob("*") if file.is_file())
    for file in files:
        size = file.stat().st_size
        digest.update(f"{file.relative_to(path) if file != path else ''}\0{size}\0".encode())
        with file.open("rb") as content:
            if size <= _SAMPLES * _SAMPLE_BYTES:
                digest.update(content.read())
                continue
            for number in range(_SAMPLES):
                content.seek((size - _SAMPLE_BYTES) * number // (_SAMPLES - 1))
                digest.update(content.read(_SAMPLE_BYTES))
    return digest.hexdigest()[:16]
