"""Suite: the base class of everything that `assay` can run.

A suite reads one format. It returns the rows of the data and the subjects to evaluate, defines how one case (one row
with one subject) is solved and scored, and turns the results into a Report and into result files. The engine does
the rest: it schedules the cases, saves every reply, continues after a kill and limits the requests.

A whole suite, exact match over questions and answers:

    class Quiz(Suite[QuizOptions, Question]):
        \"\"\"Ask the questions of a file.\"\"\"

        name = "quiz"
        Options = QuizOptions

        def __init__(self, spec):
            super().__init__(spec)
            self.solver = QuizSolver()
            self.scorers = [ExactMatch()]

        def ask_identity(self):
            return {"prompt": PROMPT}

        def rows(self, facts=None):
            return ListedRows([...], key=lambda question: question.text, set="quiz")

        def case(self, row, subject):
            return CaseContent(inputs=row.data.text, gold=row.data.answer)

        def finish(self, results, run):
            return Outcome(Report(entries=[...]))

The order of a run:

1. `resolve` completes the spec, and the main model is connected.
2. The suite is built, and the models of its other roles are connected.
3. `ask_identity`, `data_identity` and `score_identity` make the fingerprints that identify the run. The default
   `data_identity` reads the rows.
4. The runner looks for a run folder with this fingerprint. `rows` reads the data. A new run gets a new folder.
5. The cases run. `finish` reads the results once. `on_report` gets the report, also that of a run that was
   already finished.
"""

from __future__ import annotations

import json
import traceback
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import IntEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec
from msgspec import Struct, field

from assay.core.connect import Role
from assay.core.errors import AssayError, DamagedRun, Problem, UsageError
from assay.core.hashing import RepeatFinder, Twins, row_key
from assay.core.protocols import Scorer, Solver, View
from assay.core.report import Report, Table
from assay.core.spec import RunSpec, SuiteOptions, apply_limit
from assay.core.types import ASK, CLOSING_KINDS, Call, Case, End, Failure, Record, Request, Score

if TYPE_CHECKING:
    # What pages, checks, imports and exports need. A run starts without them.
    from assay.core.case_details import CaseDetails, CurveValue, HeldSession, PromptPiece, QuestionDetail
    from assay.core.exported import Exporter
    from assay.core.file_check import CheckOptions, FileCheck
    from assay.core.imported import ImportedRun
    from assay.core.json_schema import FileSchema

OptionsT = TypeVar("OptionsT", bound=SuiteOptions)
DataT = TypeVar("DataT")

MAIN = "main"
"""The role of the model that --model names."""


class Row(Struct, Generic[DataT], frozen=True):
    """One row of the data.

    `key` is a hash of the row's inputs. It does not depend on gold (where the format separates gold from inputs) or
    on the subject, because runs are continued and compared by key. `set` names the row's task or file.
    """

    number: int
    key: str
    set: str
    data: DataT


