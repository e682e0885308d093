"""A run of a small suite in the process of the test: asks each word, and counts the replies that are the word with `!`.

run = WordRun(tmp_path)                           # the folder of its output
result = run.start(EchoModel())                   # as the command does, without a command
result = run.start(EchoModel(), strict=True)      # an option of the suite; another score, the same replies
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from assay.core.events import Event, Noted
from assay.core.protocols import Context, Model, Scorer, ScorerInput, Solver
from assay.core.report import Entry, Report
from assay.core.roles import Role
from assay.core.spec import RunSpec, SuiteOptions, ask, how, score
from assay.core.suite import CaseContent, ListedRows, Outcome, Results, Row, RunFacts, Suite
from assay.core.types import Score
from assay.runner.results import Run
from assay.runner.runner import Runner
from assay.scoring.metric_builders import proportion_metric

from support.engine_run import answer

RESULT_FILE = "words.txt"


class WordOptions(SuiteOptions, frozen=True, kw_only=True):
    """The words, and one option of each mark."""

    words: Annotated[Sequence[str], ask("The words.")] = ("one", "two")
    polite: Annotated[bool, ask("Another request.")] = False
    strict: Annotated[bool, score("No reply is right.")] = False
    quick: Annotated[bool, how("Changes nothing.")] = False


class _AskOnce(Solver):
    async def solve(self, inputs: str, ctx: Context) -> None:
        await answer(inputs, ctx)


class _IsWord(Scorer):
    def __init__(self, *, strict: bool) -> None:
        self.id = f"word@{strict}"
        self._strict = strict

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        is_right = bool(given.records) and given.records[-1].data == given.case.gold and not self._strict
        return [Score(*given.case.head, self.id, "word", value=float(is_right))]


class WordSuite(Suite[WordOptions, str]):
    """See above. `broken` is raised by `finish` after half of its file is written."""

    name = "words"
    Options = WordOptions
    broken: Exception | None = None

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.solver = _AskOnce()
        self.scorers: Sequence[Scorer] = (_IsWord(strict=self.options.strict),)

    def ask_identity(self) -> dict[str, Any]:
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> ListedRows[str]:
        return ListedRows(list(self.options.words), key=str, set="words")

    def case(self, row: Row[str], subject: str) -> CaseContent:
        return CaseContent(row.data, gold=f"{row.data}!", label=row.data)

    def finish(self, results: Results[str], run: RunFacts) -> Outcome:
        values = [score.value or 0.0 for result in results for score in result.scores]
        path = Path(self.spec.output_dir) / RESULT_FILE
        path.write_text("half")
        if self.broken is not None:
            raise self.broken
        path.write_text(f"{sum(values):g} of {len(values)}\n")
        metric = proportion_metric("word", sum(values), len(values))
        return Outcome(Report(entries=[Entry(name="words", metrics=[metric])]), [path])


class WordRun:
    """The runs in one output folder."""

    def __init__(self, output: Path) -> None:
        self.output = output
        self.events: list[Event] = []

    def suite(self, common: Mapping[str, Any] | None = None, **options: Any) -> WordSuite:
        """`common` are options that every suite has."""
        values = {"model": "test/main", "output_dir": str(self.output), "max_retries": 0, **(common or {})}
        suite = WordSuite(RunSpec(suite="words", options=WordOptions(**options), **values))
        suite.roles = {"main": Role("test/main")}
        return suite

    def runner(self, model: Model, common: Mapping[str, Any] | None = None, **options: Any) -> Runner:
        return self.runner_of(self.suite(common, **options), model)

    def runner_of(self, suite: WordSuite, model: Model, *, trusted: bool = True) -> Runner:
        return Runner(suite, {"main": model}, [self.events.append], command=["words"], trusted=trusted)

    def start(self, model: Model, common: Mapping[str, Any] | None = None, **options: Any) -> Run:
        return asyncio.run(self.runner(model, common, **options).start_or_show())

    @property
    def notices(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Noted)]

    @property
    def result_file(self) -> str:
        return (self.output / RESULT_FILE).read_text()
