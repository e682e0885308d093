"""A task run, resolved: which documents are asked, how they are scored, which files come out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from assay.suites.task import judging, quirks, results, samples
from assay.suites.task.catalog import Catalog
from assay.suites.task.config import GENERATE, TaskConfig
from assay.suites.task.data.docs import Facts
from assay.suites.task.groups import Group
from assay.suites.task.judging import TaskJudge
from assay.suites.task.options import TaskOptions, own_arguments
from assay.suites.task.scorer import TaskScorer
from assay.suites.task.selection import Selection
from assay.suites.task.tally import Tally, TaskTally
from assay.suites.task.task import Task

_JUDGED = "--judge"
"""The judge among the settings of tasks that decide about scores; no task has this name."""
Found = tuple[End, list[Record], list[Score]]


class TaskPlan:
    """All tasks of a run as one sequence of cases."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self._spec = spec
        self._options = options
        if not options.tasks:
            raise UsageError("no task is named: assay task FILE.yaml --model PROVIDER/NAME")
        self.nodes = Selection(Catalog(options.include_path)).select(options.tasks)
        self.tasks = [Task(config, spec) for config in self._configs()]
        self._refuse_one_file_for_two()
        self.needs, self.roles = self._needed(), dict[str, Any](main=spec.model)
        self.notices = tuple(notice for task in self.tasks for notice in _notices(task))
        # A list: the order of tasks gives every case its place.
        self.ask = [[task.name, task.ask_part()] for task in self.tasks] + [own_arguments(options)]
        self.score: dict[str, Any] = {task.name: task.score_part() for task in self.tasks}
        self.solver = PromptSolver()
        scorer = f"task@{fingerprint(self.score)}"
        self.scorers: list[Scorer] = [TaskScorer(scorer, {task.name: task.scoring for task in self.tasks})]
        self._judge = self._judging()

    def _judging(self) -> TaskJudge | None:
        """A scorer beside the other: each keeps its scores when the other changes."""
        panel = panel_from_spec(self._spec)
        if panel is None:
            return None
        if self._options.predict_only:
            raise UsageError("--predict-only computes no score, and --judge gives one; leave one of them out")
        judge = TaskJudge(panel, judging.judged_tasks(self.tasks))
        self.roles |= judge.roles
        self.score[_JUDGED] = judge.id
        self.notices = (*self.notices, *judging.notices(self.tasks))
        self.scorers.append(judge)
        return judge

    def _configs(self) -> list[TaskConfig]:
        """Every task once, however many groups have it; only those that `--samples` names."""
        found: dict[str, TaskConfig] = {}
        for node in self.nodes:
            for config in node.tasks() if isinstance(node, Group) else [node]:
                found.setdefault(config.name, config)
        wanted = self._options.samples
        if missing := sorted(wanted.keys() - found.keys()):
            raise UsageError(f"--samples names {missing[0]!r}, which is not among the tasks of this run")
        return [config for name, config in found.items() if not wanted or name in wanted]

    def _refuse_one_file_for_two(self) -> None:
        named: dict[str, str] = {}
        for task in self.tasks:
            other = named.setdefault(results.sanitise(task.name), task.name)
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
        """Look at each task's data, and lay the tasks one after the other."""
        known = {name: msgspec.convert(value, Facts) for name, value in (facts or {}).items()}
        base = 0
        for task in self.tasks:
            task.base = base
            known[task.name] = task.prepare(known.get(task.name))
            base += task.count
        return {name: msgspec.to_builtins(value) for name, value in known.items()}

    @property
    def total(self) -> int:
        """All cases of all tasks."""
        return sum(task.count for task in self.tasks)

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Task after task, in data order."""
        for task in self.tasks:
            yield from task.load(skip)

    def firsts(self) -> list[Case]:
        """The first case of every task."""
        return [next(task.load(lambda _: False)) for task in self.tasks]

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The harness's two kinds of files, each complete or not there."""
        folder, results_name, samples_name = results.file_names(
            self._spec, [task.name for task in self.tasks], facts.started
        )
        folder.mkdir(parents=True, exist_ok=True)
        files, hashes, found = [], {}, {}
        for task in self.tasks:
            path = folder / samples_name.format(results.sanitise(task.name))
            found[task.name], digest = self._read(task, reader, path if self._logs else None)
            if digest:
                hashes[task.name] = digest
                files.append(path)
        text, groups = results.results_json(self._spec, self.nodes, self.tasks, found, facts, hashes)
        target = folder / results_name
        write_whole(target, text.encode())
        return Outcome(found | groups, [target, *files])

    @property
    def _logs(self) -> bool:
        return self._options.log_samples or self._options.predict_only

    def _read(self, task: Task, reader: Reader, path: Path | None) -> tuple[dict[str, Any], str]:
        """A task's summary and, where a samples file is wanted, its hash."""
        tally = TaskTally(task.scoring, self._judged(task))
        if path is None:
            self._count(task, reader, tally)
            return self._summary(task, tally), ""
        names = [chain.name for chain in task.scoring.chains]
        with samples.SamplesWriter(path, names, task.values.get("generation_kwargs")) as writer:
            for case, found in self._cases(task, reader):
                verdicts = self._verdicts(case.index, reader)
                tally.add(found, verdicts)
                if found is not None:
                    end, records, scores = found
                    writer.write(case, end, records, [*scores, *verdicts])
            return self._summary(task, tally), writer.close()

    def _summary(self, task: Task, tally: TaskTally) -> dict[str, Any]:
        found = tally.summary(task, self._options.bootstrap_iters)
        return found | ({"judge": self._judge.about} if self._judge and self._judged(task) else {})

    def _judged(self, task: Task) -> Tally | None:
        """An empty tally of what the judge says of a task; None where it says nothing."""
        chain = self._judge.chain(task.name) if self._judge else None
        return Tally(chain.name, judging.METRIC) if chain else None

    def _verdicts(self, index: int, reader: Reader) -> list[Score]:
        return reader.scores(index, self._judge.id) if self._judge else []

    def _count(self, task: Task, reader: Reader, tally: TaskTally) -> None:
        """Without a samples file only quirks need to see the documents."""
        if self._options.lm_eval_quirks:
            for case, found in self._cases(task, reader):
                tally.add(found, self._verdicts(case.index, reader))
            return
        for index in range(task.base, task.base + task.count):
            tally.add(reader.case(index, self.scorers[0].id), self._verdicts(index, reader))

    def _cases(self, task: Task, reader: Reader) -> Iterator[tuple[Case, Found | None]]:
        """Every document beside what the journal has of it."""
        for case in task.load(lambda _: False):
            found = reader.case(case.index, self.scorers[0].id)
            if found is not None:
                check_same(case, found[0])
                quirks.notice(task, case, *found[1:])
            yield case, found


def _notices(task: Task) -> Iterator[str]:
    if task.values["should_decontaminate"]:
        yield f"{task.config.where('should_decontaminate')}: it has no effect, here as in the harness"