class Rows(Protocol[DataT]):
    """The data of a run, in order. It is iterated several times."""

    @property
    def count(self) -> int:
        """The number of rows."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """Facts that are slow to compute. run.json saves them, and the next start passes them to `Suite.rows`."""
        ...

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[DataT]]:
        """Yield the rows in data order, except those for whose number `skip` returns True.

        Skipped rows still take their random draws (such as few-shot examples), so that the other rows get the same
        draws in every start.
        """
        ...


class ListedRows(Generic[DataT]):
    """Rows of a list in memory. Equal keys are numbered: the second one becomes `key~2`.

    `limit` is the spec's `limit`: the first items of each set, or below 1 a share of them.
    """

    def __init__(
        self,
        items: Sequence[DataT],
        *,
        key: Callable[[DataT], bytes | str],
        set: str | Callable[[DataT], str],  # noqa: A002 - the field's own name
        facts: dict[str, Any] | None = None,
        limit: float | None = None,
    ) -> None:
        self._set = set
        if limit is not None:
            items = self._first_of_each_set(items, limit)
        self._items = items
        self.count = len(items)
        self.facts = facts or {}
        keys = [row_key(_as_bytes(key(item))) for item in items]
        repeats = RepeatFinder()
        for name in keys:
            repeats.add(name)
        twins = Twins(repeats.repeated())
        self.keys = [twins.name(name) for name in keys]

    def _first_of_each_set(self, items: Sequence[DataT], limit: float) -> Sequence[DataT]:
        counts = Counter(self._set_of(item) for item in items)
        remaining = {name: apply_limit(limit, count) for name, count in counts.items()}
        selected = []
        for item in items:
            name = self._set_of(item)
            remaining[name] -= 1
            if remaining[name] >= 0:
                selected.append(item)
        return selected

    def _set_of(self, item: DataT) -> str:
        return self._set if isinstance(self._set, str) else self._set(item)

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[DataT]]:
        """Yield the rows in the order of the list."""
        for number, item in enumerate(self._items):
            if skip is None or not skip(number):
                yield Row(number, self.keys[number], self._set_of(item), item)


def _as_bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


class CaseContent(Struct, frozen=True):
    """The content of one case: a row as one subject gets it. `inputs` go to the solver, `gold` to scorers only.

    A case with a `failure` is not run. It counts as failed for that reason.
    """

    inputs: Any
    gold: Any = None
    label: str = ""
    tags: tuple[str, ...] = ()
    failure: Failure | None = None


class CaseResult(Struct, Generic[DataT]):
    """Everything that the journal has about one case. `end` is None if the case has not ended."""

    index: int
    row: Row[DataT]
    subject: str
    end: End | None
    records: list[Record]
    scores: list[Score]
    """The scores of all scorers, in the order of `Suite.scorers`."""


class Results(Protocol[DataT]):
    """The results of a run in data order. Iteration raises StopRun if the data changed since the case was run."""

    def __iter__(self) -> Iterator[CaseResult[DataT]]:
        """Yield all results, row by row: first all subjects of the first row."""
        ...

    def of(self, subject: str) -> Iterator[CaseResult[DataT]]:
        """Yield the results of one subject, row by row."""
        ...


class RunFacts(Struct, frozen=True):
    """Start time, duration and folder of a run, for suites whose result files contain them."""

    started: float
    seconds: float
    folder: Path


class WorkerParts(NamedTuple):
    """What a worker needs of a suite: how one case runs, and the `ask_identity` of the files it was built from."""

    solver: Solver
    identity: Any


class RemoteCase(Struct, frozen=True):
    """A case that a worker has run, with its records, when it started, and how long it took."""

    case: Case
    records: Sequence[Record]
    failure: Failure | None
    started: float
    seconds: float


class Outcome(NamedTuple):
    """The outcome of a run: its report, and the result files that `finish` wrote.

    Files that stand in the run folder are copied to the folder `newest`, together with summary.json. So `newest` always
    has the files of the most recent run.
    """

    report: Report
    files: Sequence[Path] = ()
    newest: Path | None = None


class Section(Struct, kw_only=True):
    """One part of the output of `assay show RUN CASE`: a heading, a text and a table, each optional."""

    heading: str = ""
    text: str = ""
    table: Table | None = None
    indent: int = 0
    max_chars: int | None = None
    """Longer texts are cut to this many characters."""


class CaseView(NamedTuple):
    """One case with everything that the journal has about it, for `assay show`."""

    end: End
    records: list[Record]
    scores: list[Score]
    calls: Sequence[Call] = ()
    row: dict[str, Any] | None = None
    """The whole row, where the run folder has it (`rows.jsonl`)."""
    neutral: frozenset[str] = frozenset()
    """Metrics for which a 0 is no failure, such as an error rate."""

    @property
    def name(self) -> str:
        """The case as reports name it: `set/key`."""
        return f"{self.end.set}/{self.end.case}"

    @property
    def id(self) -> Any:
        """The case's id in the data, if a score contains one; else None."""
        for score in self.scores:
            if isinstance(score.data, dict) and "id" in score.data:
                return score.data["id"]
        return None

    @property
    def answer(self) -> Any:
        """The data of the first record of the kind `answer`. None if the case has no answer."""
        for record in self.records:
            if record.kind == "answer":
                return record.data
        return None

    @property
    def failed(self) -> bool:
        """Whether the case has no answer, or a score that is 0 or invalid."""
        if self.end.status != "ok":
            return True
        for score in self.scores:
            zero = score.value == 0 and score.metric not in self.neutral
            if not score.interim and (score.status == "invalid" or zero):
                return True
        return False


