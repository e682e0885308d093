"""`assay task`: model tasks in the format of lm-evaluation-harness.

The documents of all tasks form one sequence, task after task. `finish` reads the results in one pass: it
counts the scores, writes each task's samples file, and then writes the results file.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from assay.core.errors import InputError, UsageError
from assay.core.hashing import fingerprint
from assay.core.report import AnswerCount, Curve, Entry, Metric, Point, Report, Table
from assay.core.roles import CHAT, LIKELIHOOD
from assay.core.spec import RunSpec
from assay.core.suite import (
    MAIN,
    CaseContent,
    CaseResult,
    Outcome,
    Overview,
    PlannedCalls,
    Results,
    Row,
    Rows,
    RunFacts,
    Suite,
)
from assay.core.suite_pages import Section
from assay.core.types import Request, Score
from assay.files.paths import fitting_name
from assay.files.write import write_whole
from assay.suites.task.catalog import (
    MAX_PART_BYTES,
    Catalog,
    TaskGroup,
    TaskSelection,
    all_groups,
    is_path,
    list_tasks,
    task_file_part,
    tasks_of,
)
from assay.suites.task.config import GENERATE, TaskConfig, TaskFileReader
from assay.suites.task.dataset.documents import DataFacts
from assay.suites.task.harness_models import DEFAULT_MODEL, check_address, named_model, refuse_launcher
from assay.suites.task.metrics import find_missing_metrics, find_repeated_metrics, reported_names
from assay.suites.task.options import TaskOptions
from assay.suites.task.prompts import BadDocument
from assay.suites.task.scorer import JUDGE_METRIC, TaskScorer
from assay.suites.task.task import Task, TaskRow
from assay.suites.toolkit.prompt import PromptSolver

if TYPE_CHECKING:
    from assay.suites.task.judge import TaskJudge
    from assay.suites.task.tally import RepeatMeans, TaskNumbers, TaskTally

# A key in identities, next to the names of tasks. It starts with dashes so that no task has such a name.
_JUDGE_KEY = "--judge"
# `--dry-run` builds the prompts of this many documents per task, and extrapolates.
_ESTIMATED_DOCUMENTS = 100
# English text has about four characters a token.
_CHARACTERS_PER_TOKEN = 4
# `--list` cuts the members of a tag to this many characters: a tag may have hundreds of tasks.
_MAX_NAMES = 60
# Results that go through a step together at the end of a run: read, counted, built, written. One by one these steps
# take a twentieth longer.
_GROUP = 32


class TaskSuite(Suite[TaskOptions, TaskRow]):
    """The suite of `assay task`. A row is a document, the subject is the model."""

    name = "task"
    files = "assay.suites.task.suite_files:TaskFiles"
    pages = "assay.suites.task.suite_pages:TaskPages"
    Options = TaskOptions
    parts = "filters"
    case_word = "document"

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Convert the harness's `--model`, `--model_args` and `--output_path FILE.json`.

        Raises UsageError for options that exclude each other.
        """
        options = spec.options
        assert isinstance(options, TaskOptions)
        refuse_launcher()
        if options.samples and spec.limit is not None:
            raise UsageError("--samples and --limit both select documents; pass only one of them")
        if options.fewshot_as_multiturn and not options.apply_chat_template:
            raise UsageError("--fewshot-as-multiturn needs --apply-chat-template")
        if options.seeds and len(options.seeds) != 4:
            raise UsageError(f"--seed takes one number or four, not {len(options.seeds)}")
        model, args = named_model(spec.model, spec.model_args)
        check_address(spec.model, spec)
        if model != spec.model:
            options = replace(options, harness_model=spec.model or DEFAULT_MODEL)
        spec = replace(spec, model=model, model_args=args, options=options)
        if "\0" in model:
            raise UsageError(f"--model: {model!r} has the character NUL, which no folder of results can have")
        if Path(options.results_name).name != options.results_name:
            raise UsageError(f"results_name: {options.results_name!r} is no name of a file in the output folder")
        path = Path(spec.output_dir)
        if path.suffix == ".json":
            if fitting_name(path.stem, MAX_PART_BYTES) != path.stem:
                raise UsageError(f"--output-dir: the name {path.name!r} is too long for a results file")
            options = replace(options, results_name=path.stem)
            spec = replace(spec, output_dir=str(path.parent), options=options)
        return spec

    @classmethod
    def instead_of_run(cls, spec: RunSpec) -> Sequence[Section] | None:
        """Return the table of tasks, groups and tags for `--list`; None without the flag."""
        options = spec.options
        assert isinstance(options, TaskOptions)
        if not options.listing:
            return None
        table = Table(name="tasks", columns=["kind", "name", "where"], rows=[])
        for kind, name, where in list_tasks(options.include_path):
            place = where
            if kind == "tag" and len(where) > _MAX_NAMES:
                place = f"{where.count(',') + 1:,} tasks: {where[:_MAX_NAMES].rpartition(',')[0]}, …"
            table.rows.append([kind, name, place])
        return [Section(table=table)]

    @classmethod
    def replace_files(cls, spec: RunSpec, files: Sequence[str], facts: Mapping[str, Any]) -> RunSpec:
        """Return the spec with these task files instead of those of the same tasks, for `assay rescore --task`."""
        return _replace_tasks(spec, files, list(facts))

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        options = self.options
        if not options.tasks:
            raise UsageError("no task given; use: assay task FILE.yaml --model PROVIDER/NAME")
        selection = TaskSelection(Catalog(options.include_path))
        self._nodes = selection.select(options.tasks)
        self._repeated_keys = selection.repeated_keys
        self.tasks = [Task(config, spec) for config in self._configs()]
        self._by_name = {task.name: task for task in self.tasks}
        self._refuse_equal_file_names()
        if spec.model:
            # The other parameters are in the tasks' requests, and so in the samples file.
            removed = {name: None for name, value in spec.gen_kwargs.items() if value is None}
            self.roles = {MAIN: replace(self.roles[MAIN], needs=self._needed(), params=removed)}
        self._score_identity: dict[str, Any] = {task.name: task.score_identity() for task in self.tasks}
        self.solver = PromptSolver()
        scorings = {task.name: task.scoring for task in self.tasks}
        self.scorers = [TaskScorer(f"task@{fingerprint(self._score_identity)}", scorings)]
        # The judge is a separate scorer: a changed metric then does not repeat the judge's calls.
        self._judge = self._make_judge()
        if self._judge is not None:
            self.scorers = [*self.scorers, self._judge]
            self._score_identity[_JUDGE_KEY] = self._judge.id
        self.notices = list(self._find_notices())

    def _configs(self) -> list[TaskConfig]:
        """Return every task once, even if several groups contain it. `--samples` limits them to those it names."""
        configs: dict[str, TaskConfig] = {}
        for node in self._nodes:
            for config in tasks_of(node):
                configs.setdefault(config.name, config)
        samples = self.options.samples
        if missing := sorted(samples.keys() - configs.keys()):
            raise UsageError(f"--samples names {missing[0]!r}, which is not among the tasks of this run")
        return [config for name, config in configs.items() if not samples or name in samples]

    def _refuse_equal_file_names(self) -> None:
        names: dict[str, str] = {}
        for task in self.tasks:
            other = names.setdefault(task_file_part(task.name), task.name)
            if other != task.name:
                raise UsageError(f"the tasks {other!r} and {task.name!r} would write to the same samples file")

    def _needed(self) -> frozenset[str]:
        """Return the abilities that the model must have.

        CHAT is needed only with a chat template: chat endpoints also accept text, as one user message.
        """
        needs = {CHAT} if self.options.apply_chat_template else set()
        if any(task.config.output != GENERATE for task in self.tasks):
            needs.add(LIKELIHOOD)
        return frozenset(needs)

    def _make_judge(self) -> TaskJudge | None:
        if not (self.spec.judge or self.options.judge_prompt or self.spec.votes > 1):
            return None
        from assay.suites.task.judge import make_judge  # a task without a judge does not need it

        judge = make_judge(self.spec, self.options, self.tasks)
        if judge is not None:
            self.roles = {**self.roles, **judge.roles}
        return judge

    def _find_notices(self) -> Iterator[str]:
        yield from map(str, self._repeated_keys)
        for group in all_groups(self._nodes):
            yield from map(str, group.warnings)
            if not self.options.predict_only:
                names = [reported_names(task) for task in group.tasks()]
                yield from map(str, find_missing_metrics(group.metrics, names))
        for task in self.tasks:
            yield from map(str, find_repeated_metrics(task.config))
            if task.values["should_decontaminate"]:
                where = task.config.where("should_decontaminate")
                yield f"{where}: this setting has no effect, as in the harness"
        if self._judge is not None:
            yield from self._judge.notices(self.tasks)

    # Identity of the run

    def ask_identity(self) -> dict[str, Any]:
        """Return the settings of every task that affect requests."""
        return {task.name: task.ask_identity() for task in self.tasks}

    def data_identity(self) -> list[Any]:
        """Return the hashes of every task's data files, in the order of the tasks.

        The order matters: the number of a case counts the cases of all tasks before it.
        """
        with self._repeated_keys_in_errors():
            return [[task.name, task.data_identity()] for task in self.tasks]

    @contextmanager
    def _repeated_keys_in_errors(self) -> Iterator[None]:
        """Context manager: an error about the data also names keys that are written twice, which may be the reason.

        The run then ends before its notices are printed.
        """
        try:
            yield
        except InputError as error:
            if not self._repeated_keys:
                raise
            raise InputError([*error.problems, *self._repeated_keys]) from error

    def score_identity(self) -> dict[str, Any]:
        """Return the settings of every task that affect scores, and the judge's id."""
        return self._score_identity

    # Cases

    def rows(self, facts: dict[str, Any] | None = None) -> TaskRows:
        """Return the documents of all tasks.

        `facts` are the results of an earlier scan of the data. Without them every file is scanned once.
        """
        earlier = {name: msgspec.convert(value, DataFacts) for name, value in (facts or {}).items()}
        with self._repeated_keys_in_errors():
            rows = TaskRows(self.tasks, earlier)
        warnings = [str(warning) for task in self.tasks for warning in task.data.documents.warnings]
        self.notices = list(dict.fromkeys((*self.notices, *warnings)))
        return rows

    def case(self, row: Row[TaskRow], subject: str) -> CaseContent:
        """Return the requests and the expected answer of a document."""
        inputs, gold, failure = self._by_name[row.set].build(row.data)
        return CaseContent(inputs, gold, str(row.data.document.number), failure=failure)

    # Results

    def finish(self, results: Results[TaskRow], run: RunFacts) -> Outcome:
        """Count the scores and write the samples files in one pass, then write the results file."""
        # What only the end of a run needs is imported at its end, so that the first request leaves earlier.
        from assay.suites.task.results import ResultsFile, file_names
        from assay.suites.task.tally import share_names

        names = [task.name for task in self.tasks]
        folder, results_name, samples_name = file_names(self.spec, names, run.started)
        folder.mkdir(parents=True, exist_ok=True)
        writes_samples = self.options.log_samples or self.options.predict_only
        # A shard may have no document of a task.
        by_task = groupby(results, key=lambda result: result.row.set)
        name, task_results = next(by_task, ("", iter(())))
        files: list[Path] = []
        hashes: dict[str, str] = {}
        quirks: Counter[str] = Counter()
        numbers: dict[str, TaskNumbers] = {}
        for task in self.tasks:
            path = folder / samples_name.format(task_file_part(task.name)) if writes_samples else None
            own_results = task_results if name == task.name else iter(())
            numbers[task.name], digest = self._finish_task(task, own_results, path, quirks)
            if name == task.name:
                name, task_results = next(by_task, ("", iter(())))
            if path is not None:
                hashes[task.name] = digest
                files.append(path)
        content = ResultsFile(self.spec, self._nodes, self.tasks, numbers)
        target = folder / results_name
        judge = self._judge.info if self._judge else None
        write_whole(target, content.as_json(run, hashes, quirks, judge).encode())

        entries = [self._task_entry(task, numbers[task.name]) for task in self.tasks]
        groups = [group for group in all_groups(self._nodes) if group.metrics]
        shares = share_names([result for task in numbers.values() for result in task.metrics])
        entries += [self._group_entry(group, content.groups[group.name], shares) for group in groups]
        report = Report(entries=entries, entry_word="task")
        if not any(report.metrics()) and (empty := self._without_metrics()):
            report.passed, report.why = False, f"No case has a score: metric_list of {empty} is empty"
        return Outcome(report, [target, *files])

    def _without_metrics(self) -> str:
        """Return the names of the tasks that ask for no metric."""
        return ", ".join(task.name for task in self.tasks if not task.scoring.metrics and task.scoring.process is None)

    def _finish_task(
        self, task: Task, results: Iterator[CaseResult[TaskRow]], path: Path | None, quirks: Counter[str]
    ) -> tuple[TaskNumbers, str]:
        """Count one task's results and write its samples file. Returns the numbers and the task's hash."""
        from assay.suites.task.samples import SamplesWriter
        from assay.suites.task.tally import MetricScores, TaskTally

        chain = self._judge.chain(task.name) if self._judge else None
        tally = TaskTally(task.scoring, MetricScores(chain.name, JUDGE_METRIC) if chain else None)
        if self.options.lm_eval_quirks:
            quirks += task.setting_quirks()
        if path is None:
            for result in results:
                self._count(task, result, tally, quirks)
            return tally.numbers(self.options.bootstrap_iters), ""
        names = [chain.name for chain in task.scoring.chains]
        with SamplesWriter(path, names, task.values.get("generation_kwargs")) as writer:
            while group := list(islice(results, _GROUP)):
                for result in group:
                    self._count(task, result, tally, quirks)
                ended = [(result, result.end) for result in group if result.end is not None]
                built = [task.build(result.row.data) for result, _ in ended]
                for (result, end), (inputs, gold, _) in zip(ended, built, strict=True):
                    number = result.row.data.document.number
                    writer.write(number, inputs, gold, end, result.records, result.scores)
            return tally.numbers(self.options.bootstrap_iters), writer.close()

    def _count(self, task: Task, result: CaseResult[TaskRow], tally: TaskTally, quirks: Counter[str]) -> None:
        scores: list[Score] = result.scores
        verdicts: list[Score] = []
        if self._judge is not None:
            judge = self._judge.id
            verdicts = [score for score in scores if score.scorer == judge]
            scores = [score for score in scores if score.scorer != judge]
        tally.add(result.end, scores, verdicts)
        if not self.options.lm_eval_quirks:
            return
        from assay.suites.task.quirks import find_quirks

        row = result.row.data
        if not isinstance(row.examples, BadDocument) and row.value in row.examples:
            quirks["fewshot_leak"] += 1
        if result.end is not None:
            inputs, gold, _ = task.build(row)
            metric_list = task.values.get("metric_list") or []
            quirks.update(find_quirks(inputs, gold, result.records, scores, metric_list))

    def _task_entry(self, task: Task, numbers: TaskNumbers) -> Entry:
        from assay.suites.task.tally import report_metric

        curves = []
        for part, means in numbers.repeats.items():
            curves.append(_curve("pass@k", part, means, means.pass_at))
            curves.append(_curve("maj@k", part, means, means.majority_at))
        judges = []
        if self._judge is not None and self._judge.chain(task.name) is not None:
            judges.append(self._judge.info)
        return Entry(
            name=task.name,
            subject=self.spec.model,
            set=task.name,
            alias=task.values.get("task_alias") or "",
            metrics=[report_metric(result) for result in numbers.metrics],
            counts={status: count for status, count in numbers.counts.items() if count},
            answered=AnswerCount(numbers.counts["ok"], sum(numbers.counts.values())),
            curves=curves,
            judges=judges,
        )

    def _group_entry(self, group: TaskGroup, results: dict[str, Any], shares: Collection[tuple[str, str]]) -> Entry:
        """Return the report's entry of a group, from the group's part of the results file."""
        from assay.suites.task.tally import group_results, missing_results, report_metric

        metrics = group_results(results, shares)
        if not self.options.predict_only:
            metrics += missing_results(group, results)
        return Entry(
            name=group.name,
            subject=self.spec.model,
            alias=group.alias if group.alias != group.name else "",
            members=list(group.children),
            metrics=[report_metric(result) for result in metrics],
        )

    def overview(self, rows: Rows[TaskRow]) -> Overview:
        """Return the planned calls of each task and its first prompt, for `--dry-run` and `--write-out`."""
        overview = Overview(facts={"model": self.spec.model})
        judged_documents = 0
        for task in self.tasks:
            overview.facts[f"task {task.name}"] = (
                f"{task.count:,} of {task.original:,} documents, {task.config.output}, "
                f"{task.values['num_fewshot']} examples before each"
            )
            overview.calls.append(_planned_calls(task, self.spec.model))
            overview.sections += _first_prompt(task)
            if self._judge is not None and self._judge.chain(task.name) is not None:
                judged_documents += task.count
        if self._judge is not None and self._judge.roles:
            info = self._judge.info
            overview.calls.append(PlannedCalls(what="judge", model=info.name, calls=judged_documents * info.votes))
        return overview

    # `assay check` and `assay show`


