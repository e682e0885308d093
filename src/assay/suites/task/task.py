"""One task of a run: its documents in data order, and how each of them is asked and scored.

task = Task(config, spec)          # reads no document
task.prepare(facts)                # scans the data, or takes over what an earlier start found
for row in task.rows(skip):
    inputs, gold, failure = task.build(row)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core import registry
from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import row_key
from assay.core.spec import RunSpec, limited
from assay.core.types import Failure
from assay.core.user_code import UserCodeError, call_here
from assay.solvers.prompt import PromptInputs
from assay.suites.task.config import (
    GENERATE,
    TaskConfig,
    find_functions,
    find_generation_problems,
    is_list_of_documents,
    setting_identity,
)
from assay.suites.task.dataset.documents import DataFacts, Documents, RawDocument, spool_rows
from assay.suites.task.dataset.process_docs import run_process_docs, seed_user_code
from assay.suites.task.dataset.source import DataSource
from assay.suites.task.filters import read_filters
from assay.suites.task.metrics import BYPASS, TaskMetric, read_metrics, refuse_lists
from assay.suites.task.options import Seeds, TaskOptions, seeds_of
from assay.suites.task.outputs import RequestBuilder, RequestSettings, TaskGold, wire_params
from assay.suites.task.prompts import (
    BadDocument,
    Document,
    DocumentFields,
    FewshotSampler,
    PromptBuilder,
    question_of,
)
from assay.suites.task.scorer import TaskScoring

_SCORE_KEYS = ("doc_to_target", "doc_to_choice", "process_results", "filter_list", "metric_list", "metadata")
_ASK_KEYS = (
    "output_type",
    "process_docs",
    "custom_dataset",
    "doc_to_text",
    "description",
    "gen_prefix",
    "target_delimiter",
    "fewshot_delimiter",
    "generation_kwargs",
    "repeats",
    "num_fewshot",
)
# Settings that are computed from a document. Python in them may draw random numbers.
_RENDERED_KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "fewshot_config")


class TaskRow(Struct, frozen=True):
    """One document with its position in the run's part of the task, and its few-shot examples.

    In place of the examples stands the reason why there are too few of them.
    """

    position: int
    document: RawDocument
    key: str
    value: Document
    examples: list[Document] | BadDocument


class Task:
    """One task of a run."""

    def __init__(self, config: TaskConfig, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self.config, self.values, self.name = config, config.values, config.name
        self._spec, self._options = spec, options
        self._seeds = seeds_of(spec)
        self._apply_options(options)
        self.scoring = self._read_scoring()
        self.data = TaskData(config, self._seeds, options.model_args)
        self._requests = self._request_builder()
        self._picked = self._picked_documents()
        self._runs_code = any(find_functions([self.values.get(key) for key in _RENDERED_KEYS]))

    def _apply_options(self, options: TaskOptions) -> None:
        values = self.values
        shots, option = values.get("num_fewshot"), options.num_fewshot
        # In the harness a 0 in the task file wins over the command line.
        self._keeps_zero_shots = bool(options.lm_eval_quirks and shots == 0 and option)
        if option is not None and not self._keeps_zero_shots:
            shots = option
        values["num_fewshot"] = shots or 0
        if problems := list(find_generation_problems(options.gen_kwargs, lambda key: f"--gen-kwargs {key}")):
            raise InputError(problems)
        if options.gen_kwargs and values["output_type"] == GENERATE:
            values["generation_kwargs"] = {**values["generation_kwargs"], **options.gen_kwargs}
        if options.metadata:
            values["metadata"] = {**(values.get("metadata") or {}), **options.metadata}
        if options.predict_only:
            values["metric_list"], values["process_results"] = [{"metric": "bypass"}], None

    def _read_scoring(self) -> TaskScoring:
        config, options = self.config, self._options
        if self.values["unsafe_code"] and not options.confirm_run_unsafe_code:
            raise UsageError(
                f"the task {self.name} runs code that the model wrote; --confirm-run-unsafe-code allows it"
            )
        chains = read_filters(config)
        metrics: dict[str, TaskMetric] = {"bypass": BYPASS}
        if not options.predict_only:
            metrics = read_metrics(config, quirks=options.lm_eval_quirks)
            refuse_lists(config, chains, metrics)
        return TaskScoring(config.output, chains, metrics, config.function("process_results"))

    def _request_builder(self) -> RequestBuilder:
        spec, options = self._spec, self._options
        if options.apply_chat_template and self.config.output != GENERATE:
            raise UsageError(
                f"the task {self.name} asks for likelihoods of text, which chat templates have no place for; "
                "leave out --apply-chat-template"
            )
        settings = RequestSettings(
            spec.model,
            spec.base_url or "",
            options.apply_chat_template,
            options.multiturn,
            self.request_params(),
        )
        return RequestBuilder(
            self.config,
            settings,
            unconditional="acc_mutual_info" in self.scoring.metrics,
            quirks=options.lm_eval_quirks,
        )

    def request_params(self) -> dict[str, Any]:
        """The generation parameters of every request, as providers take them."""
        quirks = self._options.lm_eval_quirks
        return wire_params(self.values.get("generation_kwargs"), quirks=quirks, seed=self._spec.seed)

    def _picked_documents(self) -> list[int] | None:
        """The documents that `--samples` names, in data order."""
        if not self._options.samples:
            return None
        picked = sorted(set(self._options.samples.get(self.name, [])))
        if not picked:
            raise UsageError(f"--samples names no document of {self.name!r}")
        return picked

    # Which run this is

    def ask_identity(self) -> dict[str, Any]:
        """The settings of this task that affect replies."""
        keys: tuple[str, ...] = _ASK_KEYS
        if self.config.output != GENERATE:
            keys = (*keys, "doc_to_target", "doc_to_choice")
        identity = {key: setting_identity(self.values.get(key)) for key in keys}
        identity["unconditional"] = "acc_mutual_info" in self.scoring.metrics
        if self.values["num_fewshot"]:
            identity["fewshot"] = setting_identity(self.values["fewshot_config"])
        return identity

    def data_identity(self) -> dict[str, Any]:
        """The documents and the few-shot pool by the content of their files."""
        identity: dict[str, Any] = {"data": self.data.identity()}
        if self.values["num_fewshot"]:
            identity["examples"] = self.data.pool_identity()
        return identity

    def score_identity(self) -> dict[str, Any]:
        """The settings of this task that affect scores and files, but no reply."""
        identity = {key: setting_identity(self.values.get(key)) for key in _SCORE_KEYS}
        return identity | {"alias": self.values.get("task_alias"), "code": _plugin_identities(self.values)}

    def judge_identity(self) -> dict[str, Any]:
        """The settings that change what a judge is shown, but no reply: the first filter and the target."""
        first = (self.values.get("filter_list") or [])[:1]
        identity = {key: setting_identity(self.values.get(key)) for key in ("doc_to_target", "doc_to_choice")}
        return identity | {
            "filter": setting_identity(first),
            "code": _plugin_identities({"filter_list": first}),
        }

    # Documents

    @property
    def original(self) -> int:
        """How many documents the data set has."""
        return self.data.documents.facts.total

    @property
    def count(self) -> int:
        """How many of them this run asks."""
        if self._picked is not None:
            return len(self._picked)
        return limited(self._spec.limit, self.original)

    def prepare(self, facts: DataFacts | None) -> DataFacts:
        """Scan the data, or take over an earlier scan. Then build the first case, which shows most mistakes."""
        documents = self.data.documents
        hashes_before = facts.code_hashes if facts else []
        if facts is None or self.values.get("process_docs") is not None:
            facts = documents.scan()
            if not facts.total:
                raise InputError(Problem(str(documents.files[0]), "the data set is empty"))
        else:
            documents.recall(facts)
        for number in self._picked or ():
            if not 0 <= number < facts.total:
                raise UsageError(
                    f"--samples: {self.name} has no document {number}; it has {facts.total}, from 0 on"
                )
        for row in self.rows():
            failure = self.build(row)[2]
            if failure:
                raise InputError(problem_of(failure))
            break
        # Code that draws as it likes gives other documents in every start. Those must not be asked.
        if hashes_before and hashes_before != self.data.hashes:
            raise UsageError(
                f"{self.config.where('process_docs')}: it gives other documents than when this run began; "
                "let it give the same ones each time, or begin anew with --fresh"
            )
        facts.code_hashes = self.data.hashes
        return facts

    @cached_property
    def _builder(self) -> PromptBuilder:
        """Made when the columns are known. Fixed examples are rendered once for all passes."""
        fields = DocumentFields(self.config, self.data.documents.facts.columns)
        builder = PromptBuilder(self.config, fields, self._sampler(), self._options.system_instruction)
        if self._runs_code:
            # The same random numbers in every start, whichever document is asked first.
            self._seed_code(-1)
            builder.render_fixed_examples()
        return builder

    def _sampler(self) -> FewshotSampler:
        """A new one for each pass: the random stream of few-shot examples begins anew."""
        shots, quirks = self.values["num_fewshot"], self._options.lm_eval_quirks
        sampler = FewshotSampler(self.config, shots, self._seeds.fewshot, quirks=quirks)
        if shots:
            data, fewshot = self.data, self.values["fewshot_config"]
            exclude = data.harness_excludes or (data.overlaps and not quirks)
            # Only the random sampler needs the whole pool.
            takes_first = fewshot["sampler"] == "first_n" and not exclude and not fewshot["fewshot_indices"]
            sampler.set_pool(data.pool(shots if takes_first else None), exclude=exclude)
        return sampler

    def rows(self, skip: Callable[[int], bool] | None = None) -> Iterator[TaskRow]:
        """The documents of this run in data order. `skip` takes a position among them.

        Where the order matters, skipped documents draw their examples and are numbered all the same.
        """
        documents, sampler = self.data.documents, self._sampler()
        twins = documents.twins()
        draws = bool(self.values["num_fewshot"])
        if (draws and not sampler.is_fixed) or len(twins) or self._picked is not None:
            picked = None if self._picked is None else frozenset(self._picked)
            position = 0
            for document in documents.rows(self.count if picked is None else None):
                key = twins.name(row_key(document.raw))
                if picked is not None and document.number not in picked:
                    continue
                value = documents.parse(document)
                examples = _draw(sampler, value) if draws else []
                if skip is None or not skip(position):
                    yield TaskRow(position, document, key, value, examples)
                position += 1
            return
        for document in documents.rows(self.count, skip):
            value = documents.parse(document)
            examples = _draw(sampler, value) if draws else []
            yield TaskRow(document.number, document, row_key(document.raw), value, examples)

    def build(self, row: TaskRow) -> tuple[PromptInputs, TaskGold, Failure | None]:
        """The requests and the gold of a document. A document that cannot be asked has a failure instead."""
        builder = self._builder
        if self._runs_code:
            self._seed_code(row.document.number)
        try:
            if isinstance(row.examples, BadDocument):
                raise row.examples
            gold = self._requests.gold(builder.fields, row.value)
            contexts = builder.contexts(row.value, row.examples)
            requests = self._requests.requests(contexts, gold)
        except BadDocument as problem:
            where = row.document.where
            failure = Failure("bad_case", f"{problem} ({where})", where, traceback=problem.traceback)
            return PromptInputs([]), TaskGold(row.value, ""), failure
        inputs = PromptInputs(requests, self.values["repeats"], cut=not self._options.lm_eval_quirks)
        if self._spec.judge:
            gold = replace(gold, question=question_of(contexts[0]))
        return inputs, gold, None

    def _seed_code(self, number: int) -> None:
        """A document is built when it is asked, when it is scored again and for files: each time the same."""
        seeds = self._seeds
        seed_user_code(f"{seeds.random} {number}", (seeds.numpy or 0) + number)

    def setting_quirks(self) -> Counter[str]:
        """The mistakes of the harness in this task's settings, by the names in `quirks`."""
        quirks: Counter[str] = Counter()
        if self._keeps_zero_shots:
            quirks["num_fewshot"] = self.count
        has_indices = bool(self.values["num_fewshot"] and self.values["fewshot_config"]["fewshot_indices"])
        if self._options.lm_eval_quirks and has_indices:
            quirks["fewshot_indices"] = self.count
        return quirks