class RunOrigin(Struct, frozen=True):
    """What run.json stores about the data of a run: its options and `Rows.facts`. The data may have changed since.

    `plan` is the `ask_identity` of the suite. Relative paths of the options start at `folder`.
    """

    options: Mapping[str, Any]
    facts: Mapping[str, Any]
    plan: Mapping[str, Any] = {}
    folder: Path = Path()


class GradedAnswer(Struct, frozen=True, kw_only=True):
    """An answer with everything that a person needs to decide whether it is right, and the decision of its score.

    With a rubric, `response` is the text that the rubric is about.
    """

    metric: str
    part: str = ""
    response: str
    question: str = ""
    reference: str = ""
    rubric: str = ""
    category: str = ""
    cluster: str = ""
    """Answers that belong together, such as those about one conversation."""
    evidence: tuple[str, ...] = ()
    """Texts from which the reference follows, if the judge read them too."""
    accepted: bool | None = None
    """True for a score of 1, False for a score of 0, None for any other score."""


class PlannedCalls(Struct, frozen=True, kw_only=True):
    """The requests that a run would send to one model for one purpose. None means that they cannot be predicted."""

    what: str
    """The purpose, such as `judge the rows`."""
    model: str
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cost: float | None = None
    """The price of these tokens in US dollars, from the price table. Suites leave it out."""
    no_cost: str = ""
    """Why the price is not known."""


class Overview(Struct, kw_only=True):
    """The plan of a run, for `--dry-run`."""

    facts: dict[str, str] = field(default_factory=dict)
    calls: list[PlannedCalls] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)
    prices: str = ""
    """The price table of the calls' `cost`: its file and date."""


class Match(IntEnum):
    """How sure a suite is that a file is in one of its formats."""

    NO = 0
    MAYBE = 1
    LIKELY = 2
    SURE = 3


# Methods of a suite that read one case of a run. One of their arguments is a CaseView, or its records.
_CASE_READERS = (
    *("sections", "answer_text", "question_sections", "details", "prompt_pieces"),
    *("question_detail", "held_items", "curve_values", "graded_answers"),
)
# What code raises that meets a value of another form than it expects.
_FORM_ERRORS = (
    *(KeyError, IndexError, TypeError, AttributeError, ValueError),
    *(RecursionError, OverflowError, msgspec.ValidationError),
)


@contextmanager
def damage_of(place: str) -> Iterator[None]:
    """Context manager for code that reads records and scores of any run folder: raises DamagedRun for odd ones.

    A run folder may be forged: its lines have matching checksums, and forms that no suite writes.
    """
    try:
        yield
    except AssayError:
        raise
    except _FORM_ERRORS as error:
        frame = traceback.extract_tb(error.__traceback__)[-1]
        code = f"{type(error).__name__}: {error} in {Path(frame.filename).name}:{frame.lineno}"
        message = f"has a record or score of a form that its suite does not write ({code})"
        raise DamagedRun(Problem(place, message)) from error


def _names_damage(method: Callable[..., Any]) -> Callable[..., Any]:
    """Return a method of `_CASE_READERS` that raises DamagedRun, with the case, instead of any other error of forms."""

    @wraps(method)
    def read(cls: type[Suite[Any, Any]], *arguments: Any) -> Any:
        with damage_of(_place(arguments)):
            return method(cls, *arguments)

    return read


def _place(arguments: Sequence[Any]) -> str:
    for argument in arguments:
        if isinstance(argument, CaseView):
            return f"case {argument.end.index} ({argument.name})"
        if isinstance(argument, Sequence) and argument and isinstance(argument[0], Record):
            return f"case {argument[0].index} ({argument[0].set}/{argument[0].case})"
    return "a case"


