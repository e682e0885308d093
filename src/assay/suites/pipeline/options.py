"""The options of `assay pipeline`."""

from __future__ import annotations

from typing import Annotated, Any

import msgspec
from msgspec import Meta, field

from assay.core.spec import Options, RunSpec, ask, how


class PipelineOptions(Options, frozen=True, kw_only=True):
    """What a pipeline run can be told besides the common options."""

    pipeline: Annotated[str, ask("The pipeline's YAML file.", cli=False, content=True)] = ""
    testset: Annotated[
        list[str],
        ask("Testset files, globs or folders; else the pipeline's default_testset.", content=True),
    ] = field(default_factory=list)
    variant: Annotated[
        list[str],
        ask(
            "Variants of the pipeline to run, compared pairwise; `all` for every one.  [default: baseline]",
            flags=["--variant", "--variants"],
        ),
    ] = field(default_factory=list)
    include_tags: Annotated[
        list[str], ask("Only tests with one of these tags: a,b or repeated.", content=True)
    ] = field(default_factory=list)
    exclude_tags: Annotated[list[str], ask("No tests with one of these tags.", content=True)] = field(
        default_factory=list
    )
    ids: Annotated[list[str], ask("Only these tests, with what they depend on.", content=True)] = field(
        default_factory=list
    )
    allow_code: Annotated[
        bool, how("Run code that a testset carries, in the sandbox; else it is refused.")
    ] = False
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None,
        how("Refuse a judge whose calibration on rubrics has a lower kappa, or that has none."),
    ] = None


_LISTS = ("variant", "include_tags", "exclude_tags", "ids")


def normalise(spec: RunSpec) -> RunSpec:
    """Lists may be written `a,b`, and `all` is every variant."""
    options = spec.options
    assert isinstance(options, PipelineOptions)
    changes: dict[str, Any] = {
        name: [piece for given in getattr(options, name) for piece in _pieces(given)] for name in _LISTS
    }
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(options, **changes))


def _pieces(given: str) -> list[str]:
    """Parts between commas; those within brackets, as in `id[a=1,b=2]`, do not count."""
    pieces, depth = [""], 0
    for char in given:
        depth += (char == "[") - (char == "]")
        if char == "," and depth <= 0:
            pieces.append("")
        else:
            pieces[-1] += char
    return [piece.strip() for piece in pieces if piece.strip()]
