"""The options of `assay hop`."""

from collections.abc import Callable, Mapping
from typing import Annotated, ClassVar, Literal

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how, score


class HopOptions(SuiteOptions, frozen=True, kw_only=True):
    """Run TARGET over the rows of DATA.jsonl, once for each profile of the settings.

    TARGET is FILE.py:function, package.module:function, a task folder with Hoplet/Hop.py, or its name in Tasks/.
    Results are written to the task's TestCases/, or to the folder of the data. Repeat the command to continue an
    interrupted batch.
    """

    command: ClassVar[str] = "hop"
    watchable: ClassVar[bool] = True
    default_params: ClassVar[Mapping[str, str]] = {
        "gen_kwargs": "those of the settings",
    }
    examples: ClassVar[str] = """\
assay hop my_functions.py:check TestCases/verify.jsonl --model local/smollm2
assay hop Verify verify.jsonl --profiles fast careful --workers 10
assay hop --analyse Verify --profiles fast --json"""

    default_output: ClassVar[str] = "TestCases/ of the task, or the folder of the data"

    target: Annotated[
        str,
        ask(
            "FILE.py:function, package.module:function, a task folder, or the name of a task in Tasks/.",
            positional="TARGET",
            flags=["--task"],
            cli=False,
            content=True,
        ),
    ] = ""
    data: Annotated[
        str,
        ask(
            "JSONL file of rows: a path, or a name in the task's TestCases/.",
            positional="DATA.jsonl",
            flags=["--data"],
            cli=False,
            content=True,
        ),
    ] = ""
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
    workers: Annotated[int, how("Number of rows to run at once.", flags=["--workers", "--open-cases"]), Meta(ge=1)] = 5
    wrapper: Annotated[
        Literal["flat", "view"],
        score("Format of result rows. `flat`: result keys beside the input. `view`: {input, result}."),
    ] = "flat"
    analyse: Annotated[
        list[str],
        how(
            "Report on existing result files, from any HOP tool, without a run: a task, a folder (its newest result "
            "file counts), or files.",
            flags=["--analyse", "--analyze"],
        ),
    ] = field(default_factory=list)
    all_files: Annotated[bool, how("With --analyse: count every result file of the folder.", flags=["--all"])] = False
    as_json: Annotated[bool, how("With --analyse: print one JSON document.", flags=["--json"])] = False

    @classmethod
    def translate(cls, words: list[str], tell: Callable[[str], None]) -> list[str]:
        """Turn `--profiles a b`, the form of HOP's batchhoptest, into `--profiles a,b`, and repeat `--analyse`.

        After `--analyse`, further words are files too if they end with `.jsonl`.
        """
        translated: list[str] = []
        rest = list(words)
        while rest:
            word = rest.pop(0)
            flag, _, first = word.partition("=")
            if flag in ("--analyse", "--analyze"):
                translated.append(word)
                if not first and rest:
                    translated.append(rest.pop(0))
                while rest and rest[0].endswith(".jsonl") and not rest[0].startswith("-"):
                    translated += [flag, rest.pop(0)]
                continue
            if flag != "--profiles":
                translated.append(word)
                continue
            names = [first] if first else []
            while rest and not rest[0].startswith("-"):
                names.append(rest.pop(0))
            translated += [flag, ",".join(names)] if names else [flag]
        return translated