class Suite(ABC, Generic[OptionsT, DataT]):
    """The base class of all suites. Methods that are not abstract have a default that fits most suites."""

    def __init_subclass__(cls) -> None:
        """Let the methods that read cases name damage: here, because every suite trusts what it wrote itself."""
        super().__init_subclass__()
        for name in _CASE_READERS:
            own = cls.__dict__.get(name)
            if isinstance(own, classmethod):
                setattr(cls, name, classmethod(_names_damage(own.__func__)))

    name: ClassVar[str]
    """The name in run folders and in Python, such as `memory-test`."""
    Options: ClassVar[type[SuiteOptions]]
    """The suite's own options. The command's flags and help come from this struct."""
    parts: ClassVar[Literal["none", "filters", "rows"]] = "none"
    """The meaning of `Score.part`: unused; the name of the filter that read the answer; or the id of a row inside
    the case, such as a test or a question. run.json saves it, because `compare` pairs such rows, not cases."""
    case_word: ClassVar[str] = "case"
    """The word for a case of this suite in output, such as row, test or conversation."""
    has_questions: ClassVar[bool] = False
    """Whether a case consists of many questions, which `assay show RUN CASE --question ID` shows one by one."""

    computes: ClassVar[bool] = False
    """Whether coroutines of user code may compute for long, as those of memories. They then get a loop of their own,
    so that replies are logged in the meantime (core/user_loop.py)."""
    logs: ClassVar[Sequence[str]] = ()
    """Names of files in the output folder to which cases append while they run. `assay merge` joins those of shards."""
    stores: ClassVar[str] = ""
    """What `on_report` writes outside of the output folder, for messages; empty if it writes nothing."""
    dimensions: ClassVar[Sequence[str]] = ()
    """Names of the metrics that the page of a memory run shows as its dimensions, in order."""

    checkpoints: bool = False
    """Whether `checkpoint` is called for every case."""
    roles: Mapping[str, Role]
    """The models of the run, by role. The default is --model as `main`; a run without --model is then refused."""
    shared_endpoint: str | None = None
    """The role of the model that user code reaches through OPENAI_BASE_URL without knowing its case. None means
    that no port is opened and the environment stays unchanged."""
    open_cases: int | None = None
    """How many cases run at once. None means `--concurrency`."""
    exclusive_output: bool = False
    """Whether the result files have fixed names, so that two runs cannot share an output folder."""
    notices: Sequence[str] = ()
    """Sentences to print before the run starts, such as warnings. They do not stop the run."""
    solver: Solver
    """How one case runs."""
    scorers: Sequence[Scorer] = ()
    """They score each case, in this order."""

    # Before models are connected.

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Return the spec with defaults filled in that depend on the environment, such as judge and output folder.

        `output_dir` is empty if the user passed none. If it stays empty, it becomes `Options.default_output`.
        """
        return spec

    @classmethod
    def adopt(cls, spec: RunSpec) -> Path | None:
        """Return the folder of an existing run to score again, as for `--eval-only`; None for an ordinary run.

        Of an adopted run only the models of `score` roles, its judges, are called.
        """
        return None

    @classmethod
    def replace_files(cls, spec: RunSpec, files: Sequence[str], facts: Mapping[str, Any]) -> RunSpec:
        """Return the spec of a finished run with other task files in place of its own, for `assay rescore`."""
        if files:
            raise UsageError(f"a {cls.name} run has no files that `assay rescore` could replace")
        return spec

    @classmethod
    def instead_of_run(cls, spec: RunSpec) -> Report | Sequence[Section] | str | None:
        """Return what the command prints instead of running, such as a list of tasks; None if it should run."""
        return None

    def __init__(self, spec: RunSpec) -> None:
        """Check the options and build solver and scorers. Does not read the data: worker processes build suites too."""
        if not isinstance(spec.options, self.Options):
            raise TypeError(
                f"{type(self).__name__} takes {self.Options.__name__}, not {type(spec.options).__name__}"
            )
        self.spec = spec
        self.options: OptionsT = spec.options  # type: ignore[assignment]  # checked above
        self.roles = {MAIN: Role(model=spec.model, params=spec.gen_kwargs)}

    # Which run this is.

    @abstractmethod
    def ask_identity(self) -> dict[str, Any]:
        """Return everything besides options and data that can change a reply: code, prompts, parameters.

        A change starts another run. The method does not read the data.
        """

    def data_identity(self) -> Any:
        """Return an identity of the data's content. The default is every row's key, which reads the rows.

        A suite with a large corpus returns the hash of its files instead. A suite that loads all rows here should keep
        them, so that `rows` does not read the file again.
        """
        return [row.key for row in self.rows().iterate()]

    def reuse_identity(self) -> Any:
        """Return what another run of the output folder must share for its replies to equal requests to be taken.

        The default None takes none. A suite whose cases have an expensive part that another option leaves as it is
        returns the identity of that part: the building of memories, if only another model answers.
        """
        return None

    def score_identity(self) -> Any:
        """Return everything besides options that can change a score. A change scores the saved replies again.

        The default is the scorers' ids. A suite whose ids do not depend on gold adds gold.
        """
        return [scorer.id for scorer in self.scorers]

    # What runs.

    @abstractmethod
    def rows(self, facts: dict[str, Any] | None = None) -> Rows[DataT]:
        """Return the data. `facts` are the `Rows.facts` of an earlier start of this run. Raises InputError."""

    def subjects(self) -> Sequence[str]:
        """Return the names of the subjects: variants, profiles or memories. The default is the run's model."""
        return [self.spec.model or self.name]

    def has(self, row: Row[DataT], subject: str) -> bool:
        """Return whether this subject runs this row. A suite that overrides this also overrides `total`."""
        return True

    def total(self, rows: Rows[DataT]) -> int:
        """Return the number of cases."""
        return rows.count * len(self.subjects())

    @abstractmethod
    def case(self, row: Row[DataT], subject: str) -> CaseContent:
        """Return the row as this subject gets it. Must be pure: a later start calls it again for the same case."""

    async def passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        """Return whether the records that a case emitted for `part` meet its expectations. Must not call a judge.

        It answers `ctx.passed(part)`, through which a solver learns the verdict but never sees the expectations.
        """
        raise UsageError(f"ctx.passed() is not available: the suite {self.name} has no `passed` method.")

    def prepare(self, run: RunFacts) -> None:
        """Write what readers need besides the journal, mostly into the run folder.

        Called before the first case of each start, with 0 seconds.
        """

    def resume(self, results: Results[DataT]) -> None:
        """Take notice of the results so far. Called after `prepare` if the run is continued."""

    async def checkpoint(self, view: View, folder: Path, redact: Callable[[bytes], bytes]) -> None:
        """Write the answers of a case that has ended and is not scored yet, for users who need them before the end.

        `folder` is the run folder, `redact` removes secrets from a line. May be called again for the same case.
        """

    # On workers of another machine.

    def recipe(self) -> Callable[[], WorkerParts] | None:
        """Return a function that builds the solver on a worker, without data. None: the suite is built from its spec.

        The solver must not write files of its own there: see `write_remote_case`.
        """
        return None

    def write_remote_case(self, case: RemoteCase) -> None:
        """Write what the solver would have written itself if the case had run in this process, such as a log."""

    # What comes of it.

    @abstractmethod
    def finish(self, results: Results[DataT], run: RunFacts) -> Outcome:
        """Read the results once, in data order, write the result files and return the report."""

    def on_report(self, report: Report) -> Sequence[str]:
        """Return notices to print with a report. Called at each start, also for a run that was already finished.

        What the suite keeps outside of the output folder is written here, and `stores` names it. `assay rescore` and
        `assay merge` do not call it: the folder that they read may be somebody else's.
        """
        return ()

    def overview(self, rows: Rows[DataT]) -> Overview:
        """Return the plan that `--dry-run` prints."""
        facts = {"rows": f"{rows.count:,}", "subjects": ", ".join(self.subjects())}
        planned = [PlannedCalls(what=name, model=role.model) for name, role in self.roles.items()]
        return Overview(facts={**facts, "cases": f"{self.total(rows):,}"}, calls=planned)

    async def close(self) -> None:
        """Close everything that the suite opened or started."""
        await self.solver.close()

    # Files without a run.

    @classmethod
    def recognises(cls, path: Path) -> Match:
        """Return how sure the suite is that the file is in one of its formats. Used by `assay check`."""
        return Match.NO

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        """Return every problem of a file. `beside` is a second file that it belongs to, such as a pipeline."""
        return []

    @classmethod
    def examine(cls, path: Path, options: CheckOptions) -> FileCheck:
        """Return as what a file is checked, what it contains, and every problem, for `assay check`.

        The default calls `check`. A suite with several formats overrides this method, to name the format.
        """
        from assay.core.file_check import FileCheck

        return FileCheck(kind=f"file of {cls.name}", problems=cls.check(path, options.beside))

    @classmethod
    def read_results(cls, path: Path) -> ImportedRun | None:
        """Return the results in a file or folder of the suite's format, whoever wrote it, for `assay import`.

        Returns None if the path has none. Raises InputError if it has results that cannot be read.
        """
        return None

    @classmethod
    def exporter(cls) -> Exporter | None:
        """Return the exporter that writes runs in the suite's own format, for `assay export`; None if there is none."""
        return None

    @classmethod
    def file_schemas(cls) -> Sequence[FileSchema]:
        """Return the JSON Schemas of the files that the suite reads. `assay schema` lists and prints them."""
        return ()

    @classmethod
    def sections(cls, case: CaseView) -> Sequence[Section]:
        """Return what `assay show RUN CASE` prints of records and scores, below prompts and replies.

        A class method without a spec, because the data of an old run may no longer exist.
        """
        pairs = [
            Section(
                heading=pair.name,
                text=f"expected {pair.expected} · found {pair.found}",
                indent=0 if pair.name else 1,
                max_chars=4000,
            )
            for pair in cls.details(case).pairs
        ]
        return [*record_sections(case), *score_sections(case), *pairs]

    @classmethod
    def answer_text(cls, records: Sequence[Record]) -> str:
        """Return what a person calls the answer, for one cell of a table. Empty if there is none.

        The records are those of a case, or those of one row of it if `parts` are rows.
        """
        return answer_text(records)

    @classmethod
    def question_of(cls, part: str) -> str:
        """Return the question that a part asks. Parts that ask the same one, as in several tests, share its text."""
        return part

    @classmethod
    def question_sections(cls, case: CaseView, name: str, origin: RunOrigin) -> Sequence[Section]:
        """Return everything about one question of a case, for `assay show RUN --question NAME`.

        Returns nothing if the case has no question of this name. Only called for a suite that `has_questions`.
        """
        return ()

    # Pages of `assay view`. Class methods without a spec, as `sections`.

    @classmethod
    def details(cls, case: CaseView) -> CaseDetails:
        """Return what the page of a case shows besides prompts, replies and scores."""
        return case_details(case)

    @classmethod
    def prompt_pieces(cls, request: Request, case: CaseView, origin: RunOrigin) -> Sequence[PromptPiece]:
        """Return the few-shot examples of a prompt and what stands around them; empty if that cannot be told."""
        return ()

    @classmethod
    def question_detail(cls, case: CaseView, name: str, origin: RunOrigin) -> QuestionDetail | None:
        """Return one question of a case with every test that asked it; None if the case has no such question."""
        return None

    @classmethod
    def held_items(cls, case: CaseView) -> Sequence[HeldSession]:
        """Return what a memory held after each conversation session, and what the session changed."""
        return ()

    @classmethod
    def curve_values(cls, case: CaseView) -> Sequence[CurveValue]:
        """Return every score of a case with its test and category, for curves by category."""
        return ()

    @classmethod
    def graded_answers(cls, case: CaseView) -> Sequence[GradedAnswer]:
        """Return the answers of a case that a person can label as right or wrong, for `assay label`."""
        return graded_answers(case)


