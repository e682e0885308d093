"""A task run, resolved: which documents are asked, how they are scored, which files come out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec

from assay.core.connect import CHAT, LIKELIHOOD
from assay.core.errors import UsageError
from assay.core.files import write_whole
from assay.core.hashing import fingerprint
from assay.core.protocols import Outcome, Reader, RunFacts, Scorer, check_same
from assay.core.spec import RunSpec
from assay.core.types import Case, End, Record, Score
from assay.scoring.panel import panel_from_spec
from assay.solvers.prompt import PromptSolver
from assay.suites.task.catalog import Catalog, TaskGroup, TaskSelection, all_groups, is_path, tasks_of
from assay.suites.task.config import GENERATE, TaskConfig, TaskFiles
from assay.suites.task.dataset.documents import DataFacts
from assay.suites.task.options import TaskOptions, own_arguments
from assay.suites.task.prompts import BadDocument
from assay.suites.task.quirks import find_quirks
from assay.suites.task.results import ResultsFile, file_names, sanitise
from assay.suites.task.samples import SamplesWriter
from assay.suites.task.scorer import JUDGE_METRIC, TaskJudge, TaskScorer
from assay.suites.task.tally import MetricResult, MetricTally, TaskNumbers, TaskTally, group_results
from assay.suites.task.task import Task, TaskRow

# The judge's key among the score identities of tasks. No task has this name.
_JUDGE_KEY = "--judge"
CaseLines = tuple[End, list[Record], list[Score]]


class TaskPlan:
    """All tasks of a run as one sequence of cases."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self._spec = spec
        self._options = options
        if not options.tasks:
            raise UsageError("no task is named: assay task FILE.yaml --model PROVIDER/NAME")
        self.nodes = TaskSelection(Catalog(options.include_path)).select(options.tasks)
        self.tasks = [Task(config, spec) for config in self._configs()]
        self._refuse_equal_file_names()
        self._starts: dict[str, int] = {}
        self._quirks: Counter[str] = Counter()
        self.needs, self.roles = self._needed(), dict[str, Any](main=spec.model)
        notices = []
        for task in self.tasks:
            if task.values["should_decontaminate"]:
                where = task.config.where("should_decontaminate")
                notices.append(f"{where}: it has no effect, here as in the harness")
        self.notices = tuple(notices)
        # A list: the order of tasks gives every case its place.
        self.ask = [[task.name, task.ask_identity()] for task in self.tasks] + [own_arguments(options)]
        self.score: dict[str, Any] = {task.name: task.score_identity() for task in self.tasks}
        self.solver = PromptSolver()
        scorer = f"task@{fingerprint(self.score)}"
        self.scorers: list[Scorer] = [TaskScorer(scorer, {task.name: task.scoring for task in self.tasks})]
        self._judge = self._make_judge()

    def _make_judge(self) -> TaskJudge | None:
        """A scorer beside the other: each keeps its scores when the other changes."""
        panel = panel_from_spec(self._spec)
        if panel is None:
            return None
        if self._options.predict_only:
            raise UsageError("--predict-only computes no score, and --judge gives one; leave one of them out")
        judged = _judged_tasks(self.tasks)
        chains = {task.name: task.scoring.chains[0] for task in judged}
        identities = {task.name: task.judge_identity() for task in judged}
        judge = TaskJudge(panel, chains, identities)
        self.roles |= judge.roles
        self.score[_JUDGE_KEY] = judge.id
        for task in self.tasks:
            if why := _why_not_judged(task):
                self.notices = (*self.notices, f"{task.name} is not judged: it {why}")
        self.scorers.append(judge)
        return judge

    def _configs(self) -> list[TaskConfig]:
        """Every task once, however many groups have it; only those that `--samples` names."""
        configs: dict[str, TaskConfig] = {}
        for node in self.nodes:
            for config in tasks_of(node):
                configs.setdefault(config.name, config)
        wanted = self._options.samples
        if missing := sorted(wanted.keys() - configs.keys()):
            raise UsageError(f"--samples names {missing[0]!r}, which is not among the tasks of this run")
        return [config for name, config in configs.items() if not wanted or name in wanted]

    def _refuse_equal_file_names(self) -> None:
        names: dict[str, str] = {}
        for task in self.tasks:
            other = names.setdefault(sanitise(task.name), task.name)
            if other != task.name:
                raise UsageError(
                    f"the tasks {other!r} and {task.name!r} would write to the same samples file"
                )

    def _needed(self) -> frozenset[str]:
        """What the model must be able to do. Without a chat template text goes out as one message."""
        needs = {CHAT} if self._options.apply_chat_template else set()
        if any(task.config.output != GENERATE for task in self.tasks):
            needs.add(LIKELIHOOD)
        return frozenset(needs)

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """Scan each task's data, and lay the tasks one after the other."""
        known = {name: msgspec.convert(value, DataFacts) for name, value in (facts or {}).items()}
        start = 0
        for task in self.tasks:
            self._starts[task.name] = start
            known[task.name] = task.prepare(known.get(task.name))
            start += task.count
        return {name: msgspec.to_builtins(value) for name, value in known.items()}

    @property
    def total(self) -> int:
        """All cases of all tasks."""
        return sum(task.count for task in self.tasks)

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Task after task, in data order."""
        for task in self.tasks:
            start = self._starts[task.name]
            own_skip = skip if start == 0 else _shifted(skip, start)
            for row in task.rows(own_skip):
                yield self._case(task, row)

    def _case(self, task: Task, row: TaskRow) -> Case:
        inputs, gold, failure = task.build(row)
        index = self._starts[task.name] + row.position
        label = str(row.document.number)
        return Case(index, row.key, task.name, self._spec.model, label, inputs, gold, failure)

    def firsts(self) -> list[Case]:
        """The first case of every task."""
        return [self._case(task, next(task.rows())) for task in self.tasks]

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The harness's two kinds of files, each complete or not there."""
        names = [task.name for task in self.tasks]
        folder, results_name, samples_name = file_names(self._spec, names, facts.started)
        folder.mkdir(parents=True, exist_ok=True)
        self._quirks.clear()
        files, hashes = [], {}
        numbers: dict[str, TaskNumbers] = {}
        for task in self.tasks:
            path = folder / samples_name.format(sanitise(task.name))
            numbers[task.name], digest = self._read(task, reader, path if self._logs else None)
            if digest:
                hashes[task.name] = digest
                files.append(path)
        results = ResultsFile(self._spec, self.nodes, self.tasks, numbers)
        target = folder / results_name
        write_whole(target, results.as_json(facts, hashes, self._quirks).encode())
        summary = {task.name: _task_summary(task, numbers[task.name]) for task in self.tasks}
        for group in all_groups(self.nodes):
            if group.metrics:
                summary[group.name] = _group_summary(group, results.groups[group.name])
        return Outcome(summary, [target, *files])

    @property
    def _logs(self) -> bool:
        return self._options.log_samples or self._options.predict_only

    def _read(self, task: Task, reader: Reader, path: Path | None) -> tuple[TaskNumbers, str]:
        """A task's numbers and, if a samples file is wanted, its hash."""
        chain = self._judge.chain(task.name) if self._judge else None
        tally = TaskTally(task.scoring, MetricTally(chain.name, JUDGE_METRIC) if chain else None)
        digest = ""
        if path is None:
            self._count(task, reader, tally)
        else:
            names = [chain.name for chain in task.scoring.chains]
            with SamplesWriter(path, names, task.values.get("generation_kwargs")) as writer:
                for case, lines in self._cases(task, reader):
                    verdicts = self._verdicts(case.index, reader)
                    tally.add(lines, verdicts)
                    if lines is not None:
                        end, records, scores = lines
                        writer.write(case, end, records, [*scores, *verdicts])
                digest = writer.close()
        numbers = tally.numbers(self._options.bootstrap_iters)
        if chain is not None and self._judge is not None:
            numbers.judge = self._judge.about
        return numbers, digest

    def _verdicts(self, index: int, reader: Reader) -> list[Score]:
        return reader.scores(index, self._judge.id) if self._judge else []

    def _count(self, task: Task, reader: Reader, tally: TaskTally) -> None:
        """Without a samples file only quirks need to see the documents."""
        if self._options.lm_eval_quirks:
            for case, lines in self._cases(task, reader):
                tally.add(lines, self._verdicts(case.index, reader))
            return
        start = self._starts[task.name]
        for index in range(start, start + task.count):
            tally.add(reader.case(index, self.scorers[0].id), self._verdicts(index, reader))

    def _cases(self, task: Task, reader: Reader) -> Iterator[tuple[Case, CaseLines | None]]:
        """Every document beside what the journal has of it."""
        quirks = self._options.lm_eval_quirks
        metric_list = task.values.get("metric_list") or []
        self._quirks += task.setting_quirks()
        for row in task.rows():
            case = self._case(task, row)
            lines = reader.case(case.index, self.scorers[0].id)
            if quirks and not isinstance(row.examples, BadDocument) and row.value in row.examples:
                self._quirks["fewshot_leak"] += 1
            if lines is not None:
                check_same(case, lines[0])
                if quirks:
                    self._quirks.update(find_quirks(case, *lines[1:], metric_list))
            yield case, lines


