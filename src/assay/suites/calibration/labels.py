"""Reads a file of labelled questions to a judge, for `assay judge calibrate`.

A row without `kind` has a question, a reference answer, a response and a label; or a text, a rubric and a label. Fields
are found by the names that published data sets use (`FIELD_NAMES`), or by the names given as options. A label is
one vote or several. A row with another `kind`, such as `recall`, has the fields that `labelled_question.py` lists.
`read_labels` raises one error with all problems of the file.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from msgspec import Struct

from assay.core.errors import InputError, Problem, unknown, unreadable
from assay.core.hashing import fingerprint
from assay.core.judges import ANSWER, RUBRIC
from assay.files.excerpt import cut_end
from assay.files.json_objects import first_object
from assay.files.read import BY_PEOPLE, BrokenJson, decode, object_lines, read_file, without_bom
from assay.scoring.agreement import Label
from assay.scoring.questions import AnswerQuestion, JudgeQuestion
from assay.suites.calibration.labelled_question import (
    QUESTION_FIELDS,
    FieldError,
    majority,
    question_kind,
    read_question,
    read_question_labels,
)

UNLABELLED, TIED, REPEATED = "without a label", "as many votes for as against", "equal to an earlier row"
"""Reasons for which a row is left out, as the report prints them."""

FIELD_NAMES: dict[str, tuple[str, ...]] = {
    "question": ("question", "query", "prompt"),
    "reference": (
        *("reference", "gold_answer", "golden_answer", "reference_answer", "expected_answer"),
        *("ground_truth", "gold", "target", "answer"),
    ),
    "response": (
        *("response", "generated_answer", "predicted_answer", "model_answer", "prediction"),
        *("output", "answer"),
    ),
    "label": (
        *("label", "human_label", "correct", "is_correct", "llm_judgments", "votes", "human_votes"),
        *("judgments", "judgements", "labels"),
    ),
    "category": ("category", "question_type_abbrev", "question_type", "type"),
    "cluster": ("conversation", "conversation_id", "sample_id", "cluster"),
    "evidence": ("gold_evidence_contents", "evidence_texts"),
    "rubric": ("rubric",),
    "text": ("text", "response", "output"),
}
"""Accepted names of each field; the first one in a row is used. `RowFields.find` explains `answer`."""

# Words for labels in published data sets, and the labels of assay's own judges (hallucination, omission).
_RIGHT = frozenset({"correct", "right", "true", "yes", "pass", "passed", "accepted", "good", "1"})
_WRONG = frozenset(
    {
        "wrong",
        "incorrect",
        "false",
        "no",
        "fail",
        "failed",
        "rejected",
        "bad",
        "0",
        "hallucination",
        "omission",
    }
)
VOTE_WORDS = _RIGHT | _WRONG
"""Words that are votes, in any case."""
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
# A file in another format has a problem in every row. The rest is only counted.
_MAX_PROBLEMS = 200


class RubricText(Struct, frozen=True):
    """A text to be judged by a rubric, perhaps with a reference."""

    kind: ClassVar[str] = RUBRIC
    rubric: str
    response: str
    reference: str | None = None


class LabelledRow(Struct, frozen=True, kw_only=True):
    """A question to a judge, with a label for each of its items. An item without a label has None.

    Labels of answers and rubrics are true or false; those of other kinds are words. `votes` has the votes behind each
    label.
    """

    place: str
    """The place of the row in the file: `labels.jsonl:12`, or `labels.json $.rows[3]`."""
    question: JudgeQuestion | RubricText
    labels: tuple[Label | None, ...]
    votes: tuple[tuple[Label, ...], ...] = ()
    words: tuple[str, ...] = ()
    """Labels as they are written, where they say more than true or false: `Omission`."""
    category: str = ""
    cluster: str | None = None

    @property
    def kind(self) -> str:
        """The kind of question."""
        return self.question.kind

    @property
    def labelled(self) -> int:
        """The number of items with a label."""
        return sum(label is not None for label in self.labels)


class LabelFile(NamedTuple):
    """The labelled rows of a file in order, and the number of labels that are left out, by kind and reason.

    `lists_without_rows` are the places of lists of objects in which no object looks like a row.
    """

    rows: list[LabelledRow]
    left_out: dict[str, Counter[str]]
    lists_without_rows: list[str]

    @property
    def all_left_out(self) -> Counter[str]:
        """The number of labels that are left out, by reason."""
        total: Counter[str] = Counter()
        for reasons in self.left_out.values():
            total += reasons
        return total


def read_labels(path: Path, field_names: Mapping[str, str]) -> LabelFile:
    """Return all rows with a label. Raises InputError with every problem of the file.

    `field_names` maps a field (`question`, `label`, …) to its name in the file. Other fields are found by
    their usual names.
    """
    reader = _LabelReader(path, RowFields(field_names))
    for place, value, list_name in reader.candidates():
        reader.add(place, value, list_name)
    reader.refuse_problems()
    return LabelFile(reader.rows, reader.left_out, reader.lists_without_rows)


def looks_like_labels(path: Path) -> bool:
    """Return whether the first row of a file has a response, something to judge it by, and a label that is a vote."""
    if path.suffix not in (".json", ".jsonl", ".ndjson") or not path.is_file():
        return False
    fields = RowFields({})
    try:
        if path.suffix == ".json":
            _, row, _ = next(_LabelReader(path, fields).candidates(), ("", None, ""))
        else:
            first = first_object(path)
            row = first.value if first else None
    except InputError:
        return False
    if not isinstance(row, dict) or not fields.looks_like_a_row(row):
        return False
    if question_kind(row):
        return "label" in row or "labels" in row
    # Rows of tasks have a question, an `answer` and a `label` too: there the answer is the reference.
    if fields.find(row, "response")[0] == "answer" and not fields.find(row, "rubric")[0]:
        return False
    _, label = fields.find(row, "label")
    votes = label if isinstance(label, list) else list(label.values()) if isinstance(label, dict) else [label]
    return bool(votes) and all(str(vote).strip().lower() in VOTE_WORDS for vote in votes)


class RowFields:
    """Finds the fields of a row: by the names given as options, else by the usual names."""

    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = {field: name for field, name in names.items() if name}

    def find(self, row: Mapping[str, Any], field: str) -> tuple[str, Any]:
        """Return the name and the value of a field; ("", None) if it is missing or null.

        Some data sets use `answer` for the response, others for the reference. If the row has a response under
        another name, `answer` is the reference, else the response.
        """
        if name := self._names.get(field):
            value = _value_at(row, name)
            return (name, value) if value is not None else ("", None)
        for name in FIELD_NAMES[field]:
            if row.get(name) is None:
                continue
            if name == "answer" and not self._answer_is(row, field):
                continue
            return name, row[name]
        return "", None

    def describe(self, field: str) -> str:
        """Return the names that are looked for, for a message."""
        return self._names.get(field) or ", ".join(FIELD_NAMES[field])

    def looks_like_a_row(self, value: Any) -> bool:
        """Return whether the value is an object with a response, and with a question, a reference or a rubric."""
        if not isinstance(value, dict):
            return False
        if question_kind(value):
            return True
        has_response = any(self.find(value, field)[0] for field in ("response", "text"))
        return has_response and any(self.find(value, field)[0] for field in ("question", "reference", "rubric"))

    def _answer_is(self, row: Mapping[str, Any], field: str) -> bool:
        """Return whether the key `answer` of this row has the meaning of this field."""
        # `answer` is the response, unless the row has a response under another name. Then `answer` is the reference.
        names = [self._names.get("response"), *FIELD_NAMES["response"]]
        has_response = any(row.get(name) is not None for name in names if name and name != "answer")
        return has_response is (field != "response")


class _LabelReader:
    """Collects the rows and problems of one file."""

    def __init__(self, path: Path, fields: RowFields) -> None:
        self._path = path
        self._fields = fields
        self._problems: list[Problem] = []
        self.rows: list[LabelledRow] = []
        self.left_out: dict[str, Counter[str]] = defaultdict(Counter)
        self.lists_without_rows: list[str] = []
        self._seen: set[str] = set()

    def candidates(self) -> Iterator[tuple[str, Any, str]]:
        """Yield (place, value, name of the list) of every value that may be a row. Repeated ones are left out."""
        try:
            data = without_bom(read_file(self._path, BY_PEOPLE.document))
        except OSError as error:
            raise InputError(unreadable(self._path, error, "--labels names it")) from None
        except BrokenJson as error:
            raise InputError(error.problem(self._path)) from None
        if self._path.suffix in (".jsonl", ".ndjson") or _is_json_lines(data):
            rows = [(f"{self._path}:{row.number}", row.value) for row in object_lines(self._path, self._problems)]
            for place, value in _one_row_per_answer(rows):
                if self._is_new(value):
                    yield place, value, ""
            return
        try:
            document = decode(data)
        except BrokenJson as error:
            raise InputError(error.problem(self._path)) from None
        lists = []
        for place, name, values in self._lists_of_rows(document, "$", ""):
            rows = [(f"{place}[{number}]", value) for number, value in enumerate(values) if self._is_new(value)]
            # A list may repeat the rows of others, for example by category.
            if rows:
                lists.append((name, rows))
        for name, rows in lists:
            for place, value in rows:
                # With several lists, such as one per conversation, the name of the list is the rows' cluster.
                yield f"{self._path} {place}", value, name if len(lists) > 1 else ""

    def _is_new(self, row: Any) -> bool:
        """Return whether no earlier row is equal in every field. An equal one is counted as left out."""
        content = fingerprint(row)
        if content not in self._seen:
            self._seen.add(content)
            return True
        if isinstance(row, dict):
            is_rubric = bool(self._fields.find(row, "rubric")[0])
            self.left_out[question_kind(row) or (RUBRIC if is_rubric else ANSWER)][REPEATED] += 1
        return False

    def _lists_of_rows(self, value: Any, place: str, name: str) -> Iterator[tuple[str, str, list[Any]]]:
        """Yield (place, name, items) of every list with at least one row, at any depth of objects."""
        if isinstance(value, dict):
            for key, inner in value.items():
                step = f".{key}" if _IDENTIFIER.fullmatch(key) else f'["{key}"]'
                yield from self._lists_of_rows(inner, place + step, key)
        elif isinstance(value, list) and any(map(self._fields.looks_like_a_row, value)):
            yield place, name, value
        elif isinstance(value, list) and any(isinstance(item, dict) for item in value):
            self.lists_without_rows.append(f"{self._path} {place}")

    def add(self, place: str, value: Any, list_name: str) -> None:
        """Add a row. A row without a clear label is counted as left out; problems are collected."""
        if not isinstance(value, dict):
            self._problems.append(Problem(place, "a row must be an object"))
            return
        if kind := question_kind(value):
            self._add_question(place, kind, value, list_name)
            return
        if "kind" in value and not self._fields.looks_like_a_row(value):
            message = unknown("kind of question", str(value["kind"]), [ANSWER, RUBRIC, *QUESTION_FIELDS])
            self._problems.append(Problem(_field_place(place, "kind"), message))
            return
        # The kind of judge decides which fields a row needs.
        has_rubric = bool(self._fields.find(value, "rubric")[0])
        left_out = self.left_out[RUBRIC if has_rubric else ANSWER]
        label_name, label = self._fields.find(value, "label")
        if not label_name:
            left_out[UNLABELLED] += 1
            return
        try:
            votes = parse_votes(label)
        except ValueError as error:
            self._problems.append(Problem(_field_place(place, label_name), str(error)))
            return
        verdict = majority(votes)
        if verdict is None:
            left_out[TIED] += 1
            return
        problem_count = len(self._problems)
        needed = ("rubric", "text") if has_rubric else ("question", "reference", "response")
        texts = {field: self._text(place, value, field, needed=True) for field in needed}
        reference = self._text(place, value, "reference") if has_rubric else texts["reference"]
        evidence = self._evidence(place, value)
        question: JudgeQuestion | RubricText
        if has_rubric:
            question = RubricText(texts["rubric"] or "", texts["text"] or "", reference)
        else:
            question = AnswerQuestion(texts["question"] or "", reference or "", texts["response"] or "", evidence)
        row = LabelledRow(
            place=place,
            question=question,
            labels=(verdict,),
            votes=(votes,),
            words=_words_of(label),
            category=self._text(place, value, "category") or "",
            cluster=self._text(place, value, "cluster") or list_name or None,
        )
        if len(self._problems) == problem_count:
            self.rows.append(row)

    def _add_question(self, place: str, kind: str, value: dict[str, Any], list_name: str) -> None:
        """Add a row of a kind that has its own fields."""
        try:
            question = read_question(kind, value)
            labels, votes = read_question_labels(question, value)
        except FieldError as error:
            self._problems.append(Problem(_field_place(place, error.field), str(error)))
            return
        left_out = self.left_out[kind]
        left_out[UNLABELLED] += sum(not each for each in votes)
        left_out[TIED] += sum(bool(each) for each in votes) - sum(label is not None for label in labels)
        if any(label is not None for label in labels):
            cluster = self._text(place, value, "cluster") or list_name
            # Items of one question are alike, so that they are no independent cases.
            cluster = cluster or (place if question.count > 1 else "")
            category = self._text(place, value, "category") or ""
            self.rows.append(
                LabelledRow(
                    place=place,
                    question=question,
                    labels=labels,
                    votes=votes,
                    category=category,
                    cluster=cluster or None,
                )
            )

    def _text(self, place: str, row: dict[str, Any], field: str, *, needed: bool = False) -> str | None:
        """Return a field as text; None if it is missing. Numbers are converted."""
        name, value = self._fields.find(row, field)
        if not name:
            if needed:
                message = f"the row has no {field} (looked for {self._fields.describe(field)})"
                self._problems.append(Problem(place, message))
            return None
        if isinstance(value, bool) or not isinstance(value, (str, int, float)):
            self._problems.append(Problem(_field_place(place, name), "must be a text or a number"))
            return None
        return str(value)

    def _evidence(self, place: str, row: dict[str, Any]) -> tuple[str, ...]:
        name, value = self._fields.find(row, "evidence")
        if not name:
            return ()
        if not isinstance(value, list) or not all(isinstance(text, str) for text in value):
            self._problems.append(Problem(_field_place(place, name), "must be a list of texts"))
            return ()
        return tuple(value)

    def refuse_problems(self) -> None:
        """Raise InputError if there are problems, no rows, or both rows with and rows without a rubric.

        Rubrics need another kind of judge, and a calibration belongs to one judge.
        """
        if not self._problems and not self.rows:
            self._problems.append(Problem(str(self._path), self._why_empty()))
        # Reversed, so that the first row of each kind overwrites the later ones.
        places = {row.kind == RUBRIC: row.place for row in reversed(self.rows)}
        if len(places) > 1:
            message = f"the row has a rubric, but {places[False]} has none; use a separate file for each kind"
            self._problems.append(Problem(places[True], message))
        if len(self._problems) > _MAX_PROBLEMS:
            more = len(self._problems) - _MAX_PROBLEMS
            self._problems[_MAX_PROBLEMS:] = [Problem(str(self._path), f"and {more:,} more problems")]
        if self._problems:
            raise InputError(self._problems)

    def _why_empty(self) -> str:
        left_out = LabelFile([], self.left_out, []).all_left_out
        if left_out[UNLABELLED]:
            names = self._fields.describe("label")
            return f"no row has a label (looked for {names}); pass the field's name with --label-field"
        if left_out[TIED]:
            return "the votes of every row are tied, so no row has a label"
        names = f"{self._fields.describe('question')}; {self._fields.describe('response')}"
        return (
            f"the file has no rows (looked for {names}); "
            "pass the names of fields with --question-field, --response-field and others"
        )


def _one_row_per_answer(rows: Sequence[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the rows of a file. Rows that `assay label` wrote about one answer become one row with their votes.

    Each person has one vote: the newest one.
    """
    votes: dict[tuple[str, ...], dict[str, Any]] = {}
    last: dict[tuple[str, ...], int] = {}
    keys: list[tuple[str, ...] | None] = []
    for number, (_, row) in enumerate(rows):
        key = None
        if isinstance(row.get("by"), str) and isinstance(row.get("case"), str) and row.get("label") is not None:
            key = tuple(str(row.get(name, "")) for name in ("set", "case", "subject", "part"))
            votes.setdefault(key, {})[row["by"]] = row["label"]
            last[key] = number
        keys.append(key)
    for number, ((place, row), key) in enumerate(zip(rows, keys, strict=True)):
        if key is None:
            yield place, row
        elif last[key] == number:
            yield place, {**row, "label": votes[key] if len(votes[key]) > 1 else row["label"]}


