"""The options of `assay.evaluate` that are written to the run folder.

Functions cannot be written to a file. `subjects` and `scorers` therefore have only their names, for people who read
`run.json`. The source of the functions is part of the run's identity (`EvaluateSuite.ask_identity`).
"""

from typing import Annotated

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, score


class EvaluateOptions(SuiteOptions, frozen=True, kw_only=True):
    """Evaluate functions, prompts and models from Python: `assay.evaluate(rows, answer=function, score=[...])`."""

    name: Annotated[str, ask("Name of the evaluation.")] = "evaluate"
    subjects: Annotated[dict[str, str], ask("Evaluated functions and models, by subject.", content=True)] = field(
        default_factory=dict
    )
    target: Annotated[list[str], ask("Gold columns with the right answers.", content=True)] = field(
        default_factory=list
    )
    tags: Annotated[list[str], ask("Columns whose values are tags of the case.", content=True)] = field(
        default_factory=list
    )
    prompt: Annotated[dict[str, str], ask("Prompt templates by subject.", content=True)] = field(default_factory=dict)
    system_instruction: Annotated[str, ask("System message before each prompt.")] = ""
    repeats: Annotated[int, ask("Answers per case; a score is their mean."), Meta(ge=1)] = 1
    version: Annotated[str, ask("Version of the evaluated functions. A change starts another run.")] = ""
    scorers: Annotated[list[str], score("Names of the scorers.", content=True)] = field(default_factory=list)
