"""What `assay show` prints of a conversation, and of one of its questions.

The journal has ids of messages, not their texts. Texts are read from the data file of the run, if the file still
has the content that the run was made with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from statistics import fmean

from assay.core.errors import AssayError
from assay.core.hashing import file_sha256
from assay.core.report import Cell, Table
from assay.core.suite_pages import RunOrigin, Section, StoredCase
from assay.core.types import Record, Score
from assay.files.read import refuse_special_file
from assay.suites.memory.conversation import AnswerRecord, read_answers
from assay.suites.memory.test.loaders import dataset_names, find_loader
from assay.suites.memory.test.retrieval import retrieval_metrics
from assay.suites.memory.test.scorers import JUDGED, METRICS, RECALL, metric_label, retrieved_places
from assay.usercode.named_code import CodeNotNamed, only_named_code, refuse_unnamed_file

# Limits, so that a row fits on a screen: ids of retrieved items, characters of a text.
_MOST_HITS, _MOST_TEXT = 4, 60
# Items of a memory that returns the whole conversation for each question.
_MOST_ITEMS = 30
# Retrieved items in a cell of a table.
_MOST_PLACES = 12
_MARK = "*"


def conversation_sections(case: StoredCase) -> list[Section]:
    """Return two tables: the means of each test, and all questions of the last test."""
    answers = [answer for _, answer in read_answers(case.records)]
    last = max((answer.test for answer in answers), default=0)
    scores = {(score.part, score.metric): score for score in case.scores}
    metrics = _metrics(case.scores)
    titles = [METRICS[name] for name in metrics]
    tests: list[list[Cell]] = []
    for test in range(1, last + 1):
        row: list[Cell] = [str(test)]
        for name in metrics:
            values = [
                score.value
                for (part, metric), score in scores.items()
                if score.value is not None and metric == name and part.partition("/")[0] == str(test)
            ]
            row.append(f"{fmean(values):.3f} of {len(values):,}" if values else None)
        tests.append(row)
    questions: list[list[Cell]] = []
    for answer in answers:
        if answer.test != last:
            continue
        own = [score for score in case.scores if score.part == f"{last}/{answer.question}"]
        cells = [_value(scores.get((f"{last}/{answer.question}", name))) for name in metrics]
        ids = [hit[0] for hit in answer.hits]
        more = f" and {len(ids) - _MOST_HITS:,} more" if len(ids) > _MOST_HITS else ""
        found = ", ".join(ids[:_MOST_HITS]) + more
        texts = (_label(own), _reference(own), answer_text(answer))
        questions.append([str(answer.question), *cells, *map(_short, texts), found])
    columns = ["question", *titles, "text", "reference", "answer", "retrieved"]
    hint = "everything about one question: assay show RUN CASE --question NUMBER"
    return [
        Section(table=Table(name="tests", columns=["test", *titles], rows=tests)),
        Section(table=Table(name="last_test", columns=columns, rows=questions, note=hint)),
    ]


def question_sections(case: StoredCase, name: str, origin: RunOrigin) -> list[Section]:
    """Return one question in every test that asked it, with the retrieved items beside the evidence.

    `name` is the number of the question, TEST/NUMBER, or its text. Returns [] if the case has no such question.
    """
    number = question_number(case, name)
    if number is None:
        return []
    answers = [answer for _, answer in read_answers(case.records) if answer.question == number]
    scores: dict[int, list[Score]] = {}
    for score in case.scores:
        test, _, question = score.part.partition("/")
        if question == str(number):
            scores.setdefault(int(test), []).append(score)
    last = answers[-1]
    last_scores = scores.get(last.test, [])
    evidence = evidence_places(last_scores)
    texts = message_texts(case.end.label, origin)
    facts: list[list[Cell]] = [["question", _label(last_scores) or None]]
    category = next((score.data.get("category") for score in last_scores if score.data), None)
    label = category_label(last_scores, origin)
    facts += [
        ["category", None if category is None else f"{category} ({label})" if label else str(category)],
        ["reference", _reference(last_scores) or None],
        ["answer", answer_text(last) or None],
        ["evidence", ", ".join(evidence) if evidence is not None else "not in the run"],
    ]
    ranks = [
        f"{metric_label(score.metric)} {_value(score)}"
        for name in retrieval_metrics({score.metric for score in last_scores})
        for score in last_scores
        if score.metric == name
    ]
    if ranks:
        facts.append(["retrieval", ", ".join(ranks)])
    heading = f"question {number} of {case.end.label} with {case.end.subject}"
    sections = [
        Section(heading=heading, table=Table(name="question", columns=["", "value"], rows=facts)),
        Section(table=_tests_table(answers, scores, evidence or [])),
    ]
    verdicts = _verdicts_table(scores)
    if verdicts.rows:
        sections.append(Section(table=verdicts))
    sections.append(Section(table=_items_table(last, evidence or [], texts)))
    if evidence:
        sections.append(Section(table=_evidence_table(last, evidence, texts)))
    if not texts:
        sections.append(Section(text=f"No texts of messages: {why_no_texts(origin)}"))
    return sections


def question_number(case: StoredCase, name: str) -> int | None:
    """Return the number of the question with this number, part (`3/7`) or text; None if there is none."""
    asked = {str(answer.question): answer.question for _, answer in read_answers(case.records)}
    parts = {f"{answer.test}/{answer.question}": answer.question for _, answer in read_answers(case.records)}
    labels = {score.label.casefold(): int(score.part.partition("/")[2]) for score in case.scores if score.label}
    return asked.get(name) or parts.get(name) or labels.get(name.casefold())


def _tests_table(
    answers: Sequence[AnswerRecord], scores: Mapping[int, Sequence[Score]], evidence: Sequence[str]
) -> Table:
    """Return a row for each test: scores, evidence that was missed, retrieved items, and the answer."""
    metrics = _metrics([score for each in scores.values() for score in each])
    rows: list[list[Cell]] = []
    for answer in answers:
        by_metric = {score.metric: score for score in scores.get(answer.test, ())}
        found = set(retrieved_places(answer.hits))
        missed = [place for place in evidence if place not in found]
        names = [f"{hit[0]}{_MARK}" if is_evidence(hit, evidence) else hit[0] for hit in answer.hits[:_MOST_ITEMS]]
        if len(answer.hits) > _MOST_ITEMS:
            names.append(f"and {len(answer.hits) - _MOST_ITEMS:,} more")
        rows.append(
            [
                str(answer.test),
                *(_value(by_metric.get(name)) for name in metrics),
                ", ".join(missed) or None,
                ", ".join(names) or None,
                _short(answer_text(answer)),
            ]
        )
    columns = ["test", *(METRICS[name] for name in metrics), "evidence missed", "retrieved", "answer"]
    return Table(name="tests", columns=columns, rows=rows, note=f"{_MARK} is evidence; best item first")


def _verdicts_table(scores: Mapping[int, Sequence[Score]]) -> Table:
    """Return a row for each test with the judge's verdict and its reason."""
    rows: list[list[Cell]] = []
    for test, test_scores in sorted(scores.items()):
        for score in test_scores:
            if score.metric == JUDGED:
                label = (score.data or {}).get("label") or score.status
                rows.append([str(test), score.scorer.partition("@")[0], str(label), score.reason])
    return Table(name="verdicts", columns=["test", "scorer", "verdict", "reason"], rows=rows, names=2)