def case_details(case: CaseView) -> CaseDetails:
    """Return the answers of a case beside their references, and the verdicts of judges."""
    from assay.core.case_details import AnswerPair, CaseDetails, verdict_details

    pairs: dict[AnswerPair, None] = {}
    for answer in graded_answers(case):
        if answer.reference:
            pairs[AnswerPair(name=answer.part, expected=answer.reference, found=answer.response)] = None
    return CaseDetails(pairs=list(pairs), verdicts=verdict_details(case.scores))


def graded_answers(case: CaseView) -> list[GradedAnswer]:
    """Return an answer for each score of a case, without scores that have no answer or do not count.

    The question is the label of the score where a case has several questions, else the prompt as it was sent.
    """
    answers = []
    for score in case.scores:
        data = score.data if isinstance(score.data, dict) else {}
        response = data.get("answer", _answer_of(case, score.part))
        if score.interim or score.status == "not_applicable" or response is None:
            continue
        expected = score.expected
        if expected is None:
            # Of several scores of one answer, only the first has the reference.
            others = (other.expected for other in case.scores if other.part == score.part)
            expected = next((value for value in others if value is not None), None)
        tags = score.tags or case.end.tags
        answers.append(
            GradedAnswer(
                metric=score.metric,
                part=score.part,
                response=as_text(response),
                question=score.label if score.label not in ("", score.part) else first_prompt(case),
                reference="" if expected is None else as_text(expected),
                category=tags[0] if tags else "",
                cluster=str(data.get("id", case.end.case)),
                accepted=bool(score.value) if score.value in (0, 1) else None,
            )
        )
    return answers


