"""`assay show RUN --question ID`: prints one question of a memory run, with each memory that was asked."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import click

from assay.cli.printer import print_sections
from assay.core.errors import UsageError
from assay.core.suite import pages_of
from assay.core.suite_pages import Section, StoredCase
from assay.store.render.screen import rule
from assay.store.runs import origin_of
from assay.suites import find_suite

if TYPE_CHECKING:
    from assay.runner.results import Run
    from assay.store.cases import RunCases

# Conversations that a message lists.
_MOST_NAMES = 10


def print_question(run: Run, cases: RunCases, case: str | None, question: str) -> None:
    """Print a question as every memory of the run answered it.

    `case` is the number, key or id of a conversation; None searches all of them. Raises UsageError if there is no such
    question, or if several conversations have one.
    """
    pages = pages_of(find_suite(run.info.suite))
    if not pages.has_questions:
        raise UsageError(
            f"a {run.info.suite} run has no questions inside its cases; `assay show {run.folder} CASE` shows a case"
        )
    origin = origin_of(run.folder, run.info)
    matches: list[tuple[StoredCase, Sequence[Section]]] = []
    for stored in _named_cases(cases, case):
        # CONVERSATION/NUMBER names both.
        for name in (question, question.removeprefix(f"{stored.end.label}/")):
            sections = pages.question_sections(stored, name, origin)
            if sections:
                matches.append((stored, sections))
                break
    if not matches:
        where = f"{case} of {run.folder}" if case is not None else str(run.folder)
        raise UsageError(
            f"{where} has no question {question!r}. `assay show {run.folder} CASE` lists the questions of a "
            f"{pages.case_word}."
        )
    names = list(dict.fromkeys(stored.end.label for stored, _ in matches))
    if len(names) > 1:
        listed = ", ".join(names[:_MOST_NAMES]) + (", …" if len(names) > _MOST_NAMES else "")
        raise UsageError(
            f"{len(names):,} {pages.case_word}s have a question {question!r}: {listed}. "
            f"Name one: assay show {run.folder} {names[0]} --question {question!r}"
        )
    for number, (_, sections) in enumerate(matches):
        if number:
            click.echo()
            rule()
        print_sections(sections)


def _named_cases(cases: RunCases, name: str | None) -> Iterator[StoredCase]:
    """Yield the cases with this key or label, else the one that `RunCases.find` finds. Without a name, all."""
    named = False
    for case in cases:
        end = case.end
        labels = (end.label, f"{end.label} with {end.subject}", f"{end.set}/{end.label}")
        if name is None or name == end.case or name in labels:
            named = True
            yield case
    if name is not None and not named:
        yield cases.find(name)