def _items_table(answer: AnswerRecord, evidence: Sequence[str], texts: Mapping[str, str]) -> Table:
    rows: list[list[Cell]] = []
    for rank, hit in enumerate(answer.hits[:_MOST_ITEMS], 1):
        text = " / ".join(texts[place] for place in hit[1:] if place in texts)
        rows.append([str(rank), hit[0], "evidence" if is_evidence(hit, evidence) else None, text or None])
    title = f"retrieved in test {answer.test}"
    note = f"and {len(answer.hits) - _MOST_ITEMS:,} more" if len(answer.hits) > _MOST_ITEMS else ""
    return Table(name="retrieved", title=title, columns=["rank", "item", "", "text"], rows=rows, note=note, names=2)


def _evidence_table(answer: AnswerRecord, evidence: Sequence[str], texts: Mapping[str, str]) -> Table:
    rows: list[list[Cell]] = []
    for place in evidence:
        ranks = [str(rank) for rank, hit in enumerate(answer.hits, 1) if is_evidence(hit, [place])]
        rows.append([place, f"rank {ranks[0]}" if ranks else "missed", texts.get(place)])
    return Table(name="evidence", columns=["evidence", "found", "text"], rows=rows)


def is_evidence(hit: Sequence[str], evidence: Sequence[str]) -> bool:
    """Return whether an item contains a message of the evidence. Summaries of many messages do not count."""
    return bool(set(retrieved_places([hit])) & set(evidence))


