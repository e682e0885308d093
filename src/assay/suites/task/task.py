"""One task of a run, resolved: its documents as cases, and how each is asked and scored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from msgspec.structs import replace

from assay.core.errors import InputError, Problem, UsageError
from assay.core.hashing import row_key
from assay.core.spec import RunSpec, limited
from assay.core.types import Case, Failure
from assay.solvers.prompt import PromptInputs
from assay.suites.task import functions
from assay.suites.task.chains import Chain, chains
from assay.suites.task.config import GENERATE, TaskConfig, generation_problems
from assay.suites.task.data.docs import Doc, Facts
from assay.suites.task.data.processing import seed_code
from assay.suites.task.fields import BadDoc, Fields
from assay.suites.task.metrics import BYPASS, OF_NUMBERS, Metric, metrics
from assay.suites.task.options import TaskOptions, seeds_of
from assay.suites.task.outputs import Gold, Output, Sending, wire_params
from assay.suites.task.prompts import PromptBuilder, question_of
from assay.suites.task.sampling import Sampler
from assay.suites.task.scorer import Scoring
from assay.suites.task.sources import Sources

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
_RENDERED = ("doc_to_text", "doc_to_target", "doc_to_choice", "fewshot_config")


class Task:
    """Reads cases from a task's data. `base` is the place of its first case among all of the run."""

    def __init__(self, config: TaskConfig, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, TaskOptions)
        self.config, self.values, self.name = config, config.values, config.name
        self._spec, self._options = spec, options
        self._override(options)
        self.scoring = self._scoring()
        self.sources = Sources(config, seeds_of(spec), options.model_args)
        self.output = self._output()
        self._fields: Fields | None = None
        self._picked = self._choose()
        self._by_code = any(functions.found([self.values.get(key) for key in _RENDERED]))
        self.quirks: Counter[str] = Counter()
        self.base = 0

    def _override(self, options: TaskOptions) -> None:
        values = self.values
        shots, given = values.get("num_fewshot"), options.num_fewshot
        self._zero_kept = bool(options.lm_eval_quirks and shots == 0 and given)
        values["num_fewshot"] = (shots if given is None or self._zero_kept else given) or 0
        if problems := list(generation_problems(options.gen_kwargs, lambda key: f"--gen-kwargs {key}")):
            raise InputError(problems)
        if options.gen_kwargs and values["output_type"] == GENERATE:
            values["generation_kwargs"] = {**values["generation_kwargs"], **options.gen_kwargs}
        if options.metadata:
            values["metadata"] = {**(values.get("metadata") or {}), **options.metadata}
        if options.predict_only:
            values["metric_list"], values["process_results"] = [{"metric": "bypass"}], None

    def _scoring(self) -> Scoring:
        config, options = self.config, self._options
        if self.values["unsafe_code"] and not options.confirm_run_unsafe_code:
            raise UsageError(
                f"the task {self.name} runs code that the model wrote; --confirm-run-unsafe-code allows it"
            )
        found = chains(config)
        measured: dict[str, Metric] = {"bypass": BYPASS}
        if not options.predict_only:
            measured = metrics(config, quirks=options.lm_eval_quirks)
            refuse_lists(config, found, measured)
        return Scoring(config.output, found, measured, config.function("process_results"))

    def _output(self) -> Output:
        spec, options = self._spec, self._options
        params = wire_params(
            self.values.get("generation_kwargs"), quirks=options.lm_eval_quirks, seed=spec.seed
        )
        chat = options.apply_chat_template
        if chat and self.config.output != GENERATE:
            raise UsageError(
                f"the task {self.name} asks for likelihoods of text, which chat templates have no place for; "
                "leave out --apply-chat-template"
            )
        sending = Sending(spec.model, spec.base_url or "", chat, options.multiturn, params)
        unconditional = "acc_mutual_info" in self.scoring.metrics
        return Output(self.config, sending, unconditional=unconditional, quirks=options.lm_eval_quirks)

    def _choose(self) -> list[int] | None:
        """The documents that `--samples` names, in data order."""
        if not self._options.samples:
            return None
        if not (picked := sorted(set(self._options.samples.get(self.name, [])))):
            raise UsageError(f"--samples names no document of {self.name!r}")
        return picked

    @property
    def original(self) -> int:
        """How many documents the data set has."""
        return self.sources.docs.facts.total

    @property
    def count(self) -> int:
        """How many of them this run asks."""
        if self._picked is not None:
            return len(self._picked)
        return limited(self._spec.limit, self.original)

    def ask_part(self) -> dict[str, Any]:
        """What of this task affects replies."""
        asked = () if self.config.output == GENERATE else ("doc_to_target", "doc_to_choice")
        part = {key: functions.identity(self.values.get(key)) for key in (*_ASK_KEYS, *asked)}
        part["data"] = self.sources.identity
        part["unconditional"] = "acc_mutual_info" in self.scoring.metrics
        if self.values["num_fewshot"]:
            part["fewshot"] = functions.identity(self.values["fewshot_config"])
            part["examples"] = self.sources.shown_identity
        return part

    def score_part(self) -> dict[str, Any]:
        """What of this task affects scores and files, but no reply."""
        part = {key: functions.identity(self.values.get(key)) for key in _SCORE_KEYS}
        return part | {"alias": self.values.get("task_alias"), "code": _plugins(self.values)}

    def judged_part(self) -> dict[str, Any]:
        """What of this task changes what a judge is shown, but no reply: the first filter and the target."""
        first = (self.values.get("filter_list") or [])[:1]
        part = {key: functions.identity(self.values.get(key)) for key in ("doc_to_target", "doc_to_choice")}
        return part | {"filter": functions.identity(first), "code": _plugins({"filter_list": first})}

    def prepare(self, facts: Facts | None) -> Facts:
        """Look at the data, or recall it; then build the first case, which shows most mistakes."""
        docs, made = self.sources.docs, facts.made if facts else []
        if facts is None or self.values.get("process_docs") is not None:
            facts = docs.look()
            if not facts.total:
                raise InputError(Problem(str(docs.files[0]), "the data set is empty"))
        else:
            docs.recall(facts)
        self._check_picked(facts.total)
        self._fields = Fields(self.config, docs.facts.columns)
        first = next(self.load(lambda _: False), None)
        if first and first.failure:
            raise InputError(problem_of(first.failure))
        self._refuse_other_docs(made)
        facts.made = self.sources.made
        return facts

    def _refuse_other_docs(self, before: list[str]) -> None:
        """Code that draws as it likes gives other documents in every start; nothing may be asked of those."""
        if before and before != self.sources.made:
            raise UsageError(
                f"{self.config.where('process_docs')}: it gives other documents than when this run began; "
                "let it give the same ones each time, or begin anew with --fresh"
            )

    def _check_picked(self, total: int) -> None:
        for number in self._picked or ():
            if not 0 <= number < total:
                raise UsageError(
                    f"--samples: {self.name} has no document {number}; it has {total}, from 0 on"
                )

    def _builder(self) -> PromptBuilder:
        """A fresh one: the random stream of few-shot examples begins anew with each pass."""
        shots, quirks = self.values["num_fewshot"], self._options.lm_eval_quirks
        sampler = Sampler(self.config, shots, seeds_of(self._spec).fewshot, quirks=quirks)
        if shots:
            sources, fewshot = self.sources, self.values["fewshot_config"]
            exclude = sources.harness_excludes or (sources.overlap and not quirks)
            # Only the random sampler needs the whole pool.
            few = fewshot["sampler"] == "first_n" and not exclude and not fewshot["fewshot_indices"]
            sampler.give(sources.pool(shots if few else None), exclude=exclude)
            if quirks and fewshot["fewshot_indices"]:
                self.quirks["fewshot_indices"] = self.count
        assert self._fields is not None
        builder = PromptBuilder(self.config, self._fields, sampler, self._options.system_instruction)
        if self._by_code:
            self._seed(-1)  # not by whichever document this start asks first
            builder.settle()
        return builder

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """The cases in data order. Keys and random draws are taken for skipped documents too."""
        self.quirks.clear()
        if self._zero_kept:
            self.quirks["num_fewshot"] = self.count
        builder = self._builder()
        docs, base = self.sources.docs, self.base
        if builder.draws_matter or len(docs.twins()) or self._picked is not None:
            yield from self._load_all(skip, builder)
            return
        own = skip if base == 0 else lambda number: skip(base + number)
        for doc in docs.rows(self.count, own):
            value = docs.parse(doc)
            yield self._case(doc, base + doc.number, row_key(doc.raw), value, builder, _drawn(builder, value))

    def _load_all(self, skip: Callable[[int], bool], builder: PromptBuilder) -> Iterator[Case]:
        """Where the order matters: skipped documents draw their examples and are numbered all the same."""
        docs, index = self.sources.docs, self.base
        twins = docs.twins()
        picked = None if self._picked is None else frozenset(self._picked)
        for doc in docs.rows(self.count if picked is None else None):
            key = twins.name(row_key(doc.raw))
            if picked is not None and doc.number not in picked:
                continue
            value = docs.parse(doc)
            examples = _drawn(builder, value)
            if not skip(index):
                yield self._case(doc, index, key, value, builder, examples)
            index += 1

    def _case(
        self,
        doc: Doc,
        index: int,
        key: str,
        value: dict[str, Any],
        builder: PromptBuilder,
        examples: list[Any] | BadDoc,
    ) -> Case:
        subject, label, repeats = self._spec.model, str(doc.number), self.values["repeats"]
        if self._by_code:
            self._seed(doc.number)
        try:
            if isinstance(examples, BadDoc):
                raise examples
            if self._options.lm_eval_quirks and value in examples:
                self.quirks["fewshot_leak"] += 1
            gold = self.output.gold(builder.fields, value)
            contexts = builder.contexts(value, examples)
            requests = self.output.requests(contexts, gold)
        except BadDoc as bad:
            failure = Failure("bad_case", f"{bad} ({doc.where})", doc.where)
            return Case(index, key, self.name, subject, label, PromptInputs([]), Gold(value, ""), failure)
        inputs = PromptInputs(requests, repeats, cut=not self._options.lm_eval_quirks)
        if self._spec.judge:
            gold = replace(gold, question=question_of(contexts[0]))
        return Case(index, key, self.name, subject, label, inputs, gold)

    def _seed(self, number: int) -> None:
        """A document is built when it is asked, when it is graded anew and for files: each time the same."""
        seeds = seeds_of(self._spec)
        seed_code(f"{seeds.random} {number}", (seeds.numpy or 0) + number)