class TaskRows:
    """The documents of all tasks, task after task."""

    def __init__(self, tasks: Sequence[Task], earlier: dict[str, DataFacts]) -> None:
        self._starts: list[tuple[Task, int]] = []
        self.facts: dict[str, Any] = {}
        self.count = 0
        for task in tasks:
            self.facts[task.name] = msgspec.to_builtins(task.prepare(earlier.get(task.name)))
            self._starts.append((task, self.count))
            self.count += task.count

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[TaskRow]]:
        """Yield the rows in data order. `skip` takes the position of a row in the run."""
        for task, start in self._starts:
            for row in task.rows(_skip_from(skip, start)):
                yield Row(start + row.position, row.key, task.name, row)


def _skip_from(skip: Callable[[int], bool] | None, start: int) -> Callable[[int], bool] | None:
    if skip is None or start == 0:
        return skip
    return lambda position: skip(start + position)


def _curve(name: str, part: str, means: RepeatMeans, values: Sequence[float]) -> Curve:
    points = []
    for k, value in enumerate(values, 1):
        metric = Metric(name=means.metric, filter=part, value=value, denominator=means.documents)
        points.append(Point(k, metric))
    return Curve(name=name, x="repeats", points=points)


def _planned_calls(task: Task, model: str) -> PlannedCalls:
    """Estimate a task's calls and tokens from its first documents. Output tokens are an upper bound."""
    documents = calls = characters = 0
    for row in islice(task.rows(), _ESTIMATED_DOCUMENTS):
        inputs, _, _ = task.build(row)
        documents += 1
        calls += len(inputs.requests) * inputs.repeats
        for request in inputs.requests:
            length = len(request.prompt or "") + len(request.continuation or "")
            length += sum(len(str(message["content"])) for message in request.messages or ())
            characters += length * inputs.repeats
    share = task.count / max(documents, 1)
    all_calls = round(calls * share)
    # A likelihood request generates no tokens.
    tokens_each = int(task.request_params().get("max_tokens", 0)) if task.config.output == GENERATE else 0
    return PlannedCalls(
        what=task.name,
        model=model,
        calls=all_calls,
        input_tokens=round(characters * share / _CHARACTERS_PER_TOKEN),
        output_tokens=all_calls * tokens_each,
    )