def evidence_places(scores: Sequence[Score]) -> list[str] | None:
    """Return the evidence that exists in the conversation; None if no score has it, as in runs of older versions."""
    for score in scores:
        if score.metric == RECALL and score.data and "evidence" in score.data:
            return list(score.data["evidence"])
    return None


def _metrics(scores: Sequence[Score]) -> list[str]:
    present = {score.metric for score in scores}
    return [name for name in METRICS if name in present]


def _value(score: Score | None) -> str | None:
    return None if score is None or score.value is None else f"{score.value:.3f}"


def _label(scores: Sequence[Score]) -> str:
    return next((score.label for score in scores if score.label), "")


def _reference(scores: Sequence[Score]) -> str:
    return next((str(score.expected) for score in scores if score.expected is not None), "")


def answer_text(answer: AnswerRecord) -> str:
    """Return the answer, or the error in its place."""
    return answer.answer if answer.error is None else f"error: {answer.error}"


def one_answer(records: Sequence[Record]) -> str:
    """Return the only answer of some records, or what was retrieved if no model answers. Empty for several answers."""
    answers = read_answers(records)
    if len(answers) != 1:
        return ""
    answer = answers[0][1]
    if answer_text(answer) or answer.tokens is not None or answer.answer_seconds:
        return answer_text(answer)
    # A memory may give its items ids that say nothing; those of the messages are in the data.
    places = dict.fromkeys(place for hit in answer.hits[:_MOST_PLACES] for place in hit[1:] or hit)
    more = f" and {len(answer.hits) - _MOST_PLACES:,} more" if len(answer.hits) > _MOST_PLACES else ""
    return f"retrieved {', '.join(places)}{more}" if places else "nothing retrieved"


def _short(text: str) -> str | None:
    flat = " ".join(text.split())
    return (flat if len(flat) <= _MOST_TEXT else f"{flat[: _MOST_TEXT - 1]}…") or None


def _dataset(origin: RunOrigin) -> str:
    # An imported run has its data set among its facts.
    dataset = str(origin.options.get("dataset") or origin.facts.get("dataset") or "")
    return str(origin.folder / dataset) if ".py:" in dataset else dataset


def category_label(scores: Sequence[Score], origin: RunOrigin) -> str:
    """Return the word for the category of a question, if it is a number in the data; else an empty text."""
    category = next((score.data.get("category") for score in scores if score.data), None)
    dataset = _dataset(origin)
    labels = find_loader(dataset).categories if dataset in dataset_names() else {}
    return labels.get(category, "") if isinstance(category, (str, int)) else ""


def message_texts(sample_id: str, origin: RunOrigin) -> dict[str, str]:
    """Return the messages of a conversation by id; {} if the data file is gone or has another content."""
    path = origin.facts.get("data") or origin.options.get("data")
    if not path:
        return {}
    dataset = _dataset(origin)
    if _unnamed_loader(dataset):
        return {}
    return _texts_in_file(str(origin.folder / str(path)), dataset, str(origin.facts.get("data_sha256")), sample_id)


def why_no_texts(origin: RunOrigin) -> str:
    """Return why `message_texts` has no texts of a run."""
    return _unnamed_loader(_dataset(origin)) or "the data file of the run is unknown, gone or changed."


def _unnamed_loader(dataset: str) -> str:
    """Return why the loader of a run is not used: a file that the user has not named. Else an empty text."""
    if ".py:" not in dataset:
        return ""
    try:
        with only_named_code():
            refuse_unnamed_file(Path(dataset.rpartition(":")[0]))
    except CodeNotNamed as error:
        return f"{error}."
    return ""


@lru_cache(maxsize=8)
def _texts_in_file(path: str, dataset: str, sha256: str, sample_id: str) -> dict[str, str]:
    """Return the messages of one conversation. Cached, because a question is shown with several memories."""
    try:
        refuse_special_file(Path(path))
        if file_sha256(Path(path)) != sha256:
            return {}
        for conversation in find_loader(dataset).conversations(Path(path)):
            if conversation.sample_id == sample_id:
                return {message.id: message.line for message in conversation.messages}
    except (OSError, AssayError):
        pass
    return {}
