"""The options of `assay hop`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how, score


class HopOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run TARGET over the rows of DATA.jsonl, once for each profile of the settings.

    TARGET is FILE.py:function, package.module:function, or a task folder with Hoplet/Hop.py. Results are written
    to the task's TestCases/, or to the folder of the data. Repeat the command to continue an interrupted batch.
    """

    command: ClassVar[str] = "hop"
    default_params: ClassVar[Mapping[str, str]] = {
        "gen_kwargs": "those of the settings",
    }
    examples: ClassVar[str] = """\
assay hop my_functions.py:check TestCases/verify.jsonl --model local/smollm2
assay hop Tasks/Verify verify.jsonl --profiles fast careful --workers 10
assay hop --analyse Tasks/Verify/TestCases"""

    default_output: ClassVar[str] = "TestCases/ of the task, or the folder of the data"

    target: Annotated[
        str,
        ask(
            "FILE.py:function, package.module:function, or a task folder.",
            positional="TARGET",
            cli=False,
            content=True,
        ),
    ] = ""
    data: Annotated[str, ask("JSONL file of rows.", positional="DATA.jsonl", cli=False, content=True)] = ""
    profiles: Annotated[
        list[str], ask("Profiles to run, from the settings file.  [default: all]", flags=["--profiles"])
    ] = field(default_factory=list)
    settings: Annotated[
        str | None,
        ask(
            "Settings file with llms and profiles.  [default: the nearest settings.yaml, from the target's folder up]",
            content=True,
        ),
    ] = None
    shared_endpoint: Annotated[
        bool,
        ask(
            "While rows run, point OPENAI_BASE_URL to a local URL that serves the run's model, for functions that "
            "create their own client.",
            content=True,
        ),
    ] = False
    workers: Annotated[
        int, how("Number of rows to run at once.", flags=["--workers", "--open-cases"]), Meta(ge=1)
    ] = 5
    wrapper: Annotated[
        Literal["flat", "view"],
        score("Format of result rows. `flat`: result keys beside the input. `view`: {input, result}."),
    ] = "flat"
    analyse: Annotated[
        str, how("Report on the result files of this folder, from any HOP tool, without running anything.")
    ] = ""

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Turn `--profiles a b`, the form of HOP's batchhoptest, into `--profiles a,b`."""
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
