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

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.protocols import Scorer, ScorerInput, Solver
from assay.core.report import Report
from assay.core.roles import Role
from assay.core.row_keys import RepeatedKeys, UniqueKeys, row_key
from assay.core.spec import RunSpec, SuiteOptions, apply_limit
from assay.core.suite_files import SuiteFiles, named
from assay.core.suite_pages import Section, SuitePages
from assay.core.types import Case, End, Failure, Record, Score

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
        repeats = RepeatedKeys()
        for name in keys:
            repeats.add(name)
        unique_keys = UniqueKeys(repeats.keys())
        self.keys = [unique_keys.of(name) for name in keys]

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


class WorkerSolver(NamedTuple):
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


class Suite(ABC, Generic[OptionsT, DataT]):
    """The base class of all suites. Methods that are not abstract have a default that fits most suites."""

    name: ClassVar[str]
    """The name in messages, such as `memory-test`. Run folders have it too if the suite is built in or installed; a
    suite in a file is named there after its file."""
    Options: ClassVar[type[SuiteOptions]]
    """The suite's own options. The command's flags and help come from this struct."""
    parts: ClassVar[Literal["none", "filters", "rows"]] = "none"
    """The meaning of `Score.part`: unused; the name of the filter that read the answer; or the id of a row inside
    the case, such as a test or a question. run.json saves it, because `compare` pairs such rows, not cases."""
    case_word: ClassVar[str] = "case"
    """The word for a case of this suite in output, such as row, test or conversation."""

    files: ClassVar[type[SuiteFiles] | str] = SuiteFiles
    """What the suite knows about files without a run: a class, or `module:Class`, which is imported when it is used."""
    pages: ClassVar[type[SuitePages] | str] = SuitePages
    """How people see its cases, in the same form."""

    computes: ClassVar[bool] = False
    """Whether coroutines of user code may compute for long, as those of memories. They then get a loop of their own,
    so that replies are logged in the meantime (usercode/loop.py)."""
    logs: ClassVar[Sequence[str]] = ()
    """Names of files in the output folder to which cases append while they run. `assay merge` joins those of shards."""
    stores: ClassVar[str] = ""
    """What `on_report` writes outside of the output folder, for messages; empty if it writes nothing."""

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
            raise TypeError(f"{type(self).__name__} takes {self.Options.__name__}, not {type(spec.options).__name__}")
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

    async def checkpoint(self, given: ScorerInput, folder: Path, redact: Callable[[bytes], bytes]) -> None:
        """Write the answers of a case that has ended and is not scored yet, for users who need them before the end.

        `folder` is the run folder, `redact` removes secrets from a line. May be called again for the same case.
        """

    # On workers of another machine.

    def recipe(self) -> Callable[[], WorkerSolver] | None:
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


def files_of(suite: type[Suite[Any, Any]]) -> SuiteFiles:
    """Return what a suite knows about files."""
    kind: type[SuiteFiles] = named(suite.files) if isinstance(suite.files, str) else suite.files
    return kind(suite.name)


def pages_of(suite: type[Suite[Any, Any]]) -> SuitePages:
    """Return how people see the cases of a suite."""
    kind: type[SuitePages] = named(suite.pages) if isinstance(suite.pages, str) else suite.pages
    return kind(suite.case_word)
