"""A whole suite in one file: ask each question of a file, compare the reply with its answer, write a file.

assay run examples/suites/quiz.py:Quiz examples/suites/quiz.jsonl --model local/smollm2
"""

import json
from pathlib import Path
from typing import Annotated, Any

import assay
from assay import Context, Match, Outcome, Problem, Request, Score, Struct


class QuizOptions(assay.SuiteOptions, frozen=True, kw_only=True):
    """Ask the questions of FILE and count the exact answers."""

    file: Annotated[str, assay.ask("Lines of question and answer.", positional="FILE", content=True)]
    shout: Annotated[bool, assay.ask("Ask in capital letters.")] = False


class Question(Struct, forbid_unknown_fields=True):
    question: str
    answer: str


class AskOnce(assay.Solver):
    async def solve(self, inputs: str, ctx: Context) -> None:
        model, messages = ctx.model(), [{"role": "user", "content": inputs}]
        reply = await model.ask(Request(model=model.name, endpoint=model.endpoint, messages=messages))
        ctx.emit("answer", reply.text.strip())


class ExactMatch(assay.Scorer):
    id = "exact_match@1"

    async def score(self, given: assay.ScorerInput, ctx: Context) -> list[Score]:
        reply = given.records[-1].data if given.records else ""  # a refused question has no record: it is wrong
        right = reply.casefold() == given.case.gold.casefold()
        return [Score(*given.case.head, self.id, "exact_match", value=float(right), expected=given.case.gold)]


class QuizFiles(assay.SuiteFiles):
    def recognises(self, path: Path) -> Match:
        return Match.LIKELY if path.is_file() and b'"question"' in path.read_bytes()[:99] else Match.NO

    def check(self, path: Path, beside: Path | None = None) -> list[Problem]:
        problems: list[Problem] = []
        assay.read_structs(path, Question, problems)
        return problems


class Quiz(assay.Suite[QuizOptions, Question]):
    name = "quiz"
    case_word = "question"
    Options = QuizOptions
    files = QuizFiles
    solver = AskOnce()
    scorers = (ExactMatch(),)

    def ask_identity(self) -> dict[str, Any]:
        return {}  # the run knows options, rows and the content of this file already

    def rows(self, facts: dict[str, Any] | None = None) -> assay.ListedRows[Question]:
        path = Path(self.options.file)
        problems: list[Problem] = []
        questions = assay.read_structs(path, Question, problems)
        assay.refuse(problems, path)  # wrong rows stop the run before anything is asked
        # The key is the whole row: an edited answer makes a new row, and no old score is shown for it.
        return assay.ListedRows(questions, key=repr, set=path.stem, limit=self.spec.limit)

    def case(self, row: assay.Row[Question], subject: str) -> assay.CaseContent:
        text = row.data.question.upper() if self.options.shout else row.data.question
        return assay.CaseContent(text, gold=row.data.answer, label=str(row.number + 1))

    def finish(self, results: assay.Results[Question], run: assay.RunFacts) -> Outcome:
        done = [(r.row.data.question, r.records, r.scores[0].value) for r in results if r.scores]
        rows = [(question, *(record.data for record in records), value) for question, records, value in done]
        path = Path(self.spec.output_dir) / "answers.jsonl"
        path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows))
        # With its denominator and its interval. Without rows the value is None: not measured is not 0.
        metric = assay.proportion_metric("exact_match", sum(value for *_, value in rows), len(rows))
        entry = assay.Entry(name=self.spec.model, subject=self.spec.model, metrics=[metric])
        return Outcome(assay.Report(entries=[entry]), [path])
