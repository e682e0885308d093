"""The suite `memory-test`: tests memories while a conversation grows, and writes SAGE's files.

A row is a conversation with its tests, a subject is a memory. `ConversationSolver` inserts the messages and asks the
questions; `finish` below turns its records into files and numbers.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from assay.core.chart import ChartPoint, svg
from assay.core.error_counts import ErrorCounts
from assay.core.errors import InputError, UsageError
from assay.core.hashing import file_sha256, fingerprint
from assay.core.judges import JudgeInfo
from assay.core.memory import BUNDLE
from assay.core.protocols import Scorer
from assay.core.report import Report
from assay.core.spec import RunSpec, SuiteOptions, split_names
from assay.core.suite import (
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
    files_of,
)
from assay.core.types import Case, Score
from assay.files.write import write_json, write_whole
from assay.scoring import text_overlap
from assay.scoring.judge import OFFLINE, judge_from_spec
from assay.store.judges import judge_info, with_calibration
from assay.suites import find_suite
from assay.suites.memory.answer_prompt import plain_prompt
from assay.suites.memory.conversation import ConversationSolver, read_answers, read_insertion
from assay.suites.memory.costs import memory_costs, memory_tables
from assay.suites.memory.memory_set import MemorySet
from assay.suites.memory.roles import EMBEDDER_ROLE, answer_model, build_model, memory_roles
from assay.suites.memory.settings import building_identity, find_settings, memories_identity, split_settings
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.conversation_rows import ConversationRows
from assay.suites.memory.test.loaders import find_loader, find_other_format
from assay.suites.memory.test.options import MemoryTestOptions
from assay.suites.memory.test.pipeline_caller import PipelineCaller, conversation_inputs
from assay.suites.memory.test.plan import DataPlan
from assay.suites.memory.test.protocols import find_protocol
from assay.suites.memory.test.retention import RetentionCheck
from assay.suites.memory.test.retrieval import retrieval_metrics
from assay.suites.memory.test.schedule import BOTH, WHEN_VISIBLE, ScheduleOptions
from assay.suites.memory.test.scorers import (
    F1,
    JUDGED,
    METRICS,
    RECALL,
    ConversationGold,
    ConversationJudge,
    WordScorer,
)
from assay.suites.memory.test.sink import SUMMARY, ExperimentInfo, QuestionResult, Sink, output_folders
from assay.suites.memory.test.tally import MemoryTally, answered_questions

# Memories that --references adds: lower and upper bounds, and two simple baselines.
REFERENCES = ("none", "FUMemory", "STMemory", "bm25", "oracle")
_TOP_K = 10
# Part of the scorer's id. Increase it when the word scores change: then finished runs are scored again.
_SCORE_VERSION = 3


class MemoryTestSuite(Suite[MemoryTestOptions, PipelineCaller]):
    """Every conversation with every memory, in data order."""

    name = "memory-test"
    files = "assay.suites.memory.test.suite_files:MemoryTestFiles"
    pages = "assay.suites.memory.test.suite_pages:MemoryTestPages"
    Options: ClassVar[type[SuiteOptions]] = MemoryTestOptions
    parts = "rows"
    case_word = "conversation"
    computes = True

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Split option values of the form `a,b` into lists, and fill in what --protocol sets."""
        options = spec.options
        assert isinstance(options, MemoryTestOptions)
        protocol = find_protocol(options.protocol)
        options = msgspec.structs.replace(
            options,
            memory=split_settings(options.memory),
            task_id=split_names(options.task_id),
            categories=split_names(options.categories),
            ask=options.ask or (protocol.ask if protocol else WHEN_VISIBLE),
            top_k=options.top_k or (protocol.top_k if protocol else _TOP_K),
        )
        return msgspec.structs.replace(spec, options=options)

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        options = self.options
        if not options.data:
            raise UsageError("--data is missing. Example: assay memory test --dataset locomo --data FILE --memory bm25")
        names = list(options.memory)
        if options.references:
            names += [name for name in REFERENCES if name not in names]
        self.memories = find_settings(names, options.memory_args, "--memory", options.repeats)
        self.open_cases = options.conversations
        self._schedule = ScheduleOptions(
            ask=options.ask or WHEN_VISIBLE,
            trigger=options.trigger,
            segments=options.segments,
            final=options.final_test,
            categories=tuple(options.categories),
        )
        self._schedule.check()
        self._loader = find_loader(options.dataset)
        self._data = Path(options.data)
        self._answers = not options.no_answer
        memory_set = MemorySet(
            self.memories,
            options.embedder,
            spec.timeout,
            spec.seed,
            options.embedder_kwargs,
            has_model=bool(build_model(spec, options)),
        )
        self._protocol = find_protocol(options.protocol)
        if self._protocol is None or options.answer_prompt:
            self._prompt = plain_prompt(Path(options.answer_prompt) if options.answer_prompt else None)
        else:
            self._prompt = self._protocol.answer_prompt
        self._rules = self._protocol.rules if self._protocol else None
        self._top_k = options.top_k or _TOP_K
        self.solver = ConversationSolver(memory_set, self._top_k, answers=self._answers, prompt=self._prompt)
        self._judge = judge_from_spec(spec, options.judge_prompt, self._protocol.judge if self._protocol else None)
        if options.answer_prompt and not self._answers:
            raise UsageError("--answer-prompt needs answers, but --no-answer asks for none. Remove one of the two.")
        if self._judge is not None and not self._answers:
            raise UsageError("--judge needs answers, but --no-answer asks for none. Remove one of the two flags.")
        self.roles = memory_roles(
            spec,
            options,
            answers=self._answers,
            asking=memory_set.asking,
            instead=", or only search with --no-answer",
        )
        if self._judge is not None:
            self.roles |= self._judge.roles

    # Identity of the run.

    def ask_identity(self) -> dict[str, Any]:
        """Return the answer prompt, and the code and prompts of the memories. A change makes another run."""
        return {
            "prompt": self._prompt.fingerprint if self._answers else None,
            "params": self._prompt.params if self._answers else None,
            **memories_identity(self.memories, self.options.embedder),
        }

    def reuse_identity(self) -> Any:
        """Return the models that build memories and the data. Runs that share both share the building."""
        return building_identity(self.roles, self.memories, self._data_sha256, self.spec.seed)

    def data_identity(self) -> Any:
        """Return the key of each conversation."""
        return list(self._callers.keys)

    @property
    def _gold_fingerprint(self) -> str:
        return self._callers.gold_fingerprint

    @cached_property
    def scorers(self) -> Sequence[Scorer]:  # type: ignore[override]  # reads the data, so not in __init__
        """The word scorer, and the judge if there is one. Two scorers, so that a new judge keeps the word scores."""
        identity: dict[str, Any] = {"gold": self._gold_fingerprint, "version": _SCORE_VERSION}
        abstains = text_overlap.abstains
        # The built-in prompt asks for a phrase of LoCoMo's rule. A prompt of the user's own may ask for anything.
        by_phrases = self._protocol.abstention_phrases if self._protocol else not self.options.answer_prompt
        if not by_phrases:
            # Imported here, because compiling its rules takes longer than most commands need to start.
            from assay.scoring import offline

            abstains = offline.says_unknown
            identity["abstention"] = offline.FINGERPRINT
        words = WordScorer(
            fingerprint(identity),
            answers=self._answers,
            top_k=self._top_k,
            ks={name: setting.k for name, setting in self.memories.items() if setting.k},
            unranked=[name for name, plugin in self.memories.items() if plugin.about.bundle],
            abstains=abstains,
        )
        scorers: list[Scorer] = [words]
        if self._judge is not None:
            scorers.append(ConversationJudge(self._judge, self._gold_fingerprint, self._rules))
        return scorers

    # Rows and cases.

    @cached_property
    def _callers(self) -> ConversationRows:
        """The conversations to test, with their questions and tests. Iterating reads the data again."""
        options = self.options
        # A loader of the user's own knows its format; what it did wrong is told by its error.
        own = ":" in options.dataset
        try:
            return ConversationRows(
                lambda: self._loader.conversations(self._data),
                lambda conversation: self._loader.caller(conversation, self._schedule_of(conversation)),
                source=options.dataset if own else str(self._data),
                set_name=self._loader.name,
                task_ids=options.task_id,
                categories=options.categories,
                limit=self.spec.limit,
            )
        except InputError as error:
            if not own and (hint := find_other_format(self._data, options.dataset)):
                raise UsageError(f"{self._data} is not in the format of {options.dataset!r}: {hint}") from error
            if not own and files_of(find_suite("memory-eval")).recognises(self._data):
                raise UsageError(
                    f"{self._data} has samples with memory points, not conversations. Use: assay memory eval --dataset "
                    f"{self._data} --baseline {','.join(options.memory)}"
                ) from error
            raise

    def _schedule_of(self, conversation: Conversation) -> ScheduleOptions:
        protocol = self._protocol
        if protocol is None or not protocol.skips_abstention or self.options.categories:
            return self._schedule
        # LoCoMo without category 5, whose every question has no answer.
        questions = (*conversation.questions, *conversation.unplaced)
        categories = dict.fromkeys(str(each.category) for each in questions if not each.abstention)
        return msgspec.structs.replace(self._schedule, categories=tuple(categories))

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[PipelineCaller]:
        """Return the conversations. The key of a row covers messages and questions, but no answers.

        So corrected reference answers keep the replies of a run.
        """
        rows = self._callers
        rows.facts = {
            "dataset": self._loader.name,
            "data_sha256": self._data_sha256,
            "conversations": len(rows),
            "memories": list(self.memories),
        }
        return rows

    @cached_property
    def _data_sha256(self) -> str:
        return file_sha256(self._data)

    def subjects(self) -> Sequence[str]:
        """Return the names of the memories, those of --references last."""
        return list(self.memories)

    def case(self, row: Row[PipelineCaller], subject: str) -> CaseContent:
        """Return the inputs and the gold of one conversation with one memory."""
        caller = row.data
        gold = ConversationGold(
            caller.questions,
            caller.conversation.places,
            self._loader.rules,
            caller.conversation.sample_id,
            [test.after for test in caller.tests],
        )
        inputs = conversation_inputs(caller.conversation, caller.questions, caller.tests, subject)
        return CaseContent(inputs, gold, label=caller.conversation.sample_id)

    def overview(self, rows: Rows[PipelineCaller]) -> Overview:
        """Return the sizes of the data and the planned calls, for --dry-run."""
        plan = DataPlan(self._callers, self._rules)
        check = plan.schedule
        rule = f"--ask {self._schedule.ask}"
        if self._schedule.ask in (WHEN_VISIBLE, BOTH):
            rule += f" --trigger {self.options.trigger} --segments {self.options.segments}"
        facts = {
            "data set": f"{self._loader.name} ({self._data})",
            "conversations": f"{rows.count:,}",
            "messages": f"{plan.messages:,}",
            "questions": f"{check.questions:,}",
            "tests": f"{plan.tests:,} ({rule})",
            "questions asked": f"{plan.answers:,} for each memory",
            "memories": ", ".join(plugin.title for plugin in self.memories.values()),
            **({"protocol": f"{self._protocol.name}: {self._protocol.summary}"} if self._protocol else {}),
            "cases": f"{self.total(rows):,}",
        }
        if plan.answers > check.questions:
            once = check.questions + check.never_asked
            facts["asked once"] = f"{once:,} for each memory with --ask at-end"
        for number, sentence in enumerate(check.sentences(), 1):
            facts[f"note {number}"] = sentence
        return Overview(facts=facts, calls=self._planned_calls(plan))

    def _planned_calls(self, plan: DataPlan) -> list[PlannedCalls]:
        """Return the planned calls. Answer calls are exact, tokens are estimates, calls by memories are unknown."""
        planned: list[PlannedCalls] = []
        for name, plugin in self.memories.items():
            if plugin.about.asks and (model := build_model(self.spec, self.options)):
                planned.append(PlannedCalls(what=f"{name} itself", model=model))
        if self._answers:
            tokens = [
                plan.input_tokens(
                    self._prompt.length,
                    plugin.k or self._top_k,
                    bundle=plugin.about.bundle,
                    empty=name == "none",
                )
                for name, plugin in self.memories.items()
            ]
            planned.append(
                PlannedCalls(
                    what="answers",
                    model=answer_model(self.spec, self.options),
                    calls=plan.answers * len(self.memories),
                    input_tokens=sum(tokens),
                    output_tokens=plan.output_tokens * len(self.memories),
                )
            )
        for name, role in self.roles.items():
            if name == EMBEDDER_ROLE and role.mark == "ask":
                planned.append(PlannedCalls(what="vectors", model=role.model))
        if self._judge is not None and self._judge.roles:
            # An upper bound if there are repeats: an answer that is equal in several tests is judged once.
            planned.append(
                PlannedCalls(
                    what="verdicts, at most" if plan.repeats else "verdicts",
                    model=self._judge.name,
                    calls=plan.verdicts * self._judge.votes * len(self.memories),
                )
            )
        return planned

    # Results.

    def finish(self, results: Results[PipelineCaller], run: RunFacts) -> Outcome:
        """Write a file for each conversation and memory, and `summary.json` and two pictures for each memory."""
        folders = output_folders(
            Path(self.spec.output_dir), list(self.memories), self._loader.name, run.started, run.folder.name
        )
        files: list[Path] = []
        tallies: dict[str, MemoryTally] = {}
        check = RetentionCheck()
        judges = self._judges()
        for name, plugin in self.memories.items():
            tally = tallies[name] = MemoryTally(name, plugin.title, reference=plugin.about.reference)
            check = RetentionCheck()
            # Written first, because it marks the folder as ours: a run killed after this line finds the folder again.
            write_json(folders[name] / SUMMARY, {"run": run.folder.name})
            for result in results.of(name):
                check.add(result.row.data)
                path = folders[name] / f"{result.row.data.conversation.task_id}.json"
                if self._write_conversation(result, tally, path):
                    files.append(path)
            files += self._write_summary(folders[name], name, tally, judges, run)
        present = {metric for tally in tallies.values() for metric in tally.metric_names}
        headline = next((metric for metric in METRICS if metric in present), None)
        retrieval = retrieval_metrics(present)
        entries = [tally.entry(headline, self._category_labels, judges, retrieval) for tally in tallies.values()]
        errors = ErrorCounts(error for tally in tallies.values() for error in tally.errors.all())
        report = Report(
            entries=entries,
            entry_word="memory",
            answered=answered_questions(tallies.values()),
            errors=errors.all(),
            # Every memory has the same conversations.
            notices=[*self._protocol_notices(), *check.sentences()],
        )
        groups = {name: setting.group for name, setting in self.memories.items()}
        by_purpose = {name: tally.by_purpose() for name, tally in tallies.items()}
        report.tables = memory_tables(memory_costs(report, headline, groups, by_purpose))
        return Outcome(report, files)

    def _protocol_notices(self) -> list[str]:
        """Return what the report says about --protocol, with the flags that override it."""
        protocol, options = self._protocol, self.options
        if protocol is None or not self._answers:
            return []
        changed = {
            "--answer-prompt": bool(options.answer_prompt),
            "--judge-prompt": bool(options.judge_prompt),
            "--ask": self._schedule.ask != protocol.ask,
            "--top-k": self._top_k != protocol.top_k,
            "--categories": bool(options.categories),
        }
        sentences = [f"Protocol {protocol.name}: {protocol.summary}."]
        if flags := [flag for flag, is_changed in changed.items() if is_changed]:
            sentences.append(f"Overridden by {', '.join(flags)}.")
        if protocol.judge is not None and not self.spec.judge:
            sentences.append("No --judge: the answers are compared by words only, which the protocol does not do.")
        elif protocol.judge is not None and self.spec.judge == OFFLINE:
            sentences.append("The judge offline has rules of its own instead of the protocol's prompt.")
        return [" ".join(sentences)]

    def _judges(self) -> list[JudgeInfo]:
        if self._judge is None:
            return []
        return [with_calibration(judge_info(self._judge, [JUDGED]))]

    @property
    def _category_labels(self) -> dict[str, str]:
        return {str(key): label for key, label in self._loader.categories.items()}

    def _write_conversation(self, result: CaseResult[PipelineCaller], tally: MemoryTally, path: Path) -> bool:
        """Add one conversation to the tally and write its file. Returns False, and writes no file, if it failed."""
        caller = result.row.data
        end = result.end
        if end is None or read_insertion(result.records) is None:
            reason = "not all messages were inserted"
            if end is not None and end.failure is not None:
                reason = end.failure.message
            tally.add_failure(caller.conversation.task_id, caller.conversation.sample_id, reason)
            return False
        content = self.case(result.row, result.subject)
        gold: ConversationGold = content.gold
        scores = [*result.scores, *self._missing_verdicts(result, content)]
        tests_after = [test.after for test in caller.tests]
        tally.add_conversation(caller.conversation.index, tests_after, result.records, scores)
        last = caller.tests[-1].visible if caller.tests else 0
        for question in caller.questions[:last]:
            tally.count_evidence(question.places, gold.places)
        plugin = self.memories[result.subject]
        info = ExperimentInfo(
            dataset=self._loader.name,
            task_id=caller.conversation.task_id,
            memory=plugin.title,
            model=answer_model(self.spec, self.options) if self._answers else "",
            sample_id=caller.conversation.sample_id,
        )
        sink = Sink(info, caller.dataset_statistics, self._schedule.threshold)
        by_test: dict[int, list[QuestionResult]] = {}
        for _, answer in read_answers(result.records):
            retrieved = [hit[0] for hit in answer.hits]
            timings = {"search_seconds": answer.search_seconds}
            if answer.answer_seconds:
                timings["answer_seconds"] = answer.answer_seconds
            by_test.setdefault(answer.test, []).append(
                QuestionResult(
                    question_index=answer.question,
                    question=gold.question(answer),
                    predicted_answer=answer.answer,
                    error=answer.error,
                    # A memory that returns one text gets one fixed id. The journal has the items behind the text.
                    retrieved=[BUNDLE] if plugin.about.bundle and retrieved else retrieved,
                    timings=timings,
                )
            )
        for number, test in enumerate(caller.tests, 1):
            sink.add(test.after, by_test.get(number, []))
        sink.write(path)
        return True

    def _missing_verdicts(self, result: CaseResult[PipelineCaller], content: CaseContent) -> list[Score]:
        """Return placeholder scores if the judge could not be asked about this conversation, so that it is counted."""
        for scorer in self.scorers:
            judged = any(score.scorer == scorer.id for score in result.scores)
            if isinstance(scorer, ConversationJudge) and not judged:
                row = result.row
                case = Case(result.index, row.key, row.set, result.subject, content.label, None, content.gold)
                return scorer.missing(case, result.records)
        return []

    def _write_summary(
        self, folder: Path, name: str, tally: MemoryTally, judges: Sequence[JudgeInfo], run: RunFacts
    ) -> list[Path]:
        """Write `summary.json`, and the pictures of the two curves if they have points."""
        numbers = tally.summary()
        summary = {
            "run": run.folder.name,
            "dataset": self._loader.name,
            "data_sha256": self._data_sha256,
            "memory": name,
            "model": answer_model(self.spec, self.options) if self._answers else None,
            "top_k": self.memories[name].k or self._top_k,
            **({"protocol": self._protocol.name} if self._protocol else {}),
            **numbers,
            "category_labels": self._category_labels,
        }
        for judge in judges:
            summary["judge"] = msgspec.to_builtins(judge)
        paths = [write_json(folder / SUMMARY, summary)]
        metric = F1 if self._answers else RECALL
        if judges:
            metric = JUDGED
        alias, data = numbers["alias"], self._loader.name
        pictures = [
            ("curve.svg", numbers["curve"], "dialogs_inserted", f"{alias} on {data} as conversations grow"),
            ("retention.svg", numbers["retention"]["points"], "age", f"{alias} on {data} as evidence ages"),
        ]
        axes = {"dialogs_inserted": "messages inserted", "age": "messages since the evidence"}
        for file_name, curve, x, title in pictures:
            points: list[ChartPoint] = []
            for at in curve:
                values = at.get(metric)
                if values and values["value"] is not None:
                    low, high = values["interval"] or (None, None)
                    points.append(ChartPoint(at[x], values["value"], low, high))
            if points:
                picture = svg({alias: points}, title, axes[x], metric.replace("_", " "))
                paths.append(write_whole(folder / file_name, picture.encode()))
        return paths

    # `assay check` and `assay show`.
