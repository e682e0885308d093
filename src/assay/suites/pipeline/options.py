"""The options of `assay pipeline`."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how


class PipelineOptions(SuiteOptions, frozen=True, kw_only=True):
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


def split_names(texts: list[str]) -> list[str]:
    """Split lists that are written `a,b`. Commas within brackets, as in `id[a=1,b=2]`, do not count."""
    names: list[str] = []
    for text in texts:
        pieces, depth = [""], 0
        for character in text:
            depth += (character == "[") - (character == "]")
            if character == "," and depth <= 0:
                pieces.append("")
            else:
                pieces[-1] += character
        names += [piece.strip() for piece in pieces if piece.strip()]
    return names
