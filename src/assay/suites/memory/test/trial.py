"""The conversation and the questions of `assay memory try`, and the suite that runs them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any, ClassVar, NamedTuple

from msgspec import Meta, field

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.core.report import Report
from assay.core.spec import RunSpec, ask
from assay.core.suite import CaseContent, ListedRows, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.suites.memory.conversation import QuestionInput
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.options import MemoryOptions
from assay.suites.memory.roles import build_model, memory_roles
from assay.suites.memory.settings import MemorySetting, find_settings
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.loaders import dataset_names, find_loader, recognise_dataset
from assay.suites.memory.try_memory import Show, TrialInputs, TrialSolver

SUITE = "memory-try"
# The conversations of the project that `assay init memory` writes.
SHIPPED = Path(__file__).parents[3] / "cli" / "projects" / "memory" / "conversations.json"


class MemoryTryOptions(MemoryOptions, frozen=True, kw_only=True):
    """The options of `assay memory try`."""

    command: ClassVar[str] = "memory try"

    memory: Annotated[
        str,
        ask("Memory to try: a name such as bm25, or FILE.py:make for your own, with options as in bm25,k1=0.9."),
    ] = ""
    data: Annotated[
        str,
        ask("File with conversations, in a format of `assay memory test`.  [default: a small shipped one]"),
    ] = ""
    dataset: Annotated[
        str,
        ask("Format of the data, or FILE.py:load for your own loader.  [default: recognised by its keys]"),
    ] = ""
    task_id: Annotated[str, ask("The conversation, by number (0000 is the first) or id.  [default: the first]")] = ""
    question: Annotated[
        list[str], ask("Question to ask, repeatable.  [default: the questions of the conversation]")
    ] = field(default_factory=list)
    top_k: Annotated[int, ask("Number of items to retrieve per question."), Meta(ge=1)] = 10


class TrialPlan(NamedTuple):
    """What will be tried: the conversation of a file, and the questions."""

    memory: MemorySetting
    path: Path
    conversation: Conversation
    questions: tuple[QuestionInput, ...]


def plan_trial(options: MemoryTryOptions, most_questions: int | None = None) -> TrialPlan:
    """Read the data and find the memory. `most_questions` limits the questions of the data, not those of the user.

    Raises UsageError or InputError.
    """
    if not options.memory:
        raise UsageError("no memory is named. Example: assay memory try mine.py:make")
    (setting,) = find_settings([options.memory], options.memory_args, "MEMORY").values()
    path = Path(options.data) if options.data else SHIPPED
    dataset = options.dataset or recognise_dataset(path)
    if dataset is None:
        if not path.exists():
            raise InputError(Problem(str(path), "there is no such file"))
        raise UsageError(
            f"{path} is in no format of `assay memory test`: {', '.join(dataset_names())}. Name the format with "
            "--dataset, or write a loader: docs/memory-test.md"
        )
    conversation = _choose(find_loader(dataset).conversations(path), options.task_id, path)
    known = {each.text.strip().casefold(): each for each in (*conversation.questions, *conversation.unplaced)}
    texts = options.question or [each.text for each in known.values()][:most_questions]
    questions: list[QuestionInput] = []
    for number, text in enumerate(texts, 1):
        own = known.get(text.strip().casefold())
        questions.append(QuestionInput(number, text, own.places if own else (), own.date if own else ""))
    return TrialPlan(setting, path, conversation, tuple(questions))


def _choose(conversations: Iterable[Conversation], name: str, path: Path) -> Conversation:
    ids: list[str] = []
    for each in conversations:
        if name in ("", each.task_id, each.sample_id):
            return each
        ids += [each.task_id, each.sample_id]
    if not ids:
        raise InputError(Problem(str(path), "there is no conversation in it"))
    raise UsageError(unknown("conversation", name, sorted(ids)))


class TrialSuite(Suite[MemoryTryOptions, Conversation]):
    """One conversation with one memory. It has no scores and no files."""

    name = SUITE
    Options = MemoryTryOptions
    case_word = "conversation"
    computes = True

    def __init__(self, spec: RunSpec, plan: TrialPlan, show: Show) -> None:
        super().__init__(spec)
        self._plan = plan
        options = self.options
        memories = MemorySet(
            {plan.memory.name: plan.memory},
            options.embedder,
            spec.timeout,
            spec.seed,
            options.embedder_kwargs,
            has_model=bool(build_model(spec, options)),
        )
        self.solver = TrialSolver(memories, options.top_k, show)
        self.roles = memory_roles(spec, options, answers=False, asking=memories.asking)

    def ask_identity(self) -> dict[str, Any]:
        """Return nothing: nobody continues a trial."""
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[Conversation]:
        return ListedRows([self._plan.conversation], key=lambda each: each.sample_id, set=SUITE)

    def subjects(self) -> list[str]:
        return [self._plan.memory.name]

    def case(self, row: Row[Conversation], subject: str) -> CaseContent:
        """Return sessions and questions."""
        sessions = tuple(session.messages for session in row.data.sessions)
        return CaseContent(TrialInputs(subject, sessions, self._plan.questions), label=row.data.sample_id)

    def finish(self, results: Results[Conversation], run: RunFacts) -> Outcome:
        """Return an empty report."""
        return Outcome(Report())