def _shifted(skip: Callable[[int], bool], start: int) -> Callable[[int], bool]:
    return lambda position: skip(start + position)


def _judged_tasks(tasks: Sequence[Task]) -> list[Task]:
    """The tasks with answers that a judge can read. Raises if there is none, or a metric's name is taken."""
    for task in tasks:
        if JUDGE_METRIC.name in task.scoring.metrics:
            raise UsageError(
                f"the task {task.name} has a metric of its own named {JUDGE_METRIC.name!r}; "
                "rename it, or leave out --judge"
            )
    judged = [task for task in tasks if not _why_not_judged(task)]
    if not judged:
        raise UsageError(f"--judge: {tasks[0].name} {_why_not_judged(tasks[0])}; leave it out")
    return judged


def _why_not_judged(task: Task) -> str:
    """Why a task cannot be judged; empty if it can."""
    if task.config.output != GENERATE:
        return f"is of the type {task.config.output}, which gives no answer to judge"
    if task.values.get("doc_to_target") is None:
        return "has no doc_to_target to judge by"
    return ""


def _task_summary(task: Task, numbers: TaskNumbers) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "alias": task.values.get("task_alias") or task.name,
        "docs": task.original,
        "asked": numbers.asked,
        "counts": numbers.counts,
        "metrics": [_metric_summary(result) for result in numbers.metrics],
    }
    if numbers.repeats:
        summary["repeats"] = {
            name: {
                "metric": means.metric,
                "docs": means.documents,
                "pass@k": means.pass_at,
                "maj@k": means.majority_at,
            }
            for name, means in numbers.repeats.items()
        }
    if numbers.judge is not None:
        summary["judge"] = numbers.judge
    return summary


