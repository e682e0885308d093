"""One task of a run: its documents in data order, the requests of each, and how it is scored.

    task = Task(config, spec)          # reads no document
    task.prepare(facts)                # scans the data, or reuses the scan of an earlier start
    for row in task.rows(skip):
        inputs, gold, failure = task.build(row)

`TaskData`, below, opens the splits and runs `process_docs`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError
from assay.core.spec import DEFAULT_SEED, RunSpec, apply_limit
from assay.core.types import BAD_CASE, Failure
from assay.suites.task.config import (
    GENERATE,
    TaskConfig,
    find_functions,
    find_generation_problems,
    is_list_of_documents,
    override_generation,
    setting_identity,
)
from assay.suites.task.dataset.documents import DataFacts, Documents, RawDocument, spool_rows
from assay.suites.task.dataset.process_docs import run_process_docs, seed_user_code
from assay.suites.task.dataset.source import DataSource
from assay.suites.task.filters import read_filters
from assay.suites.task.metrics import BYPASS, TaskMetric, read_metrics, refuse_lists
from assay.suites.task.options import Seeds, TaskOptions, seeds_of
from assay.suites.task.prompts import (
    BadDocument,
    Document,
    DocumentFields,
    FewshotSampler,
    PromptBuilder,
    question_of,
)
from assay.suites.task.requests import RequestBuilder, RequestSettings, TaskGold, wire_params
from assay.suites.task.scorer import TaskScoring
from assay.suites.toolkit.prompt import PromptInputs
from assay.usercode import plugins
from assay.usercode.errors import UserCodeError
from assay.usercode.model_args import takes_do_sample
from assay.usercode.user_function import call_here

# Settings that change scores but no request. Changing one scores the stored replies again.
_SCORE_KEYS = ("doc_to_target", "doc_to_choice", "process_results", "filter_list", "metric_list", "metadata")
# Settings that change requests. Changing one starts a new run.
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
# Settings that are computed from a document. A `!function` in them may draw random numbers.
_RENDERED_KEYS = ("doc_to_text", "doc_to_target", "doc_to_choice", "fewshot_config")


class TaskRow(Struct, frozen=True):
    """One document with its few-shot examples.

    `position` counts the documents that this run uses. `examples` is a BadDocument if there are too few.
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
        first = spec.limit if spec.limit is not None and spec.limit >= 1 else None
        self.data = TaskData(config, self._seeds, spec.model_args, None if first is None else int(first))
        self._requests = self._request_builder()
        self._samples = self._sample_numbers()
        self._runs_code = any(find_functions([self.values.get(key) for key in _RENDERED_KEYS]))

    def _apply_options(self, options: TaskOptions) -> None:
        values = self.values
        shots, option = values.get("num_fewshot"), options.num_fewshot
        # Bug of the harness: `num_fewshot: 0` in the task file wins over --num-fewshot.
        self._keeps_zero_shots = bool(options.lm_eval_quirks and shots == 0 and option)
        if option is not None and not self._keeps_zero_shots:
            shots = option
        values["num_fewshot"] = shots or 0
        # A parameter that is null is removed from the request; see `TaskSuite.roles`.
        kwargs = {name: value for name, value in self._spec.gen_kwargs.items() if value is not None}
        if problems := list(find_generation_problems(kwargs, lambda key: f"--gen-kwargs {key}")):
            raise InputError(problems)
        self._generation = values.get("generation_kwargs")
        if self._spec.gen_kwargs and values["output_type"] == GENERATE:
            quirks = options.lm_eval_quirks
            merged = {**values["generation_kwargs"], **kwargs}
            # Results and samples have both side by side, as the harness writes them. In the request the flag counts.
            overridden = override_generation(values["generation_kwargs"], self._spec.gen_kwargs)
            self._generation = merged if quirks else overridden
            values["generation_kwargs"] = merged
        if options.metadata:
            values["metadata"] = {**(values.get("metadata") or {}), **options.metadata}
        if options.predict_only:
            values["metric_list"], values["process_results"] = [{"metric": "bypass"}], None

    def _read_scoring(self) -> TaskScoring:
        config, options = self.config, self._options
        if self.values["unsafe_code"] and not options.confirm_run_unsafe_code:
            raise UsageError(
                f"the task {self.name} executes code that the model writes; "
                "pass --confirm-run-unsafe-code to allow this"
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
                f"the task {self.name} needs likelihoods, which chat endpoints do not return; "
                "remove --apply-chat-template"
            )
        settings = RequestSettings(
            spec.model,
            spec.base_url or "",
            options.apply_chat_template,
            options.multiturn,
            self.request_params(),
            {"seed": self._harness_seed} if options.lm_eval_quirks else {},
        )
        return RequestBuilder(
            self.config,
            settings,
            unconditional="acc_mutual_info" in self.scoring.metrics,
            quirks=options.lm_eval_quirks,
        )

    @property
    def _harness_seed(self) -> int:
        """The seed that the harness sends with every request: an argument of the model, whatever --seed is."""
        return int(self._spec.model_args.get("seed", DEFAULT_SEED))

    def request_params(self) -> dict[str, Any]:
        """Return the generation parameters of every request, in the API's names."""
        return wire_params(
            self._generation,
            quirks=self._options.lm_eval_quirks,
            seed=self._harness_seed,
            sends_do_sample=takes_do_sample(self._spec.model),
        )

    def _sample_numbers(self) -> list[int] | None:
        """Return the indices of the documents in `--samples`, sorted; None without the flag."""
        if not self._options.samples:
            return None
        numbers = sorted(set(self._options.samples.get(self.name, [])))
        if not numbers:
            raise UsageError(f"--samples has no document for {self.name!r}")
        return numbers

    # Identity of the run

    def ask_identity(self) -> dict[str, Any]:
        """Return the settings of this task that affect requests."""
        keys: tuple[str, ...] = _ASK_KEYS
        # With likelihoods the target and the choices are part of the request.
        if self.config.output != GENERATE:
            keys = (*keys, "doc_to_target", "doc_to_choice")
        identity = {key: setting_identity(self.values.get(key)) for key in keys}
        identity["unconditional"] = "acc_mutual_info" in self.scoring.metrics
        if self.values["num_fewshot"]:
            identity["fewshot"] = setting_identity(self.values["fewshot_config"])
        return identity

    def data_identity(self) -> dict[str, Any]:
        """Return hashes of the data files: documents, and the pool of few-shot examples if they are used."""
        identity: dict[str, Any] = {"data": self.data.identity()}
        if self.values["num_fewshot"]:
            identity["examples"] = self.data.pool_identity()
        return identity

    def score_identity(self) -> dict[str, Any]:
        """Return the settings of this task that affect scores and files, but no request."""
        identity = {key: setting_identity(self.values.get(key)) for key in _SCORE_KEYS}
        return identity | {"alias": self.values.get("task_alias"), "code": _plugin_identities(self.values)}

    def judge_identity(self) -> dict[str, Any]:
        """Return the settings that change the judge's input but no request: the first filter and the target."""
        first = (self.values.get("filter_list") or [])[:1]
        identity = {key: setting_identity(self.values.get(key)) for key in ("doc_to_target", "doc_to_choice")}
        return identity | {
            "filter": setting_identity(first),
            "code": _plugin_identities({"filter_list": first}),
        }

    # Documents

    @property
    def original(self) -> int:
        """The number of documents in the data set."""
        return self.data.documents.facts.total

    @property
    def count(self) -> int:
        """The number of documents that this run uses, after `--limit` or `--samples`."""
        if self._samples is not None:
            return len(self._samples)
        return apply_limit(self._spec.limit, self.original)

    def prepare(self, facts: DataFacts | None) -> DataFacts:
        """Scan the data, or reuse the facts of an earlier scan.

        Also builds the first document's requests, so that most mistakes in the settings stop the run before
        the first call.
        """
        documents = self.data.documents
        hashes_before = facts.code_hashes if facts else []
        # Documents that `process_docs` creates are in a temporary file, which is new in every start.
        if facts is None or self.values.get("process_docs") is not None:
            facts = documents.scan()
            if not facts.total:
                raise InputError(Problem(str(documents.files[0]), "the data set is empty"))
        else:
            documents.recall(facts)
        for number in self._samples or ():
            if not 0 <= number < facts.total:
                raise UsageError(f"--samples: {self.name} has no document {number}; it has {facts.total}, from 0 on")
        for row in self.rows():
            failure = self.build(row)[2]
            if failure:
                raise InputError(problem_of(failure))
            break
        # `process_docs` may use an unseeded source of randomness or the clock. Replies of earlier starts would
        # then be matched with other documents.
        if hashes_before and hashes_before != self.data.hashes:
            raise UsageError(
                f"{self.config.where('process_docs')}: it returns different documents than when this run started; "
                "make it return the same documents every time, or start again with --fresh"
            )
        facts.code_hashes = self.data.hashes
        return facts

    @cached_property
    def _builder(self) -> PromptBuilder:
        """The prompt builder. Created on first use, because it needs the columns that the scan finds."""
        fields = DocumentFields(self.config, self.data.documents.facts.columns)
        builder = PromptBuilder(self.config, fields, self._sampler(), self._options.system_instruction)
        if self._runs_code:
            # Fixed examples are rendered once, and code in them may draw random numbers. They are rendered here,
            # with a seed of their own, because otherwise the first document of each start would decide.
            self._seed_code(-1)
            builder.render_fixed_examples()
        return builder

    def _sampler(self) -> FewshotSampler:
        """Return a new sampler. Each pass over the documents needs one: it restarts the random stream."""
        shots, quirks = self.values["num_fewshot"], self._options.lm_eval_quirks
        sampler = FewshotSampler(self.config, shots, self._seeds.fewshot, quirks=quirks)
        if shots:
            data, fewshot = self.data, self.values["fewshot_config"]
            exclude = data.harness_excludes or (data.overlaps and not quirks)
            # The first n examples suffice for first_n, unless some are excluded or picked by index.
            takes_first = fewshot["sampler"] == "first_n" and not exclude and not fewshot["fewshot_indices"]
            sampler.set_pool(data.pool(shots if takes_first else None), exclude=exclude)
        return sampler

    def rows(self, skip: Callable[[int], bool] | None = None) -> Iterator[TaskRow]:
        """Yield the documents of this run in data order. `skip` takes a position among them.

        A skipped document is still read if it draws random examples (one stream serves all documents) or if
        the data has equal rows (which are numbered in order).
        """
        documents, sampler = self.data.documents, self._sampler()
        unique_keys = documents.unique_keys()
        draws = bool(self.values["num_fewshot"])
        if (draws and not sampler.is_fixed) or len(unique_keys) or self._samples is not None:
            samples = None if self._samples is None else frozenset(self._samples)
            position = 0
            for document in documents.rows(self.count if samples is None else None):
                value = documents.parse(document)
                key = unique_keys.of(documents.key(document, value))
                if samples is not None and document.number not in samples:
                    continue
                examples = _draw(sampler, value) if draws else []
                if skip is None or not skip(position):
                    yield TaskRow(position, document, key, value, examples)
                position += 1
            return
        for document in documents.rows(self.count, skip):
            value = documents.parse(document)
            examples = _draw(sampler, value) if draws else []
            yield TaskRow(document.number, document, documents.key(document, value), value, examples)

    def build(self, row: TaskRow) -> tuple[PromptInputs, TaskGold, Failure | None]:
        """Return the requests, the gold and the failure of a document.

        If the requests cannot be built, there are none, and the failure says why; otherwise it is None.
        """
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
            failure = Failure(BAD_CASE, f"{problem} ({where})", where, traceback=problem.traceback)
            return PromptInputs([]), TaskGold(row.value, ""), failure
        inputs = PromptInputs(requests, self.values["repeats"], cut=not self._options.lm_eval_quirks)
        if self._spec.judge:
            gold = replace(gold, question=question_of(contexts[0]))
        return inputs, gold, None

    def _seed_code(self, number: int) -> None:
        """Seed the random numbers that the task's code draws for one document.

        A document is built several times: for requests, for scoring and for files. The seed makes its prompt
        the same each time, in whatever order documents are built.
        """
        seeds = self._seeds
        seed_user_code(f"{seeds.random} {number}", (seeds.numpy or 0) + number)

    def setting_quirks(self) -> Counter[str]:
        """Count the documents that bugs of the harness in this task's settings affect, by the names in `quirks`."""
        quirks: Counter[str] = Counter()
        if self._keeps_zero_shots:
            quirks["num_fewshot"] = self.count
        has_indices = bool(self.values["num_fewshot"] and self.values["fewshot_config"]["fewshot_indices"])
        if self._options.lm_eval_quirks and has_indices:
            quirks["fewshot_indices"] = self.count
        return quirks


