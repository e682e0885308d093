"""Suite: the base class of everything that `assay` can run.

A suite reads one format: it gives rows and subjects, says how one case is solved and scored, and turns the results
into a Report and the format's own files. The engine does the rest: rows x subjects, numbering, continuing, calls.

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

Which order things happen in: `resolve` changes the spec, the main model is connected, the suite is built, the other
roles are connected, the three identities make the run's fingerprints (the default data identity reads the rows), the
run folder is looked for, `rows` reads the data, a new folder is made, cases run, `finish` reads the results once.
`shown` is called with the report, also where the run was finished before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar

from msgspec import Struct, field

from assay.core.connect import Role
from assay.core.errors import Problem, UsageError
from assay.core.hashing import RepeatFinder, Twins, row_key
from assay.core.protocols import Scorer, Solver
from assay.core.report import Report, Table
from assay.core.spec import RunSpec, SuiteOptions, apply_limit
from assay.core.types import Call, Case, End, Failure, Record, Score

OptionsT = TypeVar("OptionsT", bound=SuiteOptions)
DataT = TypeVar("DataT")

MAIN = "main"
"""The role of what --model names."""


class Row(Struct, Generic[DataT], frozen=True):
    """One row of the data.

    `key` is made of what is asked, without gold where the format tells them apart, and is the same for every
    subject: runs are continued and compared by it. `set` names the task or file that the row belongs to.
    """

    number: int
    key: str
    set: str
    data: DataT


class Rows(Protocol[DataT]):
    """The data of a run, in order. It is iterated several times."""

    @property
    def count(self) -> int:
        """How many rows there are."""
        ...

    @property
    def facts(self) -> dict[str, Any]:
        """What the next start need not find out again. Kept in run.json and handed to `Suite.rows`."""
        ...

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[DataT]]:
        """Rows in data order without those whose number is to be skipped.

        Random draws are made for skipped rows as well, so that the others get the same ones in every start.
        """
        ...


class ListedRows(Generic[DataT]):
    """Rows of a list that is in memory. Equal keys are numbered: the second one is `key~2`.

    `limit` is that of the spec: only the first items of each set, or a share of them.
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
        left = {name: apply_limit(limit, count) for name, count in counts.items()}
        kept = []
        for item in items:
            name = self._set_of(item)
            left[name] -= 1
            if left[name] >= 0:
                kept.append(item)
        return kept

    def _set_of(self, item: DataT) -> str:
        return self._set if isinstance(self._set, str) else self._set(item)

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[DataT]]:
        """Rows in the order of the list."""
        for number, item in enumerate(self._items):
            if skip is None or not skip(number):
                yield Row(number, self.keys[number], self._set_of(item), item)


def _as_bytes(text: bytes | str) -> bytes:
    return text.encode() if isinstance(text, str) else text


class CaseContent(Struct, frozen=True):
    """What one row is for one subject. `inputs` go to the solver, `gold` to scorers only.

    With a `failure` the case is not asked: it counts as failed for that reason.
    """

    inputs: Any
    gold: Any = None
    label: str = ""
    tags: tuple[str, ...] = ()
    failure: Failure | None = None


class CaseResult(Struct, Generic[DataT]):
    """What the journal has of one case. `end` is None while the case has not ended."""

    index: int
    row: Row[DataT]
    subject: str
    end: End | None
    records: list[Record]
    scores: list[Score]
    """Of all scorers, in their order."""


class Results(Protocol[DataT]):
    """The results of a run in data order; every key was checked against the data."""

    def __iter__(self) -> Iterator[CaseResult[DataT]]:
        """Row by row, the subjects of a row side by side."""
        ...

    def of(self, subject: str) -> Iterator[CaseResult[DataT]]:
        """All rows of one subject."""
        ...


class RunFacts(NamedTuple):
    """What a suite's files may say about the run besides its content."""

    started: float
    seconds: float
    folder: Path


class Outcome(NamedTuple):
    """What came of a run: its numbers, and the files of the format that were written.

    Files in the run's own folder are copied to `newest`, together with the summary: that folder shows the newest run.
    """

    report: Report
    files: Sequence[Path] = ()
    newest: Path | None = None