def _metric_summary(result: MetricResult) -> dict[str, Any]:
    summary: dict[str, Any] = {
        "filter": result.filter,
        "metric": result.metric,
        "aggregation": result.aggregation,
        "n": result.count,
    }
    if result.left_out:
        summary["left_out"] = result.left_out
    if result.count:
        summary["higher_is_better"] = result.higher_is_better
    summary |= {"value": result.value, "stderr": result.stderr, "interval": result.interval}
    if result.reason:
        summary["reason"] = result.reason
    elif result.count:
        if result.numerator is not None:
            summary["numerator"] = result.numerator
        summary["interval_method"] = result.interval_method
    return summary


def _group_summary(group: TaskGroup, entry: dict[str, Any]) -> dict[str, Any]:
    metrics = []
    for result in group_results(entry):
        summary = _metric_summary(result)
        del summary["higher_is_better"], summary["interval_method"]
        metrics.append(summary)
    return {"alias": group.alias, "group": list(group.children), "metrics": metrics}


def replace_tasks(spec: RunSpec, files: list[str], names: list[str]) -> RunSpec:
    """A spec whose named tasks are read from other files where these have the same name.

    `names` are the run's tasks. If every one has a new file, the old files may be gone.
    """
    options = spec.options
    assert isinstance(options, TaskOptions)
    new_files = {str(TaskFiles().read(Path(file)).values.get("task")): file for file in files}
    for name, file in new_files.items():
        if name not in names:
            raise UsageError(f"{file} is no task of this run; it has {', '.join(names)}")
    if len(new_files) == len(names) == len(options.tasks):
        tasks = [new_files[name] for name in names]
    else:
        missing = [name for name in options.tasks if is_path(name) and not Path(name).is_file()]
        missing += [folder for folder in options.include_path if not Path(folder).is_dir()]
        if missing:
            raise UsageError(
                f"there is no {missing[0]!r} here: it is meant from where the run was started; go there, "
                "or name every task's file with --task"
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
                raise UsageError(f"{file} is a task inside a group or a tag; change its own file")
    return msgspec.structs.replace(spec, options=msgspec.structs.replace(options, tasks=tasks))
