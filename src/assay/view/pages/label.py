"""Blind labelling: one answer after the other, without the judge's verdict and the model's name, one key a label.

    /label/RUN                               who labels, and how many answers
    /label/RUN?by=ann&sample=50&at=3         the first answer from the third on that ann has not labelled

The address holds the whole state, so labelling goes on where it was left, on any day and in any browser. Labels go to
`labels.jsonl` of the run, as those of `assay label`. The agreement with the scores of the run is shown only when no
answer is left: before, it would tell something about the others.
"""

from __future__ import annotations

import getpass
import time
from hashlib import sha256
from pathlib import Path
from typing import Self

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.core.judges import Agreement
from assay.core.suite_pages import GradedAnswer
from assay.runner import api
from assay.store.labels import (
    AnswerKey,
    AnswerPlace,
    Answers,
    AnswersOf,
    LabelsBusy,
    RunLabels,
    agreement_with_scores,
    choose_answers,
    read_labels,
    score_name,
)
from assay.store.open_run import OpenRun
from assay.view.address import read_address, write_address
from assay.view.pages.judges import calibrate_command
from assay.view.processes import may_write
from assay.view.site import SITE, Site
from assay.view.text import TextBlock, preview

MAX_CASES = 5_000
"""Cases that are looked at for answers. Of a larger run, a random choice is."""
MAX_SAMPLE = 1_000
MAX_NAME = 60
MAX_TRAIL = 100
_MAX_QUEUES = 8
# Another process may write a label at the same moment. Its lock lasts for milliseconds.
_LOCK_PAUSES = (0.02, 0.05, 0.1, 0.2)


class LabelQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of labelling, as it stands in the address."""

    by: str = ""
    metric: str = ""
    sample: int = 50
    seed: int = 0
    balance: bool = False
    at: int = 0
    """Answers before this one were skipped."""
    trail: str = ""
    """The last steps, oldest first: `l` for a label and `s` for a skip. Undo takes back the last one."""

    @classmethod
    def parse(cls, values: dict[str, str]) -> Self:
        """Read the state from an address. Raises UsageError for a value of the wrong form."""
        query = read_address(cls, values)
        if not 1 <= query.sample <= MAX_SAMPLE:
            raise UsageError(f"between 1 and {MAX_SAMPLE:,} answers can be labelled at once, not {query.sample:,}")
        if len(query.by) > MAX_NAME or not query.by.isprintable():
            raise UsageError(f"a name has at most {MAX_NAME} characters, all of which can be seen")
        return replace(query, by=query.by.strip(), trail=query.trail[-MAX_TRAIL:])

    def address(self, **changes: int | str) -> str:
        """Return the part of the address after the path, with some values changed."""
        return write_address(self, **changes)


class LabelSetupPage(Struct, kw_only=True):
    """The values of `label_setup.html`."""

    name: str
    title: str
    query: LabelQuery
    metrics: list[str]
    is_sampled: bool
    """The run is so large that only some of its cases are looked at."""
    may_write: bool


class LabelPage(Struct, kw_only=True):
    """The values of `label.html`: an answer, or the end of the queue."""

    name: str
    title: str
    query: LabelQuery
    metric: str
    done: int
    total: int
    skipped: int
    number: int
    """The number of the answer in the queue, from 0."""
    key: str
    """A hash of the answer, which a label must name."""
    texts: list[TextBlock]
    is_over: bool
    agreement: Agreement | None
    command: str
    here: str


class Queue(Struct, frozen=True):
    """The answers to label, in order. Without texts: those are read one by one."""

    metric: str
    places: list[AnswerPlace]


async def show(request: web.Request) -> web.StreamResponse:
    """Show the next answer, or ask who labels."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    query = LabelQuery.parse(dict(request.query))
    whole = request.query.get("whole", "")
    if query.by and may_write(folder):
        page = await site.runs.ask(folder, lambda run: _label_page(site, run, query, whole))
        return site.render("label.html", page)
    setup = await site.runs.ask(folder, lambda run: _setup_page(site, run, query))
    return site.render("label_setup.html", setup)