class Section(Struct, kw_only=True):
    """A part of what `assay show RUN CASE` prints: a heading, a text, a table, or several of them."""

    heading: str = ""
    text: str = ""
    table: Table | None = None
    indent: int = 0
    most: int | None = None
    """Characters of the text that are shown."""


class CaseView(NamedTuple):
    """One case with everything the journal has of it, for people."""

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
        """How people name the case: the set and its key."""
        return f"{self.end.set}/{self.end.case}"

    @property
    def id(self) -> Any:
        """The id that the data gives the case, where its scores tell one."""
        for score in self.scores:
            if isinstance(score.data, dict) and "id" in score.data:
                return score.data["id"]
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


class PlannedCalls(Struct, frozen=True, kw_only=True):
    """What would be asked of one model for one purpose. None where it cannot be known before."""

    what: str
    model: str
    calls: int | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


class Overview(Struct, kw_only=True):
    """What a run would do, for `--dry-run`. Nothing was asked or written."""

    facts: dict[str, str] = field(default_factory=dict)
    calls: list[PlannedCalls] = field(default_factory=list)
    sections: list[Section] = field(default_factory=list)


class Match(IntEnum):
    """How sure a suite is that a file is in one of its formats."""

    NO = 0
    MAYBE = 1
    LIKELY = 2
    SURE = 3