def parse_votes(value: Any) -> tuple[bool, ...]:
    """Return the votes of a label: a single vote, a list of votes, or an object with a vote under each key.

    Raises ValueError for a value that is not a vote.
    """
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return (parse_vote(value),)
    if not value:
        raise ValueError("the list of votes is empty")
    return tuple(parse_vote(vote) for vote in value)


def parse_vote(value: Any) -> bool:
    """Convert true or false, 1 or 0, or a word such as `Correct` to a bool. Raises ValueError for other values."""
    if isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and value in (0, 1):
        return bool(value)
    word = value.strip().lower() if isinstance(value, str) else None
    if word in _RIGHT or word in _WRONG:
        return word in _RIGHT
    text = cut_end(repr(value), 60)  # with a wrong --label-field the value may be a whole answer
    raise ValueError(f"{text} is not a label; write true or false, 1 or 0, Correct or Wrong")


def _words_of(label: Any) -> tuple[str, ...]:
    """Return the label of an answer if it is one of assay's three labels, else nothing."""
    word = label.strip().casefold() if isinstance(label, str) else ""
    return tuple(name for name in AnswerQuestion.labels if name.casefold() == word)


def _value_at(row: Mapping[str, Any], name: str) -> Any:
    """Return the value of a key. `a.b` is the key `b` inside `a`, unless the row has a key `a.b`."""
    if name in row:
        return row[name]
    first, dot, rest = name.partition(".")
    inner = row.get(first)
    return _value_at(inner, rest) if dot and isinstance(inner, dict) else None


def _is_json_lines(data: bytes) -> bool:
    """Return whether the content is JSON lines: the first of several lines is a complete object.

    For files with another suffix, such as `.json`.
    """
    first, _, rest = data.strip().partition(b"\n")
    if not first.startswith(b"{") or not rest.strip().startswith(b"{"):
        return False
    try:
        decode(first)
    except BrokenJson:
        return False
    return True


def _field_place(place: str, name: str) -> str:
    """Return the place of a row's field. The place of a row in JSON lines has no `$` path yet."""
    return f"{place}.{name}" if " $" in place else f"{place} $.{name}"
