"""The options of `assay pipeline`."""

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how, score


class PipelineOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run a pipeline on its testsets. For each failed test, report the first step that went wrong.

    Exit code: 3 if the model or the judge did not answer in some test, 1 if a test failed or errored, 4 if a judge
    replied without a valid verdict. The same command continues an interrupted run. After a changed expectation it
    scores the stored replies again; after a changed prompt or input it starts a new run.
    """

    command: ClassVar[str] = "pipeline"
    watchable: ClassVar[bool] = True
    default_params: ClassVar[Mapping[str, str]] = {
        "gen_kwargs": "those of the steps",
        "judge_kwargs": "temperature=0,max_tokens=1024",
    }
    examples: ClassVar[str] = """\
assay pipeline examples/pipeline/quickstart.yaml --model local/smollm2
assay pipeline flow.yaml --testset testsets/ --include-tags critical --model openai/NAME
assay pipeline flow.yaml --variant baseline,shorter --model openai/NAME --judge openai/JUDGE
assay pipeline --agent summarizer --flows v1,v2 --infile basic.jsonl --model openai/NAME"""
    ignored: ClassVar[Mapping[str, str]] = {
        "--rules": "the rules of outputs, tests and agents are always checked",
    }

    pipeline: Annotated[
        str,
        ask(
            "YAML file of the pipeline, or the id of a pipeline in pipelines/.",
            positional="PIPELINE.yaml",
            flags=["--pipeline"],
            content=True,
        ),
    ] = ""
    agent: Annotated[str, ask("Run the flows of this agent in agents/, instead of a pipeline.", content=True)] = ""
    flows: Annotated[
        list[str], ask("Flows of the agent to run: a,b.  [default: all]", flags=["--flows", "--flow", "-f"])
    ] = field(default_factory=list)
    testset: Annotated[
        list[str],
        ask(
            "Testset files, globs or folders.  [default: the default_testset of the pipeline or agent]",
            flags=["--testset", "--infile", "-i"],
            content=True,
        ),
    ] = field(default_factory=list)
    variant: Annotated[
        list[str],
        ask(
            "Variants to run, separated by commas, or `all`. Several are compared pairwise.  [default: baseline]",
            flags=["--variant", "--variants", "-v"],
        ),
    ] = field(default_factory=list)
    include_tags: Annotated[list[str], ask("Run only tests with at least one of these tags: a,b.", content=True)] = (
        field(default_factory=list)
    )
    exclude_tags: Annotated[list[str], ask("Skip tests with any of these tags: a,b.", content=True)] = field(
        default_factory=list
    )
    ids: Annotated[list[str], ask("Run only tests with these ids, and the tests they depend on.", content=True)] = (
        field(default_factory=list)
    )
    allow_code: Annotated[
        bool, how("Allow code in testsets. It runs in a sandbox. Without this flag it is an error.")
    ] = False
    # Marked `score`, so that a finished run writes the file when the option is added.
    outfile: Annotated[
        str,
        score(
            "Also write a CSV file with the columns of Prompt Lab, one row per test and variant.",
            flags=["--outfile", "-o"],
            writes=True,
        ),
    ] = ""
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None,
        how("Stop before the run if the judge's kappa on rubrics is lower than this, or not measured."),
    ] = None

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Turn Prompt Lab's `-r` into `--rules`, and its `--judge` or `-j` without a value into `--judge MODEL`.

        MODEL is that of --model: Prompt Lab's judge is an agent that asks the same endpoint.
        """
        main = ""
        for word, following in pairwise([*words, ""]):
            flag, _, value = word.partition("=")
            if flag == "--model":
                main = value or following
        translated: list[str] = []
        for word, following in pairwise([*words, ""]):
            if word not in ("--judge", "-j"):
                translated.append("--rules" if word == "-r" else word)
                continue
            translated.append("--judge")
            is_model = "/" in following and not following.endswith((".yaml", ".yml", ".jsonl"))
            has_value = following and not following.startswith("-")
            if main and (not has_value or (word == "-j" and not is_model)):
                translated.append(main)
                tell(f"the judge is the model itself, {main}; name another with --judge PROVIDER/NAME")
        return translated


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
