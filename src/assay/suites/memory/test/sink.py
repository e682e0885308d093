"""Writes the output files. `Sink` builds the file of one conversation; `output_folders` chooses the folders.

{dataset}/{YYMMDD_HHMM}/0000.json                 one memory
{memory}/{dataset}/{YYMMDD_HHMM}/0000.json        several memories
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.files.write import write_json
from assay.suites.memory.test.conversation import RESERVED, ConversationQuestion

SUMMARY = "summary.json"
# SAGE's own example has these two optional keys before all others.
_FIRST_METADATA = ("evidence", "category")


class ExperimentInfo(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`experiment_info` of the output file, in its order. Empty fields are left out, except the first two."""

    dataset: str
    task_id: str
    memory: str = ""
    model: str = ""
    sample_id: str = ""


class QuestionResult(Struct, frozen=True, kw_only=True):
    """The answer to one question in one test. With `error` there is no answer."""

    question_index: int
    question: ConversationQuestion
    predicted_answer: str = ""
    error: str | None = None
    retrieved: Sequence[str] | None = None
    """Ids of the items that the memory returned, best first."""
    timings: dict[str, float] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return an item of `questions`: first the three keys that every item has, then the optional keys."""
        question = self.question
        metadata = {key: value for key, value in question.metadata.items() if key not in RESERVED}
        first = {key: metadata[key] for key in _FIRST_METADATA if key in metadata}
        optional: dict[str, Any] = {
            "reference_answer": question.reference,
            **first,
            **metadata,
            "error": self.error,
            "source_index": question.source_index,
            "retrieved": None if self.retrieved is None else list(self.retrieved),
            "timings": self.timings,
        }
        return {
            "question_index": self.question_index,
            "question_text": question.text,
            "predicted_answer": "" if self.error is not None else self.predicted_answer,
            **{key: value for key, value in optional.items() if value is not None},
        }


class Sink:
    """Builds the output file of one conversation, test by test."""

    def __init__(self, info: ExperimentInfo, statistics: dict[str, Any], threshold: str) -> None:
        self._info = info
        self._statistics = statistics
        self._threshold = threshold
        self._results: list[dict[str, Any]] = []

    def add(self, after: int, results: Sequence[QuestionResult]) -> None:
        """Add the next test. `after` counts the messages inserted before it; `results` are in question order."""
        self._results.append(
            {
                "test_index": len(self._results) + 1,
                "question_range": {"start": 1, "end": len(results)},
                "dialogs_inserted_count": after,
                "questions": [result.to_json() for result in results],
            }
        )

    def document(self) -> dict[str, Any]:
        """Return the content of the file. `total_tests` counts the tests added so far, not the planned ones."""
        return {
            "experiment_info": msgspec.to_builtins(self._info),
            "dataset_statistics": self._statistics,
            "test_summary": {
                "total_tests": len(self._results),
                "test_threshold": self._threshold,
            },
            "test_results": self._results,
        }

    def write(self, path: Path) -> None:
        """Write the file atomically. Creates its folder."""
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, self.document())


def output_folders(root: Path, memories: Sequence[str], dataset: str, started: float, run: str) -> dict[str, Path]:
    """Create and return the output folder of each memory. `started` is the time of the run's first start.

    The folders of all memories have the same name. If another run of the same minute already has one of them, a
    number is appended to the name. A folder belongs to the run that its summary.json names, so a resumed run finds
    its own folders again.
    """
    minute = time_stamp(started)
    for number in count(1):
        name = minute if number == 1 else f"{minute}_{number}"
        folders: dict[str, Path] = {}
        for memory in memories:
            parent = root / memory if len(memories) > 1 else root
            folders[memory] = parent / dataset / name
        if all(_is_free(folder, run) for folder in folders.values()):
            break
    for folder in folders.values():
        folder.mkdir(parents=True, exist_ok=True)
    return folders


def time_stamp(started: float) -> str:
    """Return a time as YYMMDD_HHMM in local time, such as 251120_1430."""
    return time.strftime("%y%m%d_%H%M", time.localtime(started))


def _is_free(folder: Path, run: str) -> bool:
    """Return whether the folder does not exist, is empty, or belongs to this run.

    A hidden file is the rest of a summary.json whose writer was killed.
    """
    if not folder.exists() or all(path.name.startswith(".") for path in folder.iterdir()):
        return True
    try:
        summary: Any = msgspec.json.decode((folder / SUMMARY).read_bytes())
    except (OSError, msgspec.DecodeError):
        return False
    return isinstance(summary, dict) and summary.get("run") == run