def _first_prompt(task: Task) -> Iterator[Section]:
    """Yield the first document's requests. A prompt that several requests share is shown once."""
    inputs, gold, _ = task.build(next(task.rows()))
    yield Section(heading=f"{task.name}: the first prompt")
    previous: str | None = None
    for request in inputs.requests:
        prompt = _prompt_text(request)
        if prompt is not None and prompt != previous:
            yield Section(text=prompt, indent=1)
        previous = prompt
        if request.continuation is not None:
            yield Section(text=f"how likely is: {request.continuation!r}", indent=1)
    yield Section(text=f"target: {gold.target!r}", indent=1)


def _prompt_text(request: Request) -> str | None:
    return request.prompt if request.messages is None else json.dumps(request.messages, indent=2)


def _replace_tasks(spec: RunSpec, files: Sequence[str], names: list[str]) -> RunSpec:
    """Return the spec with `files` instead of the files of the same tasks.

    `names` are the run's tasks. If every task has a new file, the old files need not exist any more.
    """
    options = spec.options
    assert isinstance(options, TaskOptions)
    new_files = {str(TaskFileReader().read(Path(file)).values.get("task")): file for file in files}
    for name, file in new_files.items():
        if name not in names:
            raise UsageError(f"{file} is not a task of this run; the run has {', '.join(names)}")
    if len(new_files) == len(names) == len(options.tasks):
        tasks = [new_files[name] for name in names]
    else:
        missing = [name for name in options.tasks if is_path(name) and not Path(name).is_file()]
        missing += [folder for folder in options.include_path if not Path(folder).is_dir()]
        if missing:
            raise UsageError(
                f"there is no {missing[0]!r} in the current folder; pass the file of every task with --task"
            )
        tasks = options.tasks
        if new_files:
            selection = TaskSelection(Catalog(options.include_path))
            tasks = []
            for name in options.tasks:
                nodes = selection.select([name])
                tasks.append(new_files.pop(nodes[0].name, name) if len(nodes) == 1 else name)
            if new_files:
                file = next(iter(new_files.values()))
                raise UsageError(f"--task {file}: this task was run through a group or a tag; edit its own file")
    return replace(spec, options=replace(options, tasks=tasks))
