"""The list of runs: one line for each run, filters, and the options by which similar runs differ.

    for run in list_runs(Path("results"), RunFilter(model="gpt-5", tags=("baseline",))):
        run.name, run.state, run.scores, run.differs, run.tags

Reads `run.json`, `notes.json` and the first fields of `summary.json`: a thousand runs take less than a second.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct, field

from assay.core.hashing import fingerprint
from assay.core.registry import short
from assay.core.report import Interval
from assay.core.spec import RunSpec, fields
from assay.journal.run_files import RunInfo
from assay.store.notes import Note, RunNotes, notes_or_warning
from assay.store.runs import RunState, states

# Longer values, such as prompts, are shown by the beginning of their hash.
_MAX_VALUE = 40
_HASH_LENGTH = 6
# Where a provider is a file, `base_url` has the hash of its content.
_FILE_URL = "file:"

Warn = Callable[[str], object]
IgnoredOptions = Callable[[str], Collection[str]]


class RunFilter(Struct, frozen=True, kw_only=True):
    """Which runs to list. An empty field excludes no run."""

    suites: Sequence[str] = ()
    model: str = ""
    """A part of the model's name, in any case."""
    states: Sequence[str] = ()
    since: float | None = None
    """Only runs that started at this time or later, in seconds since 1970."""
    tags: Sequence[str] = ()
    """Only runs that have all these tags."""
    failed: bool = False
    """Only runs that stopped, or whose command ended with another exit code than 0."""
    search: str = ""
    """A text in the name, model, command, notes or tags of the run, in any case."""

    def matches(self, run: ListedRun) -> bool:
        """Return whether a run is to be listed."""
        if self.suites and not {run.suite, short(run.suite)} & set(self.suites):
            return False
        if self.states and run.state not in self.states:
            return False
        if self.since is not None and run.started < self.since:
            return False
        if self.failed and (run.state == "running" or (run.state == "finished" and not run.exit_code)):
            return False
        if not set(self.tags) <= set(run.tags):
            return False
        if self.model.casefold() not in run.model.casefold():
            return False
        texts = (run.name, run.title, run.model, " ".join(run.command), *run.tags)
        texts += tuple(note.text for note in run.notes)
        return any(self.search.casefold() in text.casefold() for text in texts)


class HeadlineScore(Struct, frozen=True, kw_only=True):
    """The first metric of one entry of a run's report."""

    entry: str
    metric: str
    value: float
    numerator: float | None
    denominator: int
    interval: Interval | None = None

    def __str__(self) -> str:
        return f"{self.entry} {self.metric} {self.value:.4f}"


class ListedRun(Struct, kw_only=True):
    """One run of the list. `assay runs --json` prints these fields."""

    name: str
    folder: str
    suite: str
    title: str = ""
    """The name that `assay.evaluate(name=…)` gave to the run."""
    model: str
    state: str
    problem: str = ""
    """What is wrong with a run in the state `damaged` or `unreadable`, and what to do."""
    started: float
    total: int | None
    done: int
    """The number of cases that have ended."""
    exit_code: int | None = None
    seconds: float | None = None
    cost: float | None = None
    """The price of all calls in US dollars, judges included. None if no call has a price."""
    unpriced_calls: int = 0
    """Paid calls whose price is not known, so that `cost` lacks it."""
    scores: list[HeadlineScore] = field(default_factory=list)
    differs: dict[str, str | None] = field(default_factory=dict)
    """The options in which this run differs from listed runs of the same suite and model. None is an option that
    other runs have and this one does not. An imported run has no options: it is told by its format and file. A run
    whose name another one has too is told by its folder."""
    tags: list[str] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    imported: str = ""
    """The format of the file that the run was imported from; empty for a run of assay's own."""
    command: list[str] = field(default_factory=list)

    @property
    def headline(self) -> str:
        """The first metric of each entry: `gsm8k exact_match 0.6100`."""
        return "; ".join(map(str, self.scores))


def list_runs(
    root: Path,
    chosen: RunFilter,
    *,
    warn: Warn = lambda _: None,
    ignored_options: IgnoredOptions = lambda _: (),
    count_running: bool = True,
) -> list[ListedRun]:
    """Return the runs at or below a folder that the filter lets through, oldest first.

    `warn` gets what is wrong with a damaged run. `ignored_options` returns the names of a suite's options that change
    no result, which need not be told. Counting the cases of a running run reads its journal; without `count_running`
    its `done` is 0.
    """
    listed: list[tuple[ListedRun, RunInfo]] = []
    for state in states(root, count_running=count_running):
        run = _listed(state, notes_or_warning(state.folder, warn))
        if chosen.matches(run):
            listed.append((run, state.info))
            if run.problem:
                warn(run.problem)
    groups: dict[tuple[str, str], list[tuple[ListedRun, RunInfo]]] = {}
    for run, info in listed:
        groups.setdefault((run.suite, run.model), []).append((run, info))
    for (suite, _), group in groups.items():
        if len(group) > 1:
            told = _differences([info for _, info in group], ignored_options(suite))
            for (run, _), differs in zip(group, told, strict=True):
                run.differs = differs
    for run, info in listed:
        if info.shard is not None:
            run.differs = {"shard": str(info.shard), **run.differs}
    # A copy of a run has its name too.
    names = Counter(run.name for run, _ in listed)
    for run, _ in listed:
        if names[run.name] > 1:
            run.differs["folder"] = str(Path(run.folder).parent)
    return [run for run, _ in listed]


