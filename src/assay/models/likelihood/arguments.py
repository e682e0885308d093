"""The model arguments of the harness that concern likelihoods at an endpoint."""

from __future__ import annotations

from typing import Any, NamedTuple

from assay.core.errors import UsageError

_MAX_LENGTH = 2048
_BACKENDS = {"auto": None, "remote": True, "huggingface": None, "tiktoken": None, "none": False}
_TRUTHS = {"true": True, "1": True, "false": False, "0": False}


class Arguments(NamedTuple):
    """How texts become tokens and how many of them one request may hold.

    `remote` says whether the endpoint's own tokenizer is used: True, False, or None for "where there is one".
    `most` is one less than the context, since the endpoint always generates a token as well.
    """

    most: int
    remote: bool | None
    as_ids: bool
    special: bool
    prefix: int | None
    eos: str | None


def read(args: dict[str, Any]) -> Arguments:
    """From `--model-args`. Those not known here are of no concern to likelihoods."""
    backend = str(args.get("tokenizer_backend", "auto")).lower()
    if backend not in _BACKENDS:
        raise UsageError(f"tokenizer_backend is one of {', '.join(_BACKENDS)}, not {backend!r}")
    return Arguments(
        most=_whole(args, "max_length", _MAX_LENGTH, least=3) - 1,
        remote=_BACKENDS[backend],
        as_ids=_truth(args, "tokenized_requests", default=True),
        special=_truth(args, "add_bos_token", default=False),
        prefix=_whole(args, "custom_prefix_token_id", 0) if "custom_prefix_token_id" in args else None,
        eos=str(args["eos_string"]) if args.get("eos_string") else None,
    )


def _whole(args: dict[str, Any], name: str, default: int, least: int = 0) -> int:
    value = str(args.get(name, default))
    if not value.isdecimal() or int(value) < least:
        raise UsageError(f"{name} is a whole number of at least {least}, not {value!r}")
    return int(value)


def _truth(args: dict[str, Any], name: str, *, default: bool) -> bool:
    value = str(args.get(name, default)).lower()
    if value not in _TRUTHS:
        raise UsageError(f"{name} is True or False, not {value!r}")
    return _TRUTHS[value]
