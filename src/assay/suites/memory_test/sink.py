"""`Sink`: takes the answers of each test, and is the file of one conversation in the format's own words."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.files import write_json
from assay.suites.memory_test.conversation import RESERVED, Question

_FIRST = ("evidence", "category")


class Info(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The `experiment_info`, in its order. What is empty is left out, the first two aside."""

    dataset: str
    task_id: str
    memory: str = ""
    model: str = ""
    sample_id: str = ""


class Answer(Struct, frozen=True, kw_only=True):
    """One question as it was answered in one test. `error` says why there is no answer."""

    question_index: int
    question: Question
    predicted_answer: str = ""
    error: str | None = None
    retrieved: Sequence[str] | None = None
    """Ids of what the memory found, best first."""
    timings: dict[str, float] | None = None


class Sink:
    """The file of one conversation, growing test by test."""

    def __init__(self, info: Info, statistics: dict[str, Any], segments: int) -> None:
        self._info = info
        self._statistics = statistics
        self._segments = segments
        self._results: list[dict[str, Any]] = []

    def add(self, after: int, answers: Sequence[Answer]) -> None:
        """The next test, after so many messages, with all visible questions in their order."""
        self._results.append(
            {
                "test_index": len(self._results) + 1,
                "question_range": {"start": 1, "end": len(answers)},
                "dialogs_inserted_count": after,
                "questions": list(map(answered, answers)),
            }
        )

    def document(self) -> dict[str, Any]:
        """The whole file; tests that were run are counted, not those that were planned."""
        return {
            "experiment_info": msgspec.to_builtins(self._info),
            "dataset_statistics": self._statistics,
            "test_summary": {
                "total_tests": len(self._results),
                "test_threshold": f"1/{self._segments} of total questions",
            },
            "test_results": self._results,
        }

    def write(self, path: Path) -> None:
        """The file appears whole or not at all; its folder is made."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.document())


def answered(answer: Answer) -> dict[str, Any]:
    """One of `questions`: three keys that all data sets have, then what is there of the others."""
    question = answer.question
    told = {key: value for key, value in question.metadata.items() if key not in RESERVED}
    failed = answer.error is not None
    optional: dict[str, Any] = {
        "reference_answer": question.reference,
        **{key: told[key] for key in _FIRST if key in told},
        **told,
        "error": answer.error,
        "source_index": question.source_index,
        "retrieved": None if answer.retrieved is None else list(answer.retrieved),
        "timings": answer.timings,
    }
    return {
        "question_index": answer.question_index,
        "question_text": question.text,
        "predicted_answer": "" if failed else answer.predicted_answer,
        **{key: value for key, value in optional.items() if value is not None},
    }
