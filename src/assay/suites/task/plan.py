"""A task run, resolved: which documents are asked, how they are scored, which files come out."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core import registry
from assay.core.connect import CHAT
from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import Twins, file_sha256, fingerprint, row_key
from assay.core.protocols import Outcome, Reader, RunFacts, check_same
from assay.core.spec import RunSpec
from assay.core.types import Case, Failure, Request
from assay.solvers.prompt import PromptInputs, PromptSolver
from assay.suites.task import prompts, results, samples
from assay.suites.task.config import TaskConfig, find_task, read_task
from assay.suites.task.data.docs import FORMATS, Doc, Docs, Facts
from assay.suites.task.data.files import find_files
from assay.suites.task.options import TaskOptions, own_arguments
from assay.suites.task.scorer import TaskScorer, metrics, pipelines

_TOKENS = ("max_gen_toks", "max_new_tokens", "max_tokens")
_NOT_SENT = frozenset({"until", "do_sample", *_TOKENS})
_SCORE_KEYS = ("doc_to_target", "filter_list", "metric_list", "metadata", "task_alias")
_ASK_KEYS = (
    "doc_to_text",
    "description",
    "gen_prefix",
    "target_delimiter",
    "generation_kwargs",
    "repeats",
    "num_fewshot",
)


class Gold(msgspec.Struct, frozen=True):
    """What scorers and files see of a document, and the subject never does."""

    doc: dict[str, Any]
    target: Any


class Task:
    """One task of a run."""

    def __init__(self, path: Path, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        config = read_task(path)
        self.path = path
        self.config = config
        self.values = config.values
        self._override(options)
        self.name = config.name
        self.filters = pipelines(config)
        self.metrics = metrics(config)
        self.docs = self._split(_evaluated_split(config))
        self.examples = self._example_docs() if self.values["num_fewshot"] else None
        self._spec = spec
        self._chat = options.apply_chat_template
        self._params = wire_params(self.values["generation_kwargs"])
        self.base = 0

    def _override(self, options: TaskOptions) -> None:
        if options.num_fewshot is not None:
            self.values["num_fewshot"] = options.num_fewshot
        if options.gen_kwargs:
            self.values["generation_kwargs"] = {**self.values["generation_kwargs"], **options.gen_kwargs}

    def _split(self, split: str) -> Docs:
        """The files of a split; every way of not finding them has its own sentence."""
        config, values = self.config, self.values
        kind = values["dataset_path"]
        if kind not in FORMATS:
            where = config.where("dataset_path")
            raise InputError(
                Problem(where, f"{kind!r} is no file format; data sets by name are not read yet")
            )
        files = (values.get("dataset_kwargs") or {}).get("data_files")
        where = config.where("dataset_kwargs", "data_files")
        if isinstance(files, (str, list)):
            files = {"train": files}
        if not isinstance(files, dict):
            raise InputError(
                Problem(where, "expected data_files: a file, a list of files, or files by split")
            )
        if split not in files:
            raise InputError(Problem(where, f"there is no split {split!r}; there are {', '.join(files)}"))
        named = files[split]
        if not isinstance(named, (str, list)) or not all(isinstance(name, str) for name in named):
            raise InputError(Problem(where, f"expected a file or a list of files, found {named!r}"))
        found = find_files(named, config.path.parent)
        if not found:
            raise InputError(Problem(where, f"there is no data file {files[split]!r}"))
        return Docs(kind, found)

    def _example_docs(self) -> Docs | list[dict[str, Any]]:
        fewshot = self.values["fewshot_config"]
        if fewshot["split"]:
            return self._split(fewshot["split"])
        if fewshot["samples"] is not None:
            return list(fewshot["samples"])
        for key in ("training_split", "validation_split", "test_split"):
            if self.values.get(key):
                return self._split(self.values[key])
        raise InputError(Problem(self.config.where("num_fewshot"), "no split has examples to show"))

    @property
    def original(self) -> int:
        """How many documents the data set has."""
        return self.docs.facts.total

    @property
    def count(self) -> int:
        """How many of them this run asks."""
        limit = self._spec.limit
        if limit is None:
            return self.original
        return min(self.original, math.ceil(self.original * limit) if limit < 1 else int(limit))

    def ask_part(self) -> dict[str, Any]:
        """What of this task affects replies."""
        part = {key: self.values.get(key) for key in _ASK_KEYS}
        part["data"] = [file_sha256(path) for path in self.docs.files]
        if self.examples is not None:
            examples = self.examples
            part["fewshot"] = self.values["fewshot_config"]
            part["examples"] = (
                [file_sha256(p) for p in examples.files] if isinstance(examples, Docs) else examples
            )
        return part

    def score_part(self) -> dict[str, Any]:
        """What of this task affects scores and files, but no reply."""
        plugins = [
            step.get("function") for chain in self.values.get("filter_list") or () for step in chain["filter"]
        ]
        plugins += [metric["metric"] for metric in self.values.get("metric_list") or ()]
        part = {key: self.values.get(key) for key in _SCORE_KEYS}
        return part | {"code": [registry.identity(name) for name in plugins if ".py:" in name]}

    def prepare(self, facts: Facts | None) -> Facts:
        """Look at the data, or recall it; then build the first case, which shows most mistakes."""
        if facts is None:
            facts = self.docs.look()
            if not facts.total:
                raise InputError(Problem(str(self.docs.files[0]), "the data set is empty"))
        else:
            self.docs.recall(facts)
        first = next(self.load(lambda _: False))
        if first.failure:
            raise InputError(Problem(first.failure.where, first.failure.message))
        return facts

    def _prompts(self) -> prompts.PromptBuilder:
        """A fresh builder: the random stream of few-shot examples begins anew with each pass."""
        builder = prompts.PromptBuilder(
            self.config, self.docs.facts.columns, num_fewshot=self.values["num_fewshot"], seed=self._spec.seed
        )
        examples = self.examples
        if isinstance(examples, Docs):
            if not examples.facts.total:
                examples.look()
            same = examples.files == self.docs.files
            # Only the random sampler needs the whole pool.
            few = self.values["fewshot_config"]["sampler"] == "first_n" and not same
            few = few and not self.values["fewshot_config"]["fewshot_indices"]
            pool = list(examples.values(self.values["num_fewshot"] if few else None))
            builder.give_examples(pool, same_split=same)
        elif examples is not None:
            builder.give_examples(examples, same_split=False)
        return builder

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """The cases in data order. Keys and random draws are taken for skipped documents too."""
        builder = self._prompts()
        twins = self.docs.twins()
        if builder.draws_matter or len(twins):
            yield from self._load_all(skip, builder, twins)
            return
        base = self.base
        own = skip if base == 0 else lambda number: skip(base + number)
        for doc in self.docs.rows(self.count, own):
            value = self.docs.parse(doc)
            yield self._case(doc, row_key(doc.raw), value, builder, builder.draw(value))

    def _load_all(
        self, skip: Callable[[int], bool], builder: prompts.PromptBuilder, twins: Twins
    ) -> Iterator[Case]:
        """Where the order matters: skipped documents draw their examples and are numbered all the same."""
        for doc in self.docs.rows(self.count):
            key = twins.name(row_key(doc.raw))
            value = self.docs.parse(doc)
            examples = builder.draw(value)
            if not skip(self.base + doc.number):
                yield self._case(doc, key, value, builder, examples)

    def _case(
        self, doc: Doc, key: str, value: dict[str, Any], builder: prompts.PromptBuilder, examples: list[Any]
    ) -> Case:
        index, label = self.base + doc.number, str(doc.number)
        subject = self._spec.model
        try:
            turns = builder.turns(value, examples)
            gold = Gold(value, builder.target(value))
        except prompts.BadDoc as bad:
            failure = Failure("bad_case", f"{bad} ({doc.where})", doc.where)
            inputs = PromptInputs([self._request([])], self.values["repeats"])
            return Case(index, key, self.name, subject, label, inputs, Gold(value, ""), failure)
        inputs = PromptInputs([self._request(turns)], self.values["repeats"])
        return Case(index, key, self.name, subject, label, inputs, gold)

    def _request(self, turns: list[prompts.Turn]) -> Request:
        spec = self._spec
        if self._chat:
            messages = prompts.as_messages(turns)
            return Request(
                model=spec.model, endpoint=spec.base_url or "", messages=messages, params=self._params
            )
        return Request(
            model=spec.model, endpoint=spec.base_url or "", prompt=prompts.as_text(turns), params=self._params
        )


def wire_params(generation: dict[str, Any]) -> dict[str, Any]:
    """Generation parameters as providers take them: one name for the token limit, `stop` for `until`."""
    params = {key: value for key, value in generation.items() if key not in _NOT_SENT}
    tokens = next((generation[key] for key in _TOKENS if generation.get(key) is not None), 256)
    until = generation.get("until") or []
    stops = [until] if isinstance(until, str) else list(until)
    return {"max_tokens": tokens, "temperature": 0.0, **params, **({"stop": stops} if stops else {})}


def _evaluated_split(config: TaskConfig) -> str:
    for key in ("test_split", "validation_split", "training_split"):
        if split := config.values.get(key):
            return str(split)
    raise InputError(
        Problem(config.files[0].where(), "no split to evaluate: set test_split or validation_split")
    )


class TaskPlan:
    """All tasks of a run as one sequence of cases."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self._spec = spec
        self._options = options
        if not options.tasks:
            raise UsageError("no task is named: assay task FILE.yaml --model PROVIDER/NAME")
        self.tasks = [Task(find_task(name, options.include_path), spec) for name in options.tasks]
        self._refuse_twice()
        # Without a chat template the prompt is text; a chat model gets it as one user message.
        self.needs = frozenset({CHAT}) if options.apply_chat_template else frozenset()
        # A list: the order of tasks gives every case its place.
        self.ask = [[task.name, task.ask_part()] for task in self.tasks] + [own_arguments(options)]
        self.score = {task.name: task.score_part() for task in self.tasks}
        self.solver = PromptSolver()
        scorer = f"task@{fingerprint(self.score)}"
        self.scorers = [TaskScorer(scorer, {task.name: (task.filters, task.metrics) for task in self.tasks})]

    def _refuse_twice(self) -> None:
        seen: dict[str, Path] = {}
        for task in self.tasks:
            if task.name in seen:
                raise UsageError(f"two tasks are named {task.name!r}: {seen[task.name]} and {task.path}")
            seen[task.name] = task.path

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

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The harness's two kinds of files, each complete or not there."""
        folder, results_name, samples_name = results.file_names(
            self._spec, [task.name for task in self.tasks], facts.started
        )
        folder.mkdir(parents=True, exist_ok=True)
        files, hashes, found = [], {}, {}
        for task in self.tasks:
            path = folder / samples_name.format(results.sanitise(task.name))
            found[task.name], digest = self._read(task, reader, path if self._options.log_samples else None)
            if digest:
                hashes[task.name] = digest
                files.append(path)
        text = results.results_json(self._spec, self.tasks, found, facts, hashes)
        target = folder / results_name
        temporary = target.with_name(f".{target.name}.tmp")
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())  # the name must not outlive the content in a power cut
        temporary.replace(target)
        return Outcome(found, [target, *files])

    def _read(self, task: Task, reader: Reader, path: Path | None) -> tuple[dict[str, Any], str]:
        """A task's summary and, where a samples file is wanted, its hash."""
        tally = results.TaskTally(task.filters, task.metrics)
        if path is None:
            for index in range(task.base, task.base + task.count):
                tally.add(reader.case(index, self.scorers[0].id))
            return tally.summary(task), ""
        generation = samples.compact(task.values["generation_kwargs"])
        with samples.SamplesWriter(path, [chain.name for chain in task.filters], generation) as writer:
            for case in task.load(lambda _: False):
                found = reader.case(case.index, self.scorers[0].id)
                tally.add(found)
                if found is not None:
                    check_same(case, found[0])
                    writer.write(case.index - task.base, case, *found)
            return tally.summary(task), writer.close()