def _draw(sampler: FewshotSampler, value: Document) -> list[Document] | BadDocument:
    """The examples of one document. If there are too few, that is the failure of this document alone."""
    try:
        return sampler.draw(value)
    except BadDocument as problem:
        return problem


def problem_of(failure: Failure) -> Problem:
    """A document's failure as a problem of a file. Its place is printed once."""
    return Problem(failure.where, failure.message.removesuffix(f" ({failure.where})"))


def _plugin_identities(values: dict[str, Any]) -> list[str]:
    """Filters and metrics that are named by path, by their content."""
    names = [step.get("function") for chain in values.get("filter_list") or () for step in chain["filter"]]
    names += [metric.get("metric") for metric in values.get("metric_list") or ()]
    return [registry.identity(name) for name in names if isinstance(name, str) and ".py:" in name]


# Splits, in the order in which the harness looks for one
_EVALUATED_SPLITS = ("test_split", "validation_split", "training_split")
_FEWSHOT_SPLITS = ("training_split", "validation_split", "test_split")


class TaskData:
    """Which documents a task evaluates, and which ones its few-shot examples are taken from.

    Nothing is opened before it is needed, and every split is opened once.
    """

    def __init__(self, config: TaskConfig, seeds: Seeds, arguments: dict[str, Any]) -> None:
        self._config = config
        self._seeds = {"seed": seeds.random or 0, "numpy_seed": seeds.numpy or 0}
        self._arguments = arguments
        self._pool: list[Document] | None = None
        # What `process_docs` made, by content, as far as it was run.
        self.hashes: list[str] = []

    @cached_property
    def documents(self) -> Documents:
        """The evaluated documents, after `process_docs`."""
        return self._process(self._evaluated, ("process_docs",))

    def identity(self) -> list[str]:
        """The evaluated data by content, before `process_docs`."""
        return self._evaluated.identity()

    def pool_identity(self) -> Any:
        """The pool of examples by content."""
        source = self._pool_source
        return source.identity() if isinstance(source, Documents) else source

    @property
    def harness_excludes(self) -> bool:
        """Whether the harness takes a document out of its own examples. It compares two settings for this."""
        values = self._config.values
        return bool(values["fewshot_config"]["split"] == values.get("test_split"))

    @cached_property
    def overlaps(self) -> bool:
        """Whether the examples come from the evaluated documents."""
        source = self._pool_source
        return isinstance(source, Documents) and source.identity() == self._evaluated.identity()

    def pool(self, first: int | None) -> list[Document]:
        """The documents that examples are taken from; with `first`, only that many of them."""
        source = self._pool_source
        if not isinstance(source, Documents):
            return source
        if self._pool is None:
            has_own_split = bool(self._config.values["fewshot_config"]["split"])
            place = ("fewshot_config", "process_docs") if has_own_split else ("process_docs",)
            documents = self._process(source, place)
            if not documents.facts.total:
                documents.scan()
            self._pool = list(documents.values(first))
        return self._pool

    @cached_property
    def _source(self) -> DataSource | None:
        """The data set; None if `custom_dataset` makes it."""
        config, values = self._config, self._config.values
        if values.get("custom_dataset") is not None:
            return None
        name, options = values.get("dataset_name"), values.get("dataset_kwargs")
        return DataSource(str(values["dataset_path"]), name, options, config.path.parent, config.where)

    @cached_property
    def _evaluated(self) -> Documents:
        source = self._source
        for key in _EVALUATED_SPLITS:
            if split := self._config.values.get(key):
                return self._open(source, str(split))
        raise InputError(
            Problem(self._config.files[0].where(), "no split to evaluate: set test_split or validation_split")
        )

    @cached_property
    def _pool_source(self) -> Documents | list[Document]:
        fewshot = self._config.values["fewshot_config"]
        if fewshot["split"]:
            return self._open(self._source, fewshot["split"])
        if fewshot["samples"] is not None:
            return self._written_examples()
        for key in _FEWSHOT_SPLITS:
            if split := self._config.values.get(key):
                return self._open(self._source, str(split))
        raise InputError(Problem(self._config.where("num_fewshot"), "no split has examples to show"))

    def _open(self, source: DataSource | None, split: str) -> Documents:
        if source is not None:
            return source.open(split)
        where = self._config.where("custom_dataset")
        splits = self._custom_splits
        if split not in splits:
            raise InputError(Problem(where, f"it made no split {split!r}; it made {', '.join(splits)}"))
        return spool_rows(splits[split], self._config.path, f" {split} document {{}}", fill=True)

    @cached_property
    def _custom_splits(self) -> Any:
        """What `custom_dataset: !function` returns: rows by split. It gets metadata and arguments."""
        values = self._config.values
        arguments = (values.get("metadata") or {}) | self._arguments | (values.get("dataset_kwargs") or {})
        seed_user_code(**self._seeds)
        where = self._config.where("custom_dataset")
        return _call(self._config.function("custom_dataset"), where, **arguments)

    def _written_examples(self) -> list[Document]:
        """The examples that `fewshot_config.samples` lists, or its function returns."""
        where = self._config.where("fewshot_config", "samples")
        samples = self._config.function("fewshot_config", "samples")
        seed_user_code(**self._seeds)
        if callable(samples):
            samples = _call(samples, where)
        if not is_list_of_documents(samples):
            raise InputError(Problem(where, "expected a list of documents"))
        return list(samples)

    def _process(self, documents: Documents, place: tuple[str, ...]) -> Documents:
        function = self._config.function(*place)
        if function is None:
            return documents
        where = self._config.where(*place)
        processed = run_process_docs(documents, function, where=where, **self._seeds)
        self.hashes += processed.identity()
        return processed


def _call(function: Callable[..., Any], where: str, **arguments: Any) -> Any:
    try:
        return call_here(function, (), arguments)
    except UserCodeError as error:
        raise InputError(Problem(where, f"it raised {error.type_name}: {error.text}")) from error
