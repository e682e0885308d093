"""The ways of lm-evaluation-harness on the command line and in its configuration files, put into ours."""

from __future__ import annotations

from itertools import takewhile
from typing import Any

import click

from assay.core.errors import UsageError
from assay.core.spec import DEFAULT_SEED

_SHORT = {
    "-t": "--tasks",
    "-M": "--model",
    "-a": "--model-args",
    "-L": "--limit",
    "-f": "--num-fewshot",
    "-b": "--batch-size",
    "-c": "--use-cache",
    "-o": "--output-path",
    "-s": "--log-samples",
    "-E": "--samples",
    "-C": "--config",
    "-v": "--verbosity",
    "-w": "--write-out",
    "-x": "--predict-only",
}
"""The harness's short flags."""
_SWITCHES = frozenset({"-s", "-w", "-x"})
_TEMPLATE = "--apply-chat-template"
_PAIRS = frozenset({"--model-args", "--gen-kwargs", "--metadata"})
_IGNORED = {
    "batch_size": "requests are never batched; --concurrency says how many run at once",
    "max_batch_size": "requests are never batched",
    "device": "models run behind their endpoints, or on the CPU",
    "use_cache": "every run keeps its replies; the same command continues it",
    "cache_requests": "prompts are built as they are asked",
    "verbosity": "--quiet prints nothing but errors",
    "wandb_args": "nothing is sent to anyone",
    "wandb_config_args": "nothing is sent to anyone",
    "trackio_args": "nothing is sent to anyone",
    "hf_hub_log_args": "nothing is sent to anyone",
    "check_integrity": "`assay check` looks at task files",
    "show_config": "results_*.json has the configuration",
    "trust_remote_code": "data sets that run code are not loaded, unless the task's own file says so",
}
_IGNORED_SWITCHES = ("check_integrity", "show_config", "trust_remote_code")
_SENT_NOWHERE = frozenset(f"--{name.replace('_', '-')}" for name in _IGNORED if name.endswith("_args"))
_SEVERAL = _PAIRS | _SENT_NOWHERE | {"--tasks"}
"""Flags that take several words, and may be given several times."""


class HarnessCommand(click.Command):
    """Takes what the harness takes: short flags, several words after a flag, flags given twice."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Every token as click knows it."""
        return super().parse_args(ctx, translated(args))


def accepted(function: Any) -> Any:
    """Flags of the harness that have nothing to do here: accepted, and named by `ignored`."""
    for name in _IGNORED:
        flag = f"--{name.replace('_', '-')}"
        if name in _IGNORED_SWITCHES:
            function = click.option(flag, name, is_flag=True, hidden=True)(function)
        elif name == "cache_requests":
            function = click.option(flag, name, is_flag=False, flag_value="true", hidden=True)(function)
        else:
            function = click.option(flag, name, hidden=True)(function)
    return function


def ignored(values: dict[str, Any]) -> None:
    """Take out what has nothing to do here, and say so."""
    for name, why in _IGNORED.items():
        if values.pop(name, None):
            click.echo(f"--{name.replace('_', '-')} is ignored: {why}", err=True)


def translated(tokens: list[str]) -> list[str]:
    """`--model_args a=1 b=2 --tasks x y` as `--model-args a=1,b=2 --tasks x,y`."""
    rest = [piece for token in tokens for piece in _pieces(token)]
    named = "--tasks" in rest  # then there are no tasks as arguments
    found: list[str] = []
    several: dict[str, list[str]] = {}
    while rest:
        flag = rest.pop(0)
        if flag in _SEVERAL:
            words = _words(flag, rest)
            several.setdefault(flag, []).extend(words)
            del rest[: len(words)]
        elif flag == _TEMPLATE and named and _is_word(rest[:1]):
            found += _template(rest.pop(0))
        else:
            found.append(flag)
    return [*found, *(piece for flag, words in several.items() for piece in _joined(flag, words))]


def _joined(flag: str, words: list[str]) -> list[str]:
    return [flag, ",".join(words)] if words else [flag]


def _pieces(token: str) -> list[str]:
    """A token with its flag spelled out, and `--flag=value` of the flags below in two."""
    if token[:2] in _SHORT and (len(token) == 2 or token[:2] not in _SWITCHES):
        return [_SHORT[token[:2]], *filter(None, [token[2:].removeprefix("=")])]
    flag, equals, value = token.partition("=")
    flag = flag.replace("_", "-")
    if not token.startswith("--") or flag not in _SEVERAL | {_TEMPLATE}:
        return [token]
    return [flag, value] if equals else [flag]


def _words(flag: str, rest: list[str]) -> list[str]:
    """The words that belong to a flag: all tasks; of pairs the first, and what looks like a pair."""
    if flag == "--tasks":
        return list(takewhile(lambda word: not word.startswith("-"), rest))
    if not _is_word(rest[:1]):
        return []
    pairs = takewhile(lambda word: "=" in word and not word.startswith(("-", "{")), rest[1:])
    return [rest[0], *pairs]


def _is_word(words: list[str]) -> bool:
    return bool(words) and not words[0].startswith("-")


def _template(name: str) -> list[str]:
    """The harness takes a template's name. Endpoints have one template: their own."""
    if name.lower() in ("false", "0", "no"):
        return []
    if name.lower() not in ("true", "1", "yes"):
        click.echo(f"the chat template {name!r} is ignored: the endpoint applies its own", err=True)
    return [_TEMPLATE]


def from_config(values: dict[str, Any]) -> dict[str, Any]:
    """The values of a configuration file of the harness: null says nothing, a template has a name."""
    values = {key: value for key, value in values.items() if value is not None}
    ignored(values)
    if isinstance(name := values.get("apply_chat_template"), str):
        values["apply_chat_template"] = bool(_template(name))
    return seeded(values)


def seeded(values: dict[str, Any]) -> dict[str, Any]:
    """`--seed a,b,c,d`, the harness's four seeds: the last is for few-shot examples, and the run's own."""
    given = values.get("seed")
    if given is None:
        return values
    if str(given).lstrip("-").isdecimal():
        return {**values, "seeds": []}
    listed = given if isinstance(given, list) else str(given).split(",")
    try:
        seeds = [_seed(one) for one in listed]
    except ValueError:
        raise UsageError(f"--seed takes one number or four, found {given!r}") from None
    if len(seeds) in (1, 3):
        seeds = seeds * 4 if len(seeds) == 1 else [*seeds, DEFAULT_SEED]
    if seeds[-1] is None:
        click.echo(
            f"--seed: examples are drawn by {DEFAULT_SEED}: a run that can continue needs a seed", err=True
        )
        seeds[-1] = DEFAULT_SEED
    return {**values, "seeds": seeds, "seed": seeds[-1]}


def _seed(given: Any) -> int | None:
    return None if str(given).strip().lower() == "none" else int(given)
