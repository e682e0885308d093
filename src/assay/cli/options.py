"""Flags made from the fields of RunSpec and of a suite's options: declared once, on every run command."""

from __future__ import annotations

import types
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Union, get_args, get_origin

import click
from msgspec import Struct

from assay.core.spec import Field, RunSpec, SuiteOptions, build, fields
from assay.core.yamlfile import load_yaml

_TYPES = {int: click.INT, float: click.FLOAT, str: click.STRING}
SETTINGS: dict[str, Any] = {
    "token_normalize_func": lambda token: token.replace("_", "-"),
    "help_option_names": ["-h", "--help"],
    "max_content_width": 100,
}
"""The harness writes flags with `_`; both spellings work."""


def run_options(options: type[SuiteOptions]) -> Callable[[Any], Any]:
    """A decorator that adds every flag of the spec and of these options, and `--config`."""

    def decorate(function: Any) -> Any:
        config = click.option(
            "--config", type=click.Path(path_type=Path), help="YAML file with any of these options."
        )
        decorators = [config, *_flags(RunSpec), *_flags(options)]
        for decorator in decorators:
            function = decorator(function)
        return function

    return decorate


def _flags(struct: type[Struct]) -> list[Callable[[Any], Any]]:
    return [_flag(field) for field in reversed(list(fields(struct))) if field.extra.get("cli", True)]


def _flag(field: Field) -> Callable[[Any], Any]:
    names = field.extra.get("flags") or [f"--{field.name.replace('_', '-')}"]
    kind = _plain(field.type)
    text = field.help + _shown_default(field)
    if kind is bool and field.default is None:
        return click.option(*names, field.name, is_flag=False, flag_value="true", default=None, help=text)
    if kind is bool:
        names = [f"{names[0]}/--no-{names[0][2:]}"] if field.default else names
        return click.option(*names, field.name, is_flag=True, default=None, help=text)
    if get_origin(kind) is list:
        return click.option(*names, field.name, multiple=True, default=None, help=text)
    type_ = click.STRING if field.extra.get("as_text") else _TYPES.get(kind, click.STRING)
    return click.option(*names, field.name, type=type_, default=None, help=text)


def _plain(kind: Any) -> Any:
    """`int | None` is an int on the command line, whatever its bounds."""
    if get_origin(kind) in (Union, types.UnionType):
        kind = next(arg for arg in get_args(kind) if arg is not type(None))
    return get_args(kind)[0] if get_origin(kind) is Annotated else kind


def _shown_default(field: Field) -> str:
    if field.default in (None, "", [], {}) or isinstance(field.default, bool):
        return ""
    return (
        f"  [default: {field.default:g}]"
        if isinstance(field.default, float)
        else f"  [default: {field.default}]"
    )


def file_values(options: type[SuiteOptions], path: Path | None) -> dict[str, Any]:
    """What a `--config` file says. A flag's other name is a key too, and a list may be written `a,b`."""
    if path is None:
        return {}
    known = [*fields(RunSpec), *fields(options)]
    other = {flag[2:].replace("-", "_"): f.name for f in known for flag in f.extra.get("flags", ())}
    lists = {field.name for field in known if get_origin(field.type) is list}
    values = {other.get(key, key): value for key, value in load_yaml(path).value.items()}
    return {
        key: value.split(",") if key in lists and isinstance(value, str) else value
        for key, value in values.items()
    }


def spec_from_flags(
    suite: str, options: type[SuiteOptions], flags: dict[str, Any], told: dict[str, Any] | None = None
) -> RunSpec:
    """The file's values, then the flags that were given."""
    config, told = flags.pop("config", None), told or {}
    if config is not None:
        build(suite, options, told, str(config))
    given = {key: _listed(value) for key, value in flags.items() if value is not None and value != ()}
    return build(suite, options, told | given)


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
