"""The options of `assay hop`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how, score


class HopOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run TARGET over the rows of DATA.jsonl, once for each profile of the settings.

    TARGET is FILE.py:function, package.module:function, or a task folder with Hoplet/Hop.py. Results stand in
    the task's TestCases/, or beside the data. The same command continues a batch that was interrupted.
    """

    command: ClassVar[str] = "hop"
    examples: ClassVar[str] = """\
assay hop my_functions.py:check TestCases/verify.jsonl --model local/smollm2
assay hop Tasks/Verify verify.jsonl --profiles fast careful --workers 10
assay hop --analyse Tasks/Verify/TestCases"""

    default_output: ClassVar[str] = "TestCases/ of the task, or the folder of the data"

    target: Annotated[
        str,
        ask(
            "FILE.py:function, package.module:function or a task folder.",
            positional="TARGET",
            cli=False,
            content=True,
        ),
    ] = ""
    data: Annotated[str, ask("The rows: a JSONL file.", positional="DATA.jsonl", cli=False, content=True)] = (
        ""
    )
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
    workers: Annotated[
        int, how("Rows that are open at once.", flags=["--workers", "--open-cases"]), Meta(ge=1)
    ] = 5
    wrapper: Annotated[
        Literal["flat", "view"], score("How result rows are written: flat, or {input, result}.")
    ] = "flat"
    analyse: Annotated[str, how("Only count and compare the result files of a folder, ours or not.")] = ""

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """`--profiles a b`, as batchhoptest takes it, is `--profiles a,b`."""
        translated: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            flag, _, first = word.partition("=")
            if flag != "--profiles":
                translated.append(word)
                continue
            names = [first] if first else []
            while rest and not rest[0].startswith("-"):
                names.append(rest.pop(0))
            translated += [flag, ",".join(names)] if names else [flag]
        return translated