class Suite(ABC, Generic[OptionsT, DataT]):
    """Everything a suite can do. What is not abstract has a default that most suites keep."""

    name: ClassVar[str]
    """The name in run folders and in Python, such as `memory-test`."""
    Options: ClassVar[type[SuiteOptions]]
    """The suite's own options, which also describe its command."""
    parts: ClassVar[Literal["none", "filters", "rows"]] = "none"
    """What `Score.part` is: nothing, the filter that read the answer, or a row of its own inside the case
    (a test, a question). Kept in run.json, so that `compare` pairs what people count."""
    case_word: ClassVar[str] = "case"
    """What people call a case of this suite: row, test, conversation."""

    roles: Mapping[str, Role]
    """The models that are asked, by role. The default is --model as `main`; without it the run is refused."""
    shared_endpoint: str | None = None
    """The role that code which knows nothing of cases reaches at OPENAI_BASE_URL. None: no port is opened and
    the environment is not changed."""
    open_cases: int | None = None
    """How many cases run at once. None: as many as calls may be in flight."""
    exclusive_output: bool = False
    """Whether the files have fixed names, so that another run may not share the output folder."""
    notices: Sequence[str] = ()
    """Sentences a person should read before the run starts. They stop nothing."""
    solver: Solver
    scorers: Sequence[Scorer] = ()

    # Before models are connected.

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """The spec with everything that depends on the environment filled in: lists, judge, output folder.

        An empty `output_dir` was not named by the user. It becomes `results` unless the suite has a folder of its own.
        """
        return spec

    @classmethod
    def adopt(cls, spec: RunSpec) -> Path | None:
        """The folder of a run that is only scored anew, as `--eval-only` asks. Its `ask` roles are not asked."""
        return None

    @classmethod
    def replace_files(cls, spec: RunSpec, files: Sequence[str], facts: Mapping[str, Any]) -> RunSpec:
        """The spec of a finished run with these files in place of its own, for `assay rescore`."""
        if files:
            raise UsageError(f"runs of {cls.name} have no files that could be replaced")
        return spec

    @classmethod
    def instead_of_run(cls, spec: RunSpec) -> Report | Sequence[Section] | None:
        """What the command prints instead of running, such as a list of tasks; None where it runs."""
        return None

    def __init__(self, spec: RunSpec) -> None:
        """Check the options and build solver and scorers. Reads no row: workers build the suite, too."""
        if not isinstance(spec.options, self.Options):
            raise TypeError(
                f"{type(self).__name__} takes {self.Options.__name__}, not {type(spec.options).__name__}"
            )
        self.spec = spec
        self.options: OptionsT = spec.options  # type: ignore[assignment]  # checked above
        self.roles = {MAIN: Role(model=spec.model, args=spec.options.model_arguments())}

    # Which run this is.

    @abstractmethod
    def ask_identity(self) -> dict[str, Any]:
        """Code, prompts and parameters: what changes replies besides options and data. Reads no row."""

    def data_identity(self) -> Any:
        """The data by content. The default is every row's key; a large corpus gives the hash of its files.

        A suite that loads its rows keeps them, so that `rows` does not read the file a second time.
        """
        return [row.key for row in self.rows().iterate()]

    def score_identity(self) -> Any:
        """What changes scores besides options: the scorers, and gold where they do not know it."""
        return [scorer.id for scorer in self.scorers]

    # What runs.

    @abstractmethod
    def rows(self, facts: dict[str, Any] | None = None) -> Rows[DataT]:
        """The data. `facts` are those of an earlier start of the same run. Raises InputError before any call."""

    def subjects(self) -> Sequence[str]:
        """What is evaluated side by side: variants, profiles, memories. The default is the one model."""
        return [self.spec.model or self.name]

    def has(self, row: Row[DataT], subject: str) -> bool:
        """Whether this subject has this row. A suite that overrides this overrides `total`, too."""
        return True

    def total(self, rows: Rows[DataT]) -> int:
        """How many cases there are."""
        return rows.count * len(self.subjects())

    @abstractmethod
    def case(self, row: Row[DataT], subject: str) -> CaseContent:
        """The row as this subject gets it. Pure: it counts nothing and draws nothing."""

    async def passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        """Whether what was emitted under a part meets its expectations, which no solver sees. Asks no judge."""
        raise UsageError(f"the suite {self.name} has no expectations that a case could be held to")

    def prepare(self, folder: Path) -> None:
        """Write what readers of the run folder need besides the journal. Called before the first case of each start."""

    # What comes of it.

    @abstractmethod
    def finish(self, results: Results[DataT], run: RunFacts) -> Outcome:
        """Read the results once, in data order: make the numbers and write the format's own files."""

    def shown(self, report: Report) -> Sequence[str]:
        """Called when a report is shown, also one of a run that was finished before. Returns notices."""
        return ()

    def overview(self, rows: Rows[DataT]) -> Overview:
        """What would be asked, for `--dry-run`."""
        facts = {"rows": f"{rows.count:,}", "subjects": ", ".join(self.subjects())}
        planned = [PlannedCalls(what=name, model=role.model) for name, role in self.roles.items()]
        return Overview(facts={**facts, "cases": f"{self.total(rows):,}"}, calls=planned)

    async def close(self) -> None:
        """Let go of what the suite started."""
        await self.solver.close()

    # Files without a run.

    @classmethod
    def recognises(cls, path: Path) -> Match:
        """How sure the suite is that it reads this file."""
        return Match.NO

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        """Every problem of one of its files; `beside` is another file it belongs to, such as a pipeline."""
        return []

    @classmethod
    def sections(cls, case: CaseView) -> Sequence[Section]:
        """What `assay show RUN CASE` prints of the records and scores, below prompts and replies.

        Without a spec, since data and options may be gone.
        """
        return [*record_sections(case), *score_sections(case)]


def record_sections(case: CaseView) -> list[Section]:
    """Each record as JSON or text."""
    from msgspec import json

    return [
        Section(
            heading=" ".join(filter(None, (record.kind, record.part))),
            text=record.data if isinstance(record.data, str) else json.encode(record.data).decode(),
            most=4000,
        )
        for record in case.records
    ]


def score_sections(case: CaseView) -> list[Section]:
    """Each score with its status and reason."""
    sections = []
    for score in case.scores:
        name = " by ".join(filter(None, (score.metric, score.part)))
        value = "–" if score.value is None else f"{score.value:g}"
        status = "" if score.status == "scored" else f" ({score.status})"
        sections.append(Section(heading=f"{name}: {value}{status}", text=score.reason))
    return sections