def _drawn(builder: PromptBuilder, value: dict[str, Any]) -> list[Any] | BadDoc:
    """The examples of one document; too few of them are its own failure."""
    try:
        return builder.draw(value)
    except BadDoc as bad:
        return bad


def problem_of(failure: Failure) -> Problem:
    """A document's failure as a problem of a file; its place is said once."""
    return Problem(failure.where, failure.message.removesuffix(f" ({failure.where})"))


def refuse_lists(config: TaskConfig, found: list[Chain], measured: dict[str, Metric]) -> None:
    """A metric of ours compares one answer; a chain that leaves several would be scored 0 forever."""
    named = next(
        (one.name for one in measured.values() if one.measure and one.aggregation in OF_NUMBERS), None
    )
    problems = [
        Problem(
            config.where("filter_list", at),
            f"the chain {chain.name!r} ends in a list, and {named} takes one answer; end it with take_first",
        )
        for at, chain in enumerate(found)
        if chain.ends_in_list and named
    ]
    if problems:
        raise InputError(problems)


def _plugins(values: dict[str, Any]) -> list[str]:
    """Filters and metrics that are named by path, by their content."""
    from assay.core import registry

    named = [step.get("function") for chain in values.get("filter_list") or () for step in chain["filter"]]
    named += [metric.get("metric") for metric in values.get("metric_list") or ()]
    return [registry.identity(name) for name in named if isinstance(name, str) and ".py:" in name]
