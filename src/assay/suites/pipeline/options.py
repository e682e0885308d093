"""The options of `assay pipeline`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how


class PipelineOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run a pipeline over its testsets, and say which step went wrong first in each failed test.

    Exit code 1 when a check fails, 3 when a test got no answer, 4 when a judge's verdict is missing. The same
    command continues a run that was interrupted; an edited expectation only grades anew, an edited prompt asks
    anew.
    """

    command: ClassVar[str] = "pipeline"
    examples: ClassVar[str] = """\
assay pipeline examples/pipeline/quickstart.yaml --model local/smollm2
assay pipeline flow.yaml --testset testsets/ --include-tags critical --model openai/NAME
assay pipeline flow.yaml --variant baseline,shorter --model openai/NAME --judge openai/JUDGE"""

    pipeline: Annotated[str, ask("The pipeline's YAML file.", positional="PIPELINE.yaml", content=True)] = ""
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
