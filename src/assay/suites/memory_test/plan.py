"""A memory test, resolved: which conversations go to which memories, when they are asked, what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from assay.core import registry
from assay.core.chart import Point, svg
from assay.core.connect import CHAT
from assay.core.errors import UsageError
from assay.core.files import write_json, write_whole
from assay.core.hashing import file_sha256, fingerprint, row_key
from assay.core.memory import BUNDLE, MemoryPlugin
from assay.core.protocols import Outcome, Reader, RunFacts, Scorer, check_key
from assay.core.spec import RunSpec, limited
from assay.core.types import Case, End, Record, Score
from assay.scoring.panel import panel_from_spec
from assay.solvers.memory.answers import ANSWER_PROMPT, prompt_fingerprint
from assay.solvers.memory.conversation import (
    ConversationInputs,
    ConversationQuestion,
    ConversationSolver,
    ConversationTest,
)
from assay.solvers.memory.timed_memory import MemorySet, find_memories
from assay.suites.memory_test.caller import Asking, PipelineCaller
from assay.suites.memory_test.conversation import Conversation, Question
from assay.suites.memory_test.judging import AnswerJudge
from assay.suites.memory_test.loaders import loader
from assay.suites.memory_test.options import MemoryTestOptions
from assay.suites.memory_test.places import SUMMARY, folders
from assay.suites.memory_test.scorer import F1, JUDGED, RECALL, Gold, MemoryScorer, answers_of
from assay.suites.memory_test.sink import Answer, Info, Sink
from assay.suites.memory_test.tally import Tally

REFERENCES = ("none", "FUMemory", "STMemory", "bm25", "oracle")
_encode = msgspec.json.Encoder().encode


class MemoryTestPlan:
    """Conversations in the order of the data, each with every memory."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, MemoryTestOptions)
        if not options.data:
            raise UsageError("no data is named: assay memory test --dataset locomo --data FILE --memory bm25")
        self._spec, self._options = spec, options
        self._answers = not options.no_answer
        self.memories = _memories(options)
        self._loader = loader(options.dataset)
        self._data = Path(options.data)
        self._callers = self._chosen()
        self._keys = list(map(_key, self._callers))
        self.total = len(self._callers) * len(self.memories)
        self.notices: tuple[str, ...] = ()
        self.open_cases = options.conversations
        self._models()
        answers = prompt_fingerprint(ANSWER_PROMPT) if self._answers else None
        self.ask: dict[str, Any] = {
            "data": self._keys,
            "prompt": answers,
            "memories": [registry.identity(name) for name in options.memory],
            "wordings": [kind.about.prompts for kind in self.memories.values()],
        }
        gold = [_judged_by(question) for caller in self._callers for question in caller.questions]
        self.score: dict[str, Any] = {"gold": fingerprint(gold), "version": 2}
        self.scorers: list[Scorer] = [
            MemoryScorer(f"memory@{fingerprint(self.score)}", answers=self._answers)
        ]
        self._judge = self._judging()

    def _judging(self) -> AnswerJudge | None:
        """A scorer beside the other: each keeps its scores when the other changes."""
        panel = panel_from_spec(self._spec)
        if panel is None:
            return None
        if not self._answers:
            raise UsageError("--judge judges answers, and with --no-answer there are none; leave one out")
        judge = AnswerJudge(panel, self.score["gold"])
        self.roles |= judge.roles
        self.score["judge"] = judge.id
        self.scorers.append(judge)
        return judge

    def _chosen(self) -> list[PipelineCaller]:
        options = self._options
        asking = Asking(
            trigger=options.trigger,
            segments=options.segments,
            final=options.final_test,
            categories=tuple(options.categories),
        )
        found = list(self._loader.conversations(self._data))
        wanted = set(options.task_id)
        names = {name for one in found for name in (one.task_id, one.sample_id)}
        if missing := [name for name in options.task_id if name not in names]:
            raise UsageError(registry.unknown("conversation", missing[0], sorted(names)))
        _known_categories(options.categories, found)
        chosen = [one for one in found if not wanted or {one.task_id, one.sample_id} & wanted]
        return [self._loader.caller(one, asking) for one in chosen[: limited(self._spec.limit, len(chosen))]]

    def _models(self) -> None:
        """A model answers, and may be asked by memories; without either none is needed."""
        options = self._options
        memories = MemorySet(self.memories, options.memory_args, options.embedder, self._spec.timeout)
        asks = self._answers or memories.asks
        if asks and not self._spec.model:
            raise UsageError("name a model to answer with --model, or only search with --no-answer")
        self.roles: dict[str, Any] = {"main": self._spec.model} if asks else {}
        self.needs = frozenset({CHAT}) if asks else frozenset[str]()
        self.roles |= memories.roles
        self.solver = ConversationSolver(memories, options.top_k, answers=self._answers)

    @cached_property
    def sha256(self) -> str:
        """The data by content."""
        return file_sha256(self._data)

    @property
    def _labels(self) -> dict[str, str]:
        """What the categories mean, by their names in the summary."""
        return {str(key): label for key, label in self._loader.categories.items()}

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """The data was read to know which run this is."""
        return {
            "dataset": self._loader.name,
            "data_sha256": self.sha256,
            "conversations": len(self._callers),
            "memories": list(self.memories),
        }

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Conversation after conversation, each with every memory."""
        for at, caller in enumerate(self._callers):
            key, gold = self._keys[at], self._gold(caller)
            for place, memory in enumerate(self.memories):
                index = at * len(self.memories) + place
                if not skip(index):
                    label = caller.conversation.task_id
                    yield Case(index, key, self._loader.name, memory, label, _feeding(caller, memory), gold)

    def _gold(self, caller: PipelineCaller) -> Gold:
        known = frozenset(message.id for message in caller.conversation.messages)
        return Gold(
            caller.questions, known, self._loader.rules, caller.conversation.sample_id, len(caller.tests)
        )

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """A file for each conversation and memory, then the numbers and the curve beside them."""
        places = folders(
            Path(self._spec.output_dir),
            list(self.memories),
            self._loader.name,
            facts.started,
            facts.folder.name,
        )
        results: dict[str, Any] = {}
        files: list[Path] = []
        for place, (name, kind) in enumerate(self.memories.items()):
            tally = Tally(kind.title, reference=kind.about.reference)
            write_json(places[name] / SUMMARY, {"run": facts.folder.name})
            for at, caller in enumerate(self._callers):
                files += self._file(
                    caller, name, at * len(self.memories) + place, reader, tally, places[name]
                )
            results[name] = {**tally.summary(), "category_labels": self._labels, **self._judged_by}
            files += self._beside(places[name], name, results[name], facts)
        return Outcome(results, files)

    @property
    def _judged_by(self) -> dict[str, Any]:
        return {"judge": self._judge.about} if self._judge else {}

    def _file(
        self, caller: PipelineCaller, memory: str, index: int, reader: Reader, tally: Tally, folder: Path
    ) -> list[Path]:
        """Nothing is written of a conversation that was not fed to its end."""
        end, records, scores = reader.case(index, self.scorers[0].id) or (None, [], [])
        if end is None or not any(record.kind == "fed" for record in records):
            failure = end.failure if end else None
            tally.fail(caller.conversation, failure.message if failure else "it was not fed to its end")
            return []
        check_key(self._keys[index // len(self.memories)], end, caller.conversation.task_id)
        answers = answers_of(records)
        gold, last = self._gold(caller), caller.tests[-1].visible if caller.tests else 0
        scores += self._verdicts(Case(*_head(end), "", None, gold), records, reader)
        tally.add(caller.conversation.index, [test.after for test in caller.tests], records, scores)
        for question in caller.questions[:last]:
            tally.evidence(question.places, gold.known)
        sink = self._sink(caller, memory)
        for number, test in enumerate(caller.tests, 1):
            told = [record.data for record in answers if record.data["test"] == number]
            sink.add(test.after, [self._answer(caller.questions, memory, said) for said in told])
        path = folder / f"{caller.conversation.task_id}.json"
        sink.write(path)
        return [path]

    def _verdicts(self, case: Case, records: list[Record], reader: Reader) -> list[Score]:
        if self._judge is None:
            return []
        return reader.scores(case.index, self._judge.id) or self._judge.missing(case, records)

    def _sink(self, caller: PipelineCaller, memory: str) -> Sink:
        info = Info(
            dataset=self._loader.name,
            task_id=caller.conversation.task_id,
            memory=self.memories[memory].title,
            model=self._spec.model if self._answers else "",
            sample_id=caller.conversation.sample_id,
        )
        return Sink(info, caller.dataset_statistics, self._options.segments)

    def _answer(self, questions: Sequence[Question], memory: str, said: dict[str, Any]) -> Answer:
        found = [one[0] for one in said["found"]]
        bundle = self.memories[memory].about.bundle
        timings = {"search_seconds": said["search_seconds"]}
        if said["answer_seconds"]:
            timings["answer_seconds"] = said["answer_seconds"]
        return Answer(
            question_index=said["question"],
            question=questions[said["question"] - 1],
            predicted_answer=said["answer"],
            error=said.get("error"),
            retrieved=[BUNDLE] if bundle and found else found,
            timings=timings,
        )

    def _beside(self, folder: Path, name: str, result: dict[str, Any], facts: RunFacts) -> list[Path]:
        told = {
            "run": facts.folder.name,
            "dataset": self._loader.name,
            "data_sha256": self.sha256,
            "memory": name,
            "model": self._spec.model if self._answers else None,
            "top_k": self._options.top_k,
            **result,
        }
        paths = [write_json(folder / SUMMARY, told)]
        metric = JUDGED if self._judge else F1 if self._answers else RECALL
        line = [point for test in result["curve"] if (point := _point(test, metric))]
        if line:
            score = metric.replace("_", " ")
            title = f"{result['alias']} on {self._loader.name} as conversations grow"
            picture = svg({result["alias"]: line}, title, "messages inserted", score)
            paths.append(write_whole(folder / "curve.svg", picture.encode()))
        return paths


def _known_categories(wanted: Sequence[str], found: Sequence[Conversation]) -> None:
    """One that no question has is a slip: nothing would be asked."""
    known = {str(question.category) for one in found for question in one.questions}
    if missing := [name for name in wanted if name not in known]:
        raise UsageError(registry.unknown("category", missing[0], sorted(known)))


def _judged_by(question: Question) -> list[Any]:
    """What a scorer knows of a question and no memory does."""
    return [question.reference, question.category, question.abstention]


def _head(end: End) -> tuple[int, str, str, str]:
    return end.index, end.case, end.set, end.subject


def _point(test: dict[str, Any], metric: str) -> Point | None:
    found = test.get(metric)
    if not found or found["value"] is None:
        return None
    low, high = found["interval"] or (None, None)
    return Point(test["dialogs_inserted"], found["value"], low, high)


def _feeding(caller: PipelineCaller, memory: str) -> ConversationInputs:
    return ConversationInputs(
        memory,
        tuple(session.messages for session in caller.conversation.sessions),
        tuple(
            ConversationQuestion(index, question.text, question.places)
            for index, question in enumerate(caller.questions, 1)
        ),
        tuple(ConversationTest(test.after, test.visible) for test in caller.tests),
    )


def _key(caller: PipelineCaller) -> str:
    """What is fed and asked, in sixteen digits; no answer is part of it."""
    return row_key(_encode([caller.conversation.sample_id, _feeding(caller, "")]))


def _memories(options: MemoryTestOptions) -> dict[str, MemoryPlugin]:
    """By the names that outputs have; yardsticks last."""
    names = [*options.memory]
    if options.references:
        names += [name for name in REFERENCES if name not in names]
    return find_memories(names, "--memory")
