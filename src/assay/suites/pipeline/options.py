"""The options of `assay pipeline`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how


class PipelineOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run a pipeline on its testsets. For each failed test, report the first step that went wrong.

    Exit code: 1 if a check failed, 3 if the model or the judge did not answer in some test, 4 if a judge replied
    without a valid verdict. The same command continues an interrupted run. After a changed expectation it scores the
    stored replies again; after a changed prompt or input it starts a new run.
    """

    command: ClassVar[str] = "pipeline"
    default_params: ClassVar[Mapping[str, str]] = {
        "gen_kwargs": "those of the steps",
        "judge_kwargs": "temperature=0,max_tokens=1024",
    }
    examples: ClassVar[str] = """\
assay pipeline examples/pipeline/quickstart.yaml --model local/smollm2
assay pipeline flow.yaml --testset testsets/ --include-tags critical --model openai/NAME
assay pipeline flow.yaml --variant baseline,shorter --model openai/NAME --judge openai/JUDGE"""

    pipeline: Annotated[str, ask("YAML file of the pipeline.", positional="PIPELINE.yaml", content=True)] = ""
    testset: Annotated[
        list[str],
        ask("Testset files, globs or folders.  [default: the pipeline's default_testset]", content=True),
    ] = field(default_factory=list)
    variant: Annotated[
        list[str],
        ask(
            "Variants to run, separated by commas, or `all`. Several are compared pairwise.  [default: baseline]",
            flags=["--variant", "--variants"],
        ),
    ] = field(default_factory=list)
    include_tags: Annotated[
        list[str], ask("Run only tests with at least one of these tags: a,b.", content=True)
    ] = field(default_factory=list)
    exclude_tags: Annotated[list[str], ask("Skip tests with any of these tags: a,b.", content=True)] = field(
        default_factory=list
    )
    ids: Annotated[
        list[str], ask("Run only tests with these ids, and the tests they depend on.", content=True)
    ] = field(default_factory=list)
    allow_code: Annotated[
        bool, how("Allow code in testsets. It runs in a sandbox. Without this flag it is an error.")
    ] = False
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None,
        how("Stop before the run if the judge's kappa on rubrics is lower than this, or not measured."),
    ] = None


def split_names(texts: list[str]) -> list[str]:
    """Split texts such as `a,b` at commas, except at commas in brackets: `id[a=1,b=2]` is one name."""
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
