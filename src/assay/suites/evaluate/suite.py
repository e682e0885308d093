"""The suite behind `assay.evaluate`: rows x subjects, where a subject is a function, a prompt or a model.

Other suites are built from a `RunSpec` alone. This one is not, because a spec cannot contain functions:
`assay/runner/evaluate.py` builds it from the arguments of `assay.evaluate`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import UsageError, cannot_write
from assay.core.hashing import fingerprint
from assay.core.report import Report
from assay.core.roles import Role
from assay.core.spec import RunSpec, apply_limit
from assay.core.suite import MAIN, CaseContent, Outcome, Results, Row, RunFacts, Suite, WorkerSolver
from assay.files.excerpt import cut_end
from assay.files.plain_files import is_plain, read_plain
from assay.files.write import write_whole
from assay.language.templates import Template, TemplateProblem, template_names
from assay.scoring.judge import ROLE, Judge, judge_name
from assay.suites.evaluate.arguments import subject_arguments
from assay.suites.evaluate.options import EvaluateOptions
from assay.suites.evaluate.rows import QUESTION_COLUMNS, EvaluateRows
from assay.suites.evaluate.scorers import (
    AnswerJudge,
    EvaluateScorer,
    FunctionScorer,
    JudgeScorer,
    MetricScorer,
    NamedMetric,
    OwnScorer,
    Rubric,
    RubricScorer,
    ScorerLike,
    find_text_metric,
    gold_columns,
)
from assay.suites.evaluate.subjects import (
    EvaluateInputs,
    EvaluateSolver,
    FunctionSubject,
    PromptSubject,
    Subject,
    function_prompt,
    template_prompt,
)
from assay.suites.evaluate.tally import make_entry
from assay.usercode.identity import FunctionIdentity, identify
from assay.usercode.opened_files import watch_opens
from assay.usercode.source import describe_callable

ROWS_FILE = "rows.jsonl"
_FROM_PYTHON = "an evaluation has functions in it: run the Python program that called assay.evaluate again"


def build_on_worker(
    spec: RunSpec,
    columns: Sequence[str],
    gold: Sequence[str],
    subjects: Mapping[str, SubjectSpec],
    identity: dict[str, Any],
) -> WorkerSolver:
    """Build the solver from its functions, which were sent along. The files they come from need not be here."""
    # A version, because without the files assay cannot compare the sources; and no judge, because nothing is scored.
    options = replace(spec.options, version="sent", target=list(gold), tags=[])
    suite = EvaluateSuite(replace(spec, options=options, judge=None, limit=None), [dict.fromkeys(columns)], subjects)
    return WorkerSolver(suite.solver, identity)


def _program_name() -> str:
    """Return the file name of the running program, for messages. Empty in a notebook."""
    file = vars(sys.modules["__main__"]).get("__file__")
    return Path(file).name if isinstance(file, str) else ""


class SubjectSpec(Struct, frozen=True):
    """The arguments of `assay.evaluate` for one subject: a function `answer`, or a model and its prompt."""

    answer: Callable[..., Any] | None = None
    model: str | Callable[..., Any] | None = None
    prompt: str | Callable[..., Any] | None = None


class EvaluateSuite(Suite[EvaluateOptions, int]):
    """Evaluates functions, prompts and models of a Python program."""

    name = "evaluate"
    pages = "assay.suites.evaluate.suite_pages:EvaluatePages"
    Options = EvaluateOptions

    def __init__(
        self,
        spec: RunSpec,
        rows: Sequence[dict[str, Any]] = (),
        subjects: Mapping[str, SubjectSpec] | None = None,
        score: Sequence[ScorerLike] = (),
    ) -> None:
        super().__init__(spec)
        if not subjects:
            raise UsageError(_FROM_PYTHON)
        self._subject_specs = subjects
        gold = list(dict.fromkeys([*self.options.target, *gold_columns(score)]))
        self._rows = EvaluateRows(
            rows[: apply_limit(spec.limit, len(rows))], gold, self.options.name, self.options.target
        )
        for column in self.options.tags:
            if column not in self._rows.columns:
                raise UsageError(f"tags: the rows have no column {column!r}")
        self._notices: list[str] = []
        self._identities: dict[str, Any] = {}
        self._judge = self._named_judge(score)
        self.roles = self._model_roles(subjects)
        if self._judge is not None:
            self.roles |= self._judge.roles
        self._subjects = {name: self._subject(name, given) for name, given in subjects.items()}
        self.solver = EvaluateSolver(self._subjects, self.options.repeats)
        self._scorers = self._build_scorers(score)
        self.scorers = self._scorers
        self.notices = self._notices

    # Subjects

    def _model_roles(self, subjects: Mapping[str, SubjectSpec]) -> dict[str, Role]:
        """Return the models by role. If all subjects use the same model, its role is `main`.

        Otherwise each role has the name of its subject.
        """
        if ROLE in subjects:
            raise UsageError(f"a subject cannot be called {ROLE!r}: that is the name of the judge's role")
        models = {name: given.model for name, given in subjects.items() if given.model is not None}
        roles = {}
        for name, model in models.items():
            text = model if isinstance(model, str) else f"python/{describe_callable(model)}"
            roles[self._role_of(name, subjects)] = Role(text, params=self.spec.gen_kwargs)
        self._role_names = {name: self._role_of(name, subjects) for name in subjects}
        return roles

    @staticmethod
    def _role_of(name: str, subjects: Mapping[str, SubjectSpec]) -> str:
        several = any(given.model != subjects[name].model for given in subjects.values())
        return name if several else MAIN

    def role_name(self, subject: str) -> str:
        """Return the role of the model that a subject uses."""
        return self._role_names[subject]

    def _subject(self, name: str, given: SubjectSpec) -> Subject:
        rows, gold = self._rows, self._rows.gold_columns
        if given.answer is not None:
            if given.prompt is not None:
                raise UsageError("answer= is a function that builds its own prompts: remove prompt=")
            arguments = subject_arguments(given.answer, rows.columns, gold, "answer=")
            if arguments.takes("ctx") and given.model is None and not self.roles:
                # Without this notice, the mistake would show only when ctx.ask() fails in the first case.
                self._notices.append(f"{describe_callable(given.answer)}() takes ctx, but no model= is named to ask")
            self._identities[name] = self.identity_of(given.answer, "answer=")
            return FunctionSubject(
                given.answer,
                arguments,
                role=self._role_names[name],
                timeout=self.spec.timeout,
                name=describe_callable(given.answer),
            )
        if given.model is None:
            raise UsageError("nothing is evaluated: pass answer=FUNCTION, or model=NAME with prompt=TEMPLATE")
        prompt = self._default_prompt() if given.prompt is None else given.prompt
        if callable(prompt):
            arguments = subject_arguments(prompt, rows.columns, gold, "prompt=")
            self._identities[name] = self.identity_of(prompt, "prompt=")
            render = function_prompt(prompt, arguments)
        else:
            self._identities[name] = prompt
            render = template_prompt(self._template(prompt))
        return PromptSubject(
            render,
            role=self._role_names[name],
            system_instruction=self.options.system_instruction,
        )

    def _default_prompt(self) -> str:
        columns = self._rows.input_columns
        for column in QUESTION_COLUMNS:
            if column in columns:
                return "{{ " + column + " }}"
        if len(columns) == 1:
            return "{{ " + columns[0] + " }}"
        raise UsageError(
            f"model= needs a prompt, because the rows have no column called {', '.join(QUESTION_COLUMNS)}. "
            f"Pass one, such as prompt='{{{{ {columns[0] if columns else 'question'} }}}}'"
        )

    def _template(self, source: str) -> Template:
        """Return the compiled prompt. Raises UsageError for a name that is a gold column, or not a column."""
        try:
            template = Template(source)
            names = template_names(source)
        except TemplateProblem as error:
            raise UsageError(f"prompt: {error}") from None
        for name in sorted(names):
            if name in self._rows.gold_columns:
                raise UsageError(f"the prompt names {name!r}, which is gold: the evaluated model must not see it")
            if name not in self._rows.columns:
                columns = ", ".join(self._rows.input_columns)
                raise UsageError(f"the prompt names {name!r}, but the rows have no such column; they have: {columns}")
        if not names and self._rows.count > 1:
            column = self._rows.input_columns[0] if self._rows.input_columns else "column"
            self._notices.append(
                f"the prompt {cut_end(source, 40)!r} names no column, so every row sends the same text. "
                f"A column is written {{{{ {column} }}}}"
            )
        return template

    def identity_of(self, function: Callable[..., Any], what: str) -> dict[str, Any]:
        """Return the values that identify a function: its source and the values it uses.

        Raises UsageError if the function has no source. Adds a notice if it uses a value that assay cannot compare
        between runs. `version=` of `assay.evaluate` turns both off.
        """
        watch_opens()  # the files that a function reads are no part of its identity
        identity: FunctionIdentity = identify(function)
        name = describe_callable(function)
        if self.options.version:
            return identity.parts
        if not identity.has_source:
            raise UsageError(
                f"{what} {name}() has no source that assay could compare between runs; "
                "pass version='1', and another version whenever the function changes"
            )
        if identity.unknown:
            self._notices.append(
                f"{name}() uses {', '.join(identity.unknown)}, which cannot be compared between runs: answers are "
                "reused although it may have changed. Pass version='1', and another version when it changes"
            )
        return identity.parts

    # Scorers

    def _named_judge(self, score: Sequence[ScorerLike]) -> Judge | None:
        uses_judge = any(each == "judge" or isinstance(each, (AnswerJudge, Rubric)) for each in score)
        own = [each for each in score if callable(each) or isinstance(each, OwnScorer)]
        if self.spec.judge:
            if not uses_judge and not own:
                raise UsageError("judge= is named but no scorer asks it; add 'judge' or assay.rubric(...) to score")
            return Judge(judge_name(self.spec.judge), self.spec.votes, params=self.spec.judge_kwargs)
        if uses_judge:
            raise UsageError("a scorer asks a judge; name it: judge='openai/NAME', or judge='offline' for fixed rules")
        return None

    def _build_scorers(self, score: Sequence[ScorerLike]) -> list[EvaluateScorer]:
        built: list[EvaluateScorer] = []
        self._owners: dict[str, str] = {}
        for each in score:
            new = self._scorer(each, {other.name for other in built})
            if any(new.name == other.name for other in built):
                raise UsageError(
                    f"two scorers are called {new.name!r}. Give one of them another name: "
                    "assay.exact_match(…, name='NAME'), assay.scorer(FUNCTION, name='NAME')"
                )
            built.append(new)
            self._owners[new.name] = new.name
        return built

    def _scorer(self, each: ScorerLike, taken: set[str]) -> EvaluateScorer:
        rows = self._rows
        if isinstance(each, str):
            each = AnswerJudge() if each == "judge" else NamedMetric(each)
        if isinstance(each, NamedMetric):
            find_text_metric(each.metric)  # reports a mistyped metric before a missing column
            return MetricScorer(each, rows, self._target_of(each.column, each.name))
        if isinstance(each, AnswerJudge):
            assert self._judge is not None
            return JudgeScorer(each, self._judge, rows, self._target_of(each.column, "judge"), self._question_of(each))
        if isinstance(each, Rubric):
            assert self._judge is not None
            target = self._target_of(each.column, "rubric") if each.column else lambda _number: None
            return RubricScorer(each, self._judge, rows, target)
        if not isinstance(each, OwnScorer):
            if not callable(each):
                raise UsageError(f"score= takes functions, names and scorers of assay, not {type(each).__name__}")
            each = OwnScorer(each)
        name = each.name or describe_callable(each.function)
        number = 2
        while name in taken and name.startswith("lambda"):
            name, number = f"lambda{number}", number + 1
        watch_opens()
        scorer = FunctionScorer(each, name, rows, self._whole_target, timeout=self.spec.timeout, owners=self._owners)
        if scorer.identity.unknown and not each.version:
            self._notices.append(
                f"the scorer {name}() uses {', '.join(scorer.identity.unknown)}, which cannot be compared between "
                "runs: it scores every answer again in each start. assay.scorer(f, version='1') prevents that"
            )
        return scorer

    def _target_of(self, column: str, what: str) -> Callable[[int], Any]:
        """Return a function from the number of a row to the gold value that a metric or judge compares with."""
        if not column:
            if not self._rows.gold_columns:
                raise UsageError(f"{what} compares with a column; name it: target='COLUMN'")
            return self._whole_target
        return lambda number: self._rows.gold(number).get(column)

    def _whole_target(self, number: int) -> Any:
        """Return the value of the target column. With several target columns, return a dict."""
        gold = self._rows.gold(number)
        columns = self.options.target or self._rows.gold_columns
        if len(columns) == 1:
            return gold.get(columns[0])
        return {column: gold.get(column) for column in columns} or None

    def _question_of(self, judge: AnswerJudge) -> Callable[[int], str]:
        columns = self._rows.input_columns
        if judge.question and judge.question not in self._rows.columns:
            raise UsageError(f"judge: the rows have no column {judge.question!r}; they have: {', '.join(columns)}")
        column = judge.question or next((name for name in QUESTION_COLUMNS if name in columns), "")
        if not column and len(columns) == 1:
            column = columns[0]
        if column:
            return lambda number: str(self._rows.whole(number).get(column))
        return lambda number: msgspec.json.encode(self._rows.inputs(number)).decode()

    # The run's identity

    def ask_identity(self) -> dict[str, Any]:
        """Return the source of the evaluated functions, the prompts, and the names of the gold columns."""
        return {"subjects": self._identities, "gold": sorted(self._rows.gold_columns)}

    def data_identity(self) -> Any:
        """Return a fingerprint of the rows without gold, and of their tags.

        Tags are written to the journal when a case ends, so changed tags need a new run.
        """
        keys = [row.key for row in self._rows.iterate()]
        tags = [self._tags_of(row.data) for row in self._rows.iterate()] if self.options.tags else []
        return fingerprint([*keys, *tags])

    def recipe(self) -> Callable[[], WorkerSolver]:
        """Return a function that builds the solver on a worker, from the functions and the names of the columns."""
        return partial(
            build_on_worker,
            self.spec,
            self._rows.columns,
            self._rows.gold_columns,
            self._subject_specs,
            self.ask_identity(),
        )

    # Cases

    def rows(self, facts: dict[str, Any] | None = None) -> EvaluateRows:
        """Return the rows.

        The facts get the number of subjects, because `assay show` computes the row of a case from it, and the name
        of the program, for messages.
        """
        self._rows.facts["subjects"] = len(self._subjects)
        self._rows.facts["program"] = _program_name()
        return self._rows

    def subjects(self) -> Sequence[str]:
        """Return the names of the evaluated functions, prompts or models."""
        return list(self._subjects)

    def case(self, row: Row[int], subject: str) -> CaseContent:
        """Return the case of a row: the row without gold, and the row's number, by which scorers look up the gold."""
        inputs = self._rows.inputs(row.data)
        label = str(inputs.get("id", row.number + 1))
        return CaseContent(EvaluateInputs(subject, inputs), gold=row.data, label=label, tags=self._tags_of(row.data))

    def _tags_of(self, number: int) -> tuple[str, ...]:
        """Return the values of the tag columns. With several tag columns, a tag has the form COLUMN=VALUE."""
        columns = self.options.tags
        if not columns:
            return ()
        row = self._rows.whole(number)
        tags = []
        for column in columns:
            value = row.get(column)
            values = value if isinstance(value, list) else [value]
            prefix = f"{column}=" if len(columns) > 1 else ""
            tags += [f"{prefix}{item}" for item in values if item is not None]
        return tuple(tags)

    def prepare(self, run: RunFacts) -> None:
        """Write the rows to the run folder, so that `load` and `show` work without the program.

        An existing file is replaced if gold values have changed since.
        """
        path, content = run.folder / ROWS_FILE, self._rows.as_jsonl()
        try:
            if not is_plain(path) or read_plain(path) != content:
                write_whole(path, content)
        except OSError as error:
            raise cannot_write(path, error) from error

    # Results

    def finish(self, results: Results[int], run: RunFacts) -> Outcome:
        """Build the report. Unlike other suites, this one writes no result files beside the run folder."""
        about = {scorer.name: scorer.about for scorer in self._scorers}
        scorer_of = {scorer.id: scorer.name for scorer in self._scorers}
        judges = [scorer.info for scorer in self._scorers if scorer.info is not None]
        entries = [make_entry(subject, results.of(subject), about, scorer_of, judges) for subject in self.subjects()]
        return Outcome(Report(entries=entries, entry_word="subject"))

    # Finished runs, read without the program

    @classmethod
    def replace_files(cls, spec: RunSpec, files: Sequence[str], facts: Mapping[str, Any]) -> RunSpec:
        """Raise UsageError: only the Python program has the scorers, so `assay rescore` cannot run them."""
        program = facts.get("program") or "the program that made it"
        raise UsageError(f"this run was scored by functions of a Python program: run {program} again")