async def send(request: web.Request) -> web.StreamResponse:
    """Save a label, skip an answer, or undo the last of these steps; then show the next answer."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    sent = {name: value for name, value in (await request.post()).items() if isinstance(value, str)}
    query = LabelQuery.parse(dict(request.query))
    if not query.by or not may_write(folder):
        raise UsageError("A label needs the name of the person, and a run folder that can be written.")
    after = await site.runs.ask(folder, lambda run: _save(site, run, query, sent))
    raise web.HTTPSeeOther(f"/label/{site.name(folder)}{after.address()}")


def _save(site: Site, run: OpenRun, query: LabelQuery, sent: dict[str, str]) -> LabelQuery:
    """Do what a form says. Returns the state to go on with."""
    queue = _queue(site, run, query)
    labels = _open_labels(run.folder, query.by)
    try:
        if sent.get("label") == "undo":
            return _undo(queue, labels, query)
        place = next((place for place in queue.places if _hash(place.key) == sent.get("key")), None)
        if place is None:
            raise UsageError("The answers of the run have changed. Open the page of its labels again.")
        number = queue.places.index(place)
        if sent.get("label") == "skip":
            return replace(query, at=number + 1, trail=query.trail + "s")
        if sent.get("label") not in ("right", "wrong"):
            raise UsageError("a label is right or wrong")
        # A key that was pressed twice is about one answer. Another label needs an undo.
        if place.key in labels.labels:
            return query
        answer = _answers(run, queue).read(place)
        labels.add(place, answer, right=sent["label"] == "right")
        return replace(query, trail=query.trail + "l")
    finally:
        labels.close()


def _undo(queue: Queue, labels: RunLabels, query: LabelQuery) -> LabelQuery:
    """Take back the last step: go back to a skipped answer, or remove the newest label."""
    if query.trail.endswith("s"):
        # All answers between the skipped one and `at` have labels: otherwise one of them would have been shown next.
        skipped = [number for number, place in enumerate(queue.places[: query.at]) if place.key not in labels.labels]
        return replace(query, at=skipped[-1] if skipped else query.at, trail=query.trail[:-1])
    undone = labels.undo_newest()
    if undone is None:
        return query
    numbers = [number for number, place in enumerate(queue.places) if place.key == undone]
    return replace(query, at=numbers[0] if numbers else query.at, trail=query.trail[:-1])


def _label_page(site: Site, run: OpenRun, query: LabelQuery, whole: str) -> LabelPage:
    queue = _queue(site, run, query)
    labels = {label.key: label for label in read_labels(run.folder) if label.by == query.by}
    open_numbers = [number for number, place in enumerate(queue.places) if place.key not in labels]
    number = next((number for number in open_numbers if number >= query.at), None)
    place = queue.places[number] if number is not None else None
    summary = run.summary()
    judges = summary.report.judges() if summary is not None and summary.report is not None else []
    return LabelPage(
        name=site.name(run.folder) or "",
        title=run.folder.name,
        query=query,
        metric=queue.metric,
        done=len(queue.places) - len(open_numbers),
        total=len(queue.places),
        skipped=len(open_numbers),
        number=number or 0,
        key=_hash(place.key) if place else "",
        texts=_texts(_answers(run, queue).read(place), whole) if place else [],
        is_over=place is None,
        agreement=None if open_numbers else agreement_with_scores(labels, queue.places),
        command=calibrate_command(judges[0].name if judges else "NAME", run.folder),
        here=query.address(),
    )


def _setup_page(site: Site, run: OpenRun, query: LabelQuery) -> LabelSetupPage:
    metrics = sorted({score_name(name.metric, name.filter) for name in run.table().metrics})
    return LabelSetupPage(
        name=site.name(run.folder) or "",
        title=run.folder.name,
        query=query if query.by else replace(query, by=_login_name()),
        metrics=metrics,
        is_sampled=len(run.cases().positions) > MAX_CASES,
        may_write=may_write(run.folder),
    )


def _texts(answer: GradedAnswer, whole: str) -> list[TextBlock]:
    """Return the texts to decide on. Neither the score nor the model is among them: both would influence the label."""
    texts = [("rubric", answer.rubric)] if answer.rubric else [("question", answer.question)]
    texts += [("reference", answer.reference)]
    texts += [("evidence", text) for text in answer.evidence]
    texts += [("text" if answer.rubric else "answer", answer.response or "(empty)")]
    blocks = []
    for number, (heading, text) in enumerate(texts, 1):
        if text:
            name, kind = f"text-{number}", "reply" if heading in ("answer", "text") else ""
            blocks.append(TextBlock(name, heading, preview(text, whole=name == whole), kind))
    return blocks


def _queue(site: Site, run: OpenRun, query: LabelQuery) -> Queue:
    """Return the queue of a run. The last few are kept, because they are needed for every label."""
    cases = run.cases()  # another object if the journal has grown
    key = (run.folder, id(cases), replace(query, by="", at=0, trail=""))
    queue = site.label_queues.pop(key, None)
    if not isinstance(queue, Queue):
        answers = choose_answers(
            run.folder,
            _answers_of(run),
            metric=query.metric,
            sample=query.sample,
            seed=query.seed,
            balance=query.balance,
            cases=cases,
            max_cases=MAX_CASES,
        )
        queue = Queue(answers.metric, list(answers.places))
    site.label_queues[key] = queue
    while len(site.label_queues) > _MAX_QUEUES:
        del site.label_queues[next(iter(site.label_queues))]
    return queue


def _answers(run: OpenRun, queue: Queue) -> Answers:
    return Answers(run.cases(), _answers_of(run), queue.metric, queue.places)


def _answers_of(run: OpenRun) -> AnswersOf:
    return api.suite_pages(run.info.suite).graded_answers


def _open_labels(folder: Path, by: str) -> RunLabels:
    """Open the labels of a run, which are locked for the time of a request. Waits for another request."""
    for pause in _LOCK_PAUSES:
        try:
            return RunLabels(folder, by)
        except LabelsBusy:
            time.sleep(pause)
    return RunLabels(folder, by)


def _hash(key: AnswerKey) -> str:
    return sha256("\0".join(key).encode(errors="replace")).hexdigest()[:16]


def _login_name() -> str:
    try:
        return getpass.getuser()[:MAX_NAME]
    except (OSError, KeyError):  # a container whose user has no name
        return ""