def _draw(sampler: FewshotSampler, value: Document) -> list[Document] | BadDocument:
    """Return the examples of one document, or a BadDocument if there are too few: only this document fails."""
    try:
        return sampler.draw(value)
    except BadDocument as problem:
        return problem


def problem_of(failure: Failure) -> Problem:
    """Convert a document's failure to a problem. The message loses its place, which a Problem prints itself."""
    return Problem(failure.where, failure.message.removesuffix(f" ({failure.where})"))


def _plugin_identities(values: dict[str, Any]) -> list[str]:
    """Return the identities of filters and metrics that are given as `path/file.py:name`."""
    names = [step.get("function") for chain in values.get("filter_list") or () for step in chain["filter"]]
    names += [metric.get("metric") for metric in values.get("metric_list") or ()]
    return [plugins.identity(name) for name in names if isinstance(name, str) and ".py:" in name]


# The harness uses the first split that is set, in this order.
_EVALUATED_SPLITS = ("test_split", "validation_split", "training_split")
_FEWSHOT_SPLITS = ("training_split", "validation_split", "test_split")


class TaskData:
    """The documents that a task evaluates, and the pool of its few-shot examples.

    A split is opened when it is first needed.
    """

    def __init__(self, config: TaskConfig, seeds: Seeds, arguments: dict[str, Any], first: int | None = None) -> None:
        """`first` is the number of evaluated documents that the run needs, if it does not need all of them."""
        self._config = config
        self._first = first
        self._seeds = {"seed": seeds.random or 0, "numpy_seed": seeds.numpy or 0}
        self._arguments = arguments
        self._pool: list[Document] | None = None
        # Hashes of the documents that `process_docs` returned, in the order of the calls.
        self.hashes: list[str] = []

    @cached_property
    def documents(self) -> Documents:
        """The evaluated documents, after `process_docs`."""
        return self._process(self.evaluated, ("process_docs",), self._first)

    @property
    def is_local(self) -> bool:
        """Whether the documents are in files that assay reads itself, without code and the package `datasets`."""
        return self._source is not None and self._source.is_local

    def identity(self) -> list[str]:
        """Return the hashes of the evaluated data, before `process_docs`."""
        return self.evaluated.identity()

    def pool_identity(self) -> Any:
        """Return the hashes of the pool of examples, or the examples themselves if the task file lists them."""
        source = self._pool_source
        return source.identity() if isinstance(source, Documents) else source

    @property
    def harness_excludes(self) -> bool:
        """Whether the harness removes a document from its own examples.

        It only compares the two settings. If `fewshot_split` is not set but the examples come from the test
        split, a document can be among its own examples; `overlaps` covers this.
        """
        values = self._config.values
        return bool(values["fewshot_config"]["split"] == values.get("test_split"))

    @cached_property
    def overlaps(self) -> bool:
        """Whether the few-shot examples come from the evaluated documents."""
        source = self._pool_source
        return isinstance(source, Documents) and source.identity() == self.evaluated.identity()

    def pool(self, first: int | None) -> list[Document]:
        """Return the documents that examples are taken from. With `first`, only that many are read."""
        source = self._pool_source
        if not isinstance(source, Documents):
            return source
        if self._pool is None:
            has_split = bool(self._config.values["fewshot_config"]["split"])
            place = ("fewshot_config", "process_docs") if has_split else ("process_docs",)
            documents = self._process(source, place)
            if not documents.facts.total:
                documents.scan()
            self._pool = list(documents.values(first))
        return self._pool

    @cached_property
    def _source(self) -> DataSource | None:
        """The data set; None if a function builds it (`custom_dataset`)."""
        config, values = self._config, self._config.values
        if values.get("custom_dataset") is not None:
            return None
        name, options = values.get("dataset_name"), values.get("dataset_kwargs")
        return DataSource(str(values["dataset_path"]), name, options, config.path.parent, config.where)

    @cached_property
    def evaluated(self) -> Documents:
        """The evaluated documents, before `process_docs`."""
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
        raise InputError(
            Problem(self._config.where("num_fewshot"), "no split for few-shot examples: set fewshot_split")
        )

    def _open(self, source: DataSource | None, split: str) -> Documents:
        if source is not None:
            return source.open(split)
        where = self._config.where("custom_dataset")
        splits = self._custom_splits
        if split not in splits:
            raise InputError(Problem(where, f"it returned no split {split!r}, only {', '.join(splits)}"))
        return spool_rows(splits[split], self._config.path, f" {split} document {{}}", fill=True)

    @cached_property
    def _custom_splits(self) -> Any:
        """The return value of `custom_dataset: !function`: rows by split."""
        values = self._config.values
        # The function gets metadata, --model-args and dataset_kwargs as keyword arguments; later ones win.
        arguments = (values.get("metadata") or {}) | self._arguments | (values.get("dataset_kwargs") or {})
        seed_user_code(**self._seeds)
        where = self._config.where("custom_dataset")
        return _call(self._config.function("custom_dataset"), where, **arguments)

    def _written_examples(self) -> list[Document]:
        """Return the examples of `fewshot_config.samples`: a list, or the return value of a function."""
        where = self._config.where("fewshot_config", "samples")
        samples = self._config.function("fewshot_config", "samples")
        seed_user_code(**self._seeds)
        if callable(samples):
            samples = _call(samples, where)
        if not is_list_of_documents(samples):
            raise InputError(Problem(where, "expected a list of documents"))
        return list(samples)

    def _process(self, documents: Documents, place: tuple[str, ...], most: int | None = None) -> Documents:
        function = self._config.function(*place)
        if function is None:
            return documents
        where = self._config.where(*place)
        processed = run_process_docs(documents, function, where=where, most=most, **self._seeds)
        self.hashes += processed.identity()
        return processed


def _call(function: Callable[..., Any], where: str, **arguments: Any) -> Any:
    try:
        return call_here(function, (), arguments)
    except UserCodeError as error:
        raise InputError(Problem(where, f"it raised {error.raised}")) from error
