"""Builders of session and question rows, a scripted judge, and a context that runs scorers without a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar, cast

from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import Case, End, Score
from assay.scoring.questions import JudgeQuestion, Verdict, trivial_verdict
from assay.suites.memory.eval.result_lines import (
    GoldState,
    MemoryDelta,
    QaLine,
    Retrieval,
    RetrievedItem,
    SampleResults,
    SessionLine,
    SnapshotMemory,
)
from assay.suites.memory.eval.scorers import EvalScorer

GOLDEN = Path(__file__).parents[3] / "golden" / "memory_eval"
T = TypeVar("T")
R = TypeVar("R")


def point(memory_id: str, text: str, *original: str) -> dict[str, Any]:
    """Return a memory point in the form of the data."""
    return {"memory_id": memory_id, "memory_content": text, "original_memories": list(original)}


def session(
    name: str = "S01",
    *,
    wrote: Iterable[str | MemoryDelta] = (),
    holds: Iterable[str | SnapshotMemory] | None = None,
    **gold: list[Any],
) -> SessionLine:
    """Return a session row. `wrote` are the texts it added, `holds` its snapshot (default: what it wrote)."""
    delta = [item if isinstance(item, MemoryDelta) else MemoryDelta(name, "add", item) for item in wrote]
    items = [each.text for each in delta] if holds is None else holds
    snapshot = [
        item if isinstance(item, SnapshotMemory) else SnapshotMemory(str(number), item, name)
        for number, item in enumerate(items)
    ]
    listed = {kind: gold.get(kind, []) for kind in ("new", "update", "interference")}
    state = GoldState(
        name,
        cumulative_gold_memories=gold.get("before", []) + listed["new"] + listed["update"],
        session_new_memories=listed["new"],
        session_update_memories=listed["update"],
        session_interference_memories=listed["interference"],
    )
    return SessionLine(sample_id="s", session_id=name, memory_snapshot=snapshot, memory_delta=delta, gold_state=state)


def question(
    answer: str = "a red kite",
    generated: str = "a red kite",
    *,
    evidence: Iterable[str] = (),
    cited: Iterable[str] = (),
    retrieved: Iterable[str] = (),
    checkpoint: str = "c",
    abbrev: str = "FR",
    difficulty: str = "easy",
) -> QaLine:
    """Return a question row. `answer` is the reference, `generated` the answer of the model."""
    items = [RetrievedItem(rank, str(rank), text, 1.0) for rank, text in enumerate(retrieved)]
    return QaLine(
        sample_id="s",
        checkpoint_id=checkpoint,
        question="What is it?",
        gold_answer=answer,
        gold_evidence_contents=list(evidence),
        question_type_abbrev=abbrev,
        difficulty=difficulty,
        retrieval=Retrieval("What is it?", 5, items),
        generated_answer=generated,
        cited_memories=list(cited),
    )


class Scripted:
    """A judge whose verdicts come from a function. `asked` lists the questions it got."""

    def __init__(self, says: Callable[[Any], Verdict], name: str = "scripted") -> None:
        self.id = f"{name}@1"
        self.reply_identity = name
        self.asked: list[JudgeQuestion] = []
        self._says = says

    async def verdicts(self, questions: Sequence[JudgeQuestion], ctx: Context) -> list[Verdict]:
        """Return the verdicts of the function. Questions that need no judge do not reach it."""
        return [self._verdict(question) for question in questions]

    def _verdict(self, question: JudgeQuestion) -> Verdict:
        if (plain := trivial_verdict(question)) is not None:
            return plain
        self.asked.append(question)
        return self._says(question)


class Inside:
    """A context with nothing but `map`."""

    async def map(self, function: Callable[[T], Awaitable[R]], items: Iterable[T]) -> list[R]:
        """Run the calls concurrently and return the results in order."""
        return list(await asyncio.gather(*map(function, items)))


VIEW = ScorerInput(Case(0, "k", "set", "FUMemory", "s", None), End(0, "k", "set", "FUMemory", "ask", 1, "ok", []), [])


def scores_of(scorer: Scorer) -> list[Score]:
    """Return the scores of a scorer for an empty case."""
    return asyncio.run(scorer.score(VIEW, cast("Context", Inside())))


def judge(scripted: Any, sessions: list[SessionLine], questions: list[QaLine]) -> list[Score]:
    """Return all scores of these rows by this judge."""
    return scores_of(EvalScorer(scripted, lambda _: SampleResults(sessions, questions)))