def unique_starts(names: Sequence[str]) -> dict[str, str]:
    """Return for each name its shortest beginning, in whole words between dashes, that no other name has.

    A run's name begins with the second in which it started, so this is mostly the time. Commands accept it as RUN.
    """
    starts: dict[str, str] = {}
    ordered = sorted(names)
    for position, name in enumerate(ordered):
        neighbours = ordered[max(0, position - 1) : position] + ordered[position + 1 : position + 2]
        words = name.split("-")
        for count in range(min(5, len(words)), len(words) + 1):  # five words are a whole time
            start = "-".join(words[:count])
            if not any(other.startswith(start) for other in neighbours):
                break
        starts[name] = start
    return starts


def _listed(run: RunState, notes: RunNotes) -> ListedRun:
    info, summary = run.info, run.summary
    listed = ListedRun(
        name=run.folder.name,
        folder=str(run.folder),
        suite=info.suite,
        title=str((info.spec.get("options") or {}).get("name", "")) if info.suite == "evaluate" else "",
        model=str(info.spec.get("model") or ""),
        state=run.state,
        problem=run.problem,
        started=info.started,
        # A run that lost its run.json has no options and no total.
        total=info.total if info.spec else None,
        done=run.done,
        tags=notes.tags,
        notes=notes.notes,
        imported=info.imported.format if info.imported else "",
        command=info.command,
    )
    if summary is None or run.state == "running":
        return listed
    listed.exit_code, listed.seconds, listed.cost = summary.exit_code, summary.seconds, summary.cost
    listed.unpriced_calls = summary.spent.unpriced_calls
    for entry in summary.report.entries if summary.report else ():
        metric = entry.metrics[0] if entry.metrics else None
        if metric is not None and metric.value is not None:
            listed.scores.append(
                HeadlineScore(
                    entry=entry.name,
                    metric=f"{metric.name},{metric.filter}" if metric.filter else metric.name,
                    value=metric.value,
                    numerator=metric.numerator,
                    denominator=metric.denominator,
                    interval=metric.interval,
                )
            )
    return listed


# How similar runs differ


def _differences(infos: Sequence[RunInfo], ignored: Collection[str]) -> list[dict[str, str | None]]:
    """Return for each run the options that are not equal in all these runs, without those that were imported.

    An imported run is told by its format, and by its file if several were imported. If runs with different replies
    still look alike, the settings and data behind the options are compared too: the content of prompts and files.
    """
    imported = [info for info in infos if info.imported]
    if imported:
        own = iter(_differences([info for info in infos if not info.imported], ignored))
        files = iter(_unequal([{"file": info.imported and info.imported.files[0].path} for info in imported]))
        return [{"imported": info.imported.format, **next(files)} if info.imported else next(own) for info in infos]
    options = [_options(info, ignored) for info in infos]
    told = _unequal(options)
    looks: dict[tuple[str | None, ...], set[str]] = {}
    for texts, info in zip(told, infos, strict=True):
        looks.setdefault(tuple(texts.values()), set()).add(info.ask)
    if all(len(asks) == 1 for asks in looks.values()):
        return told
    contents = _unequal([_contents(info) for info in infos])
    return [{**texts, **more} for texts, more in zip(told, contents, strict=True)]


_HOW = frozenset(option.name for option in fields(RunSpec) if option.mark == "how")


def _options(info: RunInfo, ignored: Collection[str]) -> dict[str, Any]:
    """Return the options of a run that can change its replies or scores."""
    own = info.spec.get("options") or {}
    common = {name: value for name, value in info.spec.items() if name not in ("suite", "options", "model")}
    # An empty list, text or mapping is an option that was not given, like None.
    return {
        name: value if value not in ("", [], {}) else None
        for name, value in {**common, **own}.items()
        if name not in _HOW and name not in ignored
    }


def _contents(info: RunInfo) -> dict[str, Any]:
    """Return the leaves of what the run's fingerprint was computed from, without the options."""
    leaves: dict[str, Any] = {}

    def walk(value: Any, path: str) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, f"{path}.{key}" if path else str(key))
        else:
            leaves[path] = value

    ask = info.parts.get("ask") or {}
    walk(ask.get("plan"), "")
    return {**leaves, "data": ask.get("data")}


def _unequal(rows: Sequence[dict[str, Any]]) -> list[dict[str, str | None]]:
    """Return of each row the items that are not equal in all rows, as short texts."""
    names: dict[str, None] = {}
    for row in rows:
        names |= dict.fromkeys(row)
    texts: list[dict[str, str | None]] = [{} for _ in rows]
    for name in names:
        values = [row.get(name) for row in rows]
        if any(value != values[0] for value in values):
            for shown, text in zip(texts, _value_texts(values), strict=True):
                is_file = name == "base_url" and text is not None and text.startswith(_FILE_URL)
                shown["model file" if is_file else name] = text
    return texts


def _value_texts(values: Iterable[Any]) -> list[str | None]:
    """Return short texts of values. Paths are cut to the name of the file, unless that makes two of them alike."""
    texts = [None if value is None else _value_text(value) for value in values]
    names = {text: text.rpartition("/")[2] or text for text in texts if text is not None}
    all_differ = len(set(names.values())) == len(names)
    shown: list[str | None] = []
    for text in texts:
        name = names[text] if text is not None and all_differ else text
        if name is not None and (len(name) > _MAX_VALUE or not name.isprintable()):
            name = fingerprint(text)[:_HASH_LENGTH]
        shown.append(name)
    return shown


def _value_text(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, list) and all(isinstance(item, (str, int, float)) for item in value):
        return ",".join(map(str, value))
    if isinstance(value, dict) and all(isinstance(item, (str, int, float)) for item in value.values()):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return msgspec.json.encode(value).decode()
