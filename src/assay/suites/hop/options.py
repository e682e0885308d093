"""The options of `assay hop`."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, field

from assay.core.spec import Options, RunSpec, ask, how, score


class HopOptions(Options, frozen=True, kw_only=True):
    """What a batch test can be told besides the common options."""

    target: Annotated[
        str, ask("FILE.py:function, package.module:function or a task folder.", cli=False, content=True)
    ] = ""
    data: Annotated[str, ask("The rows: a JSONL file.", cli=False, content=True)] = ""
    profiles: Annotated[
        list[str], ask("Profiles of the settings to run.  [default: every one]", flags=["--profiles"])
    ] = field(default_factory=list)
    settings: Annotated[
        str | None,
        ask("settings.yaml with llms and profiles; else the nearest one beside the target.", content=True),
    ] = None
    shared_endpoint: Annotated[
        bool,
        ask(
            "Set OPENAI_BASE_URL to the run's model, for functions that cannot be told an address.",
            content=True,
        ),
    ] = False
    workers: Annotated[int, how("Rows that are open at once."), Meta(ge=1)] = 5
    wrapper: Annotated[
        Literal["flat", "view"], score("How result rows are written: flat, or {input, result}.")
    ] = "flat"


def normalise(spec: RunSpec) -> RunSpec:
    """Profiles may be written `a,b`."""
    options = spec.options
    assert isinstance(options, HopOptions)
    names = [name for given in options.profiles for name in given.split(",") if name]
    changes: dict[str, Any] = {"profiles": list(dict.fromkeys(names))}
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(options, **changes))