def answer_text(records: Sequence[Record]) -> str:
    """Return the last record as text or JSON, unless it only closes the case. Of repeated answers it has the first."""
    if not records or records[-1].kind in CLOSING_KINDS:
        return ""
    data = records[-1].data
    while isinstance(data, list) and data:
        data = data[0]
    if isinstance(data, dict):
        return json.dumps(data.get("outputs", data), ensure_ascii=False)
    return "" if data == [] else str(data)


def as_text(value: Any) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _answer_of(case: CaseView, part: str) -> Any:
    """Return the answer of a part, else that of the case. None if there is none."""
    records = [record for record in case.records if record.kind == "answer"]
    matches = [record for record in records if record.part == part] or [
        record for record in records if not record.part
    ]
    answer = matches[0].data if matches else None
    while isinstance(answer, list) and len(answer) > 0:
        answer = answer[0]  # a task with repeats has a list of answers
    if isinstance(answer, dict):
        return next((answer[name] for name in ("answer", "outputs", "result") if name in answer), answer)
    return answer


def first_prompt(case: CaseView) -> str:
    """Return the first prompt that the case sent: its last message, without the system's."""
    for call in case.calls:
        request = call.request
        if request is None or call.stage != ASK:
            continue
        if request.prompt is not None:
            return request.prompt
        for message in reversed(request.messages or []):
            if message.get("role") != "system":
                return as_text(message.get("content") or "")
    return ""


def record_sections(case: CaseView) -> list[Section]:
    """Return a section for each record, as text or JSON."""
    return [
        Section(
            heading=" ".join(filter(None, (record.kind, record.part))),
            text=record.data if isinstance(record.data, str) else msgspec.json.encode(record.data).decode(),
            max_chars=4000,
        )
        for record in case.records
    ]


def score_sections(case: CaseView) -> list[Section]:
    """Return a section for each score, with status and reason."""
    sections = []
    for score in case.scores:
        name = " by ".join(filter(None, (score.metric, score.part)))
        value = "–" if score.value is None else f"{score.value:g}"
        status = "" if score.status == "scored" else f" ({score.status})"
        sections.append(Section(heading=f"{name}: {value}{status}", text=score.reason))
    return sections
