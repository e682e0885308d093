"""`assay memory try`: feeds a conversation to a memory and shows what it stores, what it finds and what it misses."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from assay.cli.suite_command import SETTINGS, option_of
from assay.core.memory import ACTIVE, LINEAR, MemoryItem, SearchHit
from assay.core.spec import RunSpec, build, fields
from assay.files.excerpt import cut_end
from assay.store.render.screen import block, counted, heading, safe, table, tell

if TYPE_CHECKING:
    from assay.core.types import Failure
    from assay.runner.memory_trial import EvidencePlace, ItemChange, QuestionTrial, SessionTrial, TrialPlan

_OWN_FIELDS = (
    *("data", "dataset", "task_id", "question", "top_k", "memory_args"),
    *("embedder", "embedder_kwargs", "build_kwargs"),
)
# Common options that matter for a memory that calls a model.
_FIELDS = ("model", "base_url", "model_args", "gen_kwargs", "timeout", "seed", "ca_file", "insecure")
# Without --full: changes of a session, questions of the data, and characters of a line that no terminal limits.
_MOST_CHANGES, _MOST_QUESTIONS, _MOST_CHARACTERS = 12, 8, 300
_MARKS = {"add": "+", "update": "~", "archive": "-", "keep": "="}
_VERBS = {"add": "added", "update": "updated", "archive": "archived", "keep": "kept under a new id"}


def _try(full: bool, **flags: Any) -> int:
    """Feed a conversation to a memory and show what it stores, what a search finds, and what it misses.

    After each session: the items that were added (+), updated (~), archived (-) or kept under a new id (=), with the
    seconds it took. Then each question with the retrieved items. Messages of the evidence are marked with ←; for each
    message that is missing, its rank among all items tells how far behind it is. Writes no files.

    MEMORY is a name such as bm25, or FILE.py:make for your own. If it raises, its traceback is shown and the exit code
    is 1. If a model cannot be asked it is 3. Evidence that is not found is a result: the exit code is 0.

    \b
    Examples:
      assay memory try mine.py:make
      assay memory try mine.py:make --question "What is the name of Ben's dog?" --top-k 3
      assay memory try mine.py:make --data locomo10.json --task-id conv-26 --full
      assay memory try RFMemory --model local/smollm2
    """
    from assay.runner.memory_trial import SUITE, MemoryTryOptions, QuestionTrial, SessionTrial, plan_trial, try_memory

    values = {name: value for name, value in flags.items() if value not in (None, ())}
    spec = build(SUITE, MemoryTryOptions, {name: _listed(value) for name, value in values.items()})
    options = spec.options
    assert isinstance(options, MemoryTryOptions)
    plan = plan_trial(options, None if full else _MOST_QUESTIONS)
    _print_plan(plan)
    questions: list[QuestionTrial] = []

    def show(event: SessionTrial | QuestionTrial | Failure) -> None:
        click.echo()
        if isinstance(event, SessionTrial):
            _print_session(event, full=full)
        elif isinstance(event, QuestionTrial):
            questions.append(event)
            _print_question(event, options.top_k, full=full)
        else:
            _print_failure(event)
        # A slow memory should be followed through a pipe too.
        sys.stdout.flush()

    end = try_memory(spec, plan, show)
    if questions:
        click.echo()
        _print_end(questions, plan, options.top_k, own=bool(options.question))
    if end.reason:
        tell(end.reason)
    return end.code


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def _print_plan(plan: TrialPlan) -> None:
    conversation = plan.conversation
    messages = sum(1 for _ in conversation.messages)
    asked = len(conversation.questions) + len(conversation.unplaced)
    heading(f"{plan.memory.title}: {plan.memory.about.summary}")
    counts = [(len(conversation.sessions), "session"), (messages, "message"), (asked, "question")]
    sizes = ", ".join(counted(count, noun) for count, noun in counts)
    click.echo(safe(f"{plan.path.name}, conversation {conversation.sample_id}: {sizes}"))


def _print_session(session: SessionTrial, *, full: bool) -> None:
    first = session.messages[0]
    date = f", {first.date}" if first.date else ""
    heading(f"{first.session}{date}: {counted(len(session.messages), 'message')} in {_seconds(session.seconds)}")
    items = {item.id: item for item in session.items}
    shown = session.changes if full else session.changes[:_MOST_CHANGES]
    width = max((len(change.id) for change in shown), default=0)
    for change in shown:
        _print_change(change, items.get(change.id), width, full=full)
    if hidden := len(session.changes) - len(shown):
        click.echo(f"  … {counted(hidden, 'more change')}; --full shows all")
    counts = Counter(change.op for change in session.changes)
    changes = ", ".join(f"{counts[op]:,} {verb}" for op, verb in _VERBS.items() if counts[op])
    inactive = sum(item.status != ACTIVE for item in session.items)
    notes = [changes or "nothing changed", *([f"{inactive:,} not active"] if inactive else [])]
    click.echo(f"  {counted(len(session.items), 'item')} stored: {', '.join(notes)}")


def _print_change(change: ItemChange, item: MemoryItem | None, width: int, *, full: bool) -> None:
    notes = []
    if item is not None:
        if item.kind != LINEAR:
            notes.append(item.kind)
        if item.status != ACTIVE:
            notes.append(item.status)
        if item.sources and item.sources != (item.id,):
            notes.append(f"of {', '.join(item.sources[:3])}{' …' if len(item.sources) > 3 else ''}")
        if item.metadata:
            notes.append(", ".join(f"{name}={value}" for name, value in item.metadata.items()))
    replaced = [name for name in change.linked if name != change.id]
    if replaced:
        notes.append(f"replaces {', '.join(replaced)}")
    note = f"[{'; '.join(notes)}] " if notes else ""
    _print_line(
        f"  {_MARKS[change.op]} {change.id:{width}}  {note}{change.text or (item.text if item else '')}",
        full=full,
    )


def _print_question(trial: QuestionTrial, k: int, *, full: bool) -> None:
    question = trial.question
    heading(f"question {question.index}: {question.text}")
    if question.date:
        click.echo(safe(f"  asked on {question.date}"))
    if trial.failure is not None:
        _print_failure(trial.failure)
        return
    found = {place.id for place in trial.evidence if place.rank is not None and place.rank <= len(trial.hits)}
    width = max((len(hit.item.id) for hit in trial.hits), default=0)
    for rank, hit in enumerate(trial.hits, 1):
        marked = [name for name in hit.item.sources if name in found]
        mark = f"  ← {', '.join(marked)}" if marked else ""
        _print_line(f"  {rank:>3}  {hit.score:8.3f}  {hit.item.id:{width}}  {hit.item.text}", mark, full=full)
        if hit.trace:
            _print_line(f"       {'':8}  {'':{width}}  {_trace(hit)}", full=full)
    if not trial.hits:
        click.echo("  the search returned nothing")
    click.echo(f"  {counted(len(trial.hits), 'item')} in {_seconds(trial.seconds)}")
    if not question.evidence:
        click.echo("  the data names no evidence for this question, so nothing can be missing")
    for place in trial.evidence:
        if place.id not in found:
            _print_line(f"  missing {place.id}: {_where(place, k)}")
            if place.message is not None:
                _print_line(f"          {place.message.line}", full=full)


def _trace(hit: SearchHit) -> str:
    return ", ".join(f"{name}={value}" for name, value in hit.trace.items())


def _where(place: EvidencePlace, k: int) -> str:
    """Return what became of a message of the evidence that is not among the retrieved items."""
    if place.message is None:
        return "the conversation has no such message"
    if place.rank is not None:
        return f"rank {place.rank} of a search for all items; --top-k is {k}"
    if not place.stored:
        return "no stored item was made of it; set `sources` of the items, or see what add and end_session drop"
    items = ", ".join(place.stored[:3]) + (" …" if len(place.stored) > 3 else "")
    return f"stored in {items}, but a search for all items does not return it"


def _print_failure(failure: Failure) -> None:
    mark = click.style("✗", fg="red") if sys.stdout.isatty() else "✗"
    click.echo(f"  {mark} {safe(failure.message)}")
    if failure.traceback:
        block(failure.traceback, indent="    ")


def _print_end(questions: Sequence[QuestionTrial], plan: TrialPlan, k: int, *, own: bool) -> None:
    rows = []
    found = total = 0
    for trial in questions:
        ranks = []
        for place in trial.evidence:
            if place.message is None:
                continue
            within = place.counts and place.rank is not None and place.rank <= len(trial.hits)
            total += 1
            found += within
            rank = "–" if place.rank is None else str(place.rank)
            ranks.append(rank if place.rank is None or place.counts else f"{rank} (of {place.sources} messages)")
        state = "failed" if trial.failure else ", ".join(ranks) or "no evidence"
        rows.append([str(trial.question.index), trial.question.text, state])
    table(["question", "", "ranks of the evidence"], rows)
    asked = len(plan.conversation.questions) + len(plan.conversation.unplaced)
    failed = sum(trial.failure is not None for trial in questions)
    note = f", {counted(failed, 'question')} failed" if failed else ""
    if total:
        click.echo(f"evidence among the first {k}: {found / total:.3f} ({found}/{total} messages){note}")
    else:
        click.echo(f"evidence: not measured, because no searched question has any{note}")
    if any(not place.counts and place.rank is not None for trial in questions for place in trial.evidence):
        click.echo("An item made of more than two messages, such as a summary, counts for none of them.")
    if len(questions) < asked and not own:
        click.echo(f"{len(questions):,} of {counted(asked, 'question')} asked; --full asks all")


def _print_line(text: str, end: str = "", *, full: bool = False) -> None:
    """Print one line. It is cut to the width of the terminal, or else to 300 characters; `end` is never cut."""
    line = safe(" ".join(text.splitlines()))
    room = _MOST_CHARACTERS
    if sys.stdout.isatty():
        room = max(40, shutil.get_terminal_size().columns - len(end) - 1)
    click.echo((line if full else cut_end(line, room)) + safe(end))


def _seconds(seconds: float) -> str:
    return f"{seconds * 1000:.1f} ms" if seconds < 1 else f"{seconds:.1f} s"


def _parameters() -> list[click.Parameter]:
    from assay.runner.memory_trial import MemoryTryOptions

    own = {each.name: option_of(each) for each in fields(MemoryTryOptions) if each.name in _OWN_FIELDS}
    common = {each.name: option_of(each) for each in fields(RunSpec) if each.name in _FIELDS}
    return [
        click.Argument(["memory"], metavar="MEMORY"),
        *(own[name] for name in _OWN_FIELDS),
        click.Option(["--full"], is_flag=True, help="Show every change, and ask all questions of the conversation."),
        *(common[name] for name in _FIELDS),
    ]


command = click.Command("try", params=_parameters(), callback=_try, help=_try.__doc__, context_settings=SETTINGS)
