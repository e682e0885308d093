"""A memory evaluation, resolved: which rows are made or read, who judges them, what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.files import write_json
from assay.core.protocols import Outcome, Reader, RunFacts, View, check_key
from assay.core.spec import RunSpec
from assay.core.types import Case, Record, Score
from assay.scoring.panel import Panel
from assay.solvers.memory.sessions import ANSWER, SESSION, USED
from assay.store.judges import about_judges
from assay.suites.memory_eval.building import Rows
from assay.suites.memory_eval.evals import evals
from assay.suites.memory_eval.fed import Fed
from assay.suites.memory_eval.filed import MARKS, Filed, Marks, marks_of, refuse_strange
from assay.suites.memory_eval.files import Files
from assay.suites.memory_eval.judging import METRICS, EvalScorer, LexicalScorer
from assay.suites.memory_eval.options import MemoryEvalOptions
from assay.suites.memory_eval.origin import Entry, Origin
from assay.suites.memory_eval.points import Answer
from assay.suites.memory_eval.tally import Tally


class MemoryEvalPlan:
    """Every sample with every baseline: fed or read, judged, and written as five files a baseline."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, MemoryEvalOptions)
        self._spec, self._options = spec, options
        self._output = Path(spec.output_dir)
        self.origin: Origin = Filed(spec) if options.eval_only else Fed(spec)
        self._folders = self.origin.folders(self._output)
        if self.origin.writes:
            refuse_strange(self._output, self._folders)
        self.alone, self.ask, self.solver = self.origin.alone, self.origin.ask, self.origin.solver
        self.needs, self.total, self.open_cases = self.origin.needs, self.origin.total, options.samples
        self.notices = self.origin.notices
        self._panel = (
            None if options.no_judge else Panel(spec.judge or "", spec.votes, options.judge_base_url)
        )
        self.roles = self.origin.roles | (self._panel.role if self._panel else {})
        self.scorers: list[Any] = [LexicalScorer(_answers, self.origin.gold)]
        if self._panel is not None:
            self.scorers.append(EvalScorer(self._panel, _rows, self.origin.gold))
        self.score: dict[str, Any] = {"scorers": [scorer.id for scorer in self.scorers]}

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """The data was read to know which run this is."""
        return self.origin.facts

    def overview(self) -> dict[str, Any]:
        """What would be done, for people."""
        found = {**self.origin.facts, "model": self._spec.model or "none", "top k": self._options.top_k}
        judge = f"{self._panel.name}, votes: {self._panel.votes}" if self._panel else "none"
        return {**found, "judge": judge, "files": ", ".join(map(str, self._folders.values()))}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Sample after sample."""
        return self.origin.load(skip)

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The five files of each baseline, and every number with its denominator."""
        files: dict[str, Files] = {}
        try:
            for name, folder in self._folders.items():
                files[name] = Files(folder, writes=self.origin.writes)
            return self._written(reader, facts, files)
        finally:
            for each in files.values():
                each.vanish()

    def _written(self, reader: Reader, facts: RunFacts, files: dict[str, Files]) -> Outcome:
        tallies = {
            name: Tally(found.alias, reference=found.reference)
            for name, found in self.origin.baselines.items()
        }
        for entry in self.origin.entries():
            self._sample(entry, reader, files[entry.baseline], tallies[entry.baseline])
        self._mark(facts.folder, {name: each.close() for name, each in files.items()})
        results = {name: tally.summary() | self._about_judge() for name, tally in tallies.items()}
        for name, found in results.items():
            found["aggregate"]["baseline_id"] = name
        written = [path for name, each in files.items() for path in each.appear(results[name]["aggregate"])]
        return Outcome(results, written)

    def _mark(self, folder: Path, written: dict[str, dict[str, str]]) -> None:
        """Before the files appear: a later run must know its own, wherever this one is killed."""
        marks = Marks(self.origin.gold, written)
        before = marks_of(folder)
        if self.origin.writes and marks not in before:
            write_json(folder / MARKS, msgspec.to_builtins([*before, marks]))

    def _about_judge(self) -> dict[str, Any]:
        return about_judges(self._panel, METRICS) if self._panel else {}

    def _sample(self, entry: Entry, reader: Reader, files: Files, tally: Tally) -> None:
        """Nothing is written of a sample that was not fed to its end, or whose answers are asked for again.

        The format has no word for an answer that is still to come: an empty one is an omission to any judge.
        """
        end, records, scores = self._read(entry, reader)
        if end is None or end.status == "infra_error" or not entry.gold.is_there(records):
            why = end.failure.message if end and end.failure else "it was not fed to its end"
            tally.fail(entry.label, why)
            return
        check_key(entry.key, end, entry.label)
        rows = entry.gold.rows(records)
        found = evals(*rows, scores)
        sessions, questions = entry.gold.lines(rows)
        for line, session in zip(sessions, found.sessions, strict=True):
            files.session(line, session)
        for line, question in zip(questions, found.questions, strict=True):
            files.question(line, question)
        pairs = list(zip(rows.questions, found.questions, strict=True))
        tally.add(entry.index, found.sessions, pairs, scores)
        _use(tally, records, scores)

    def _read(self, entry: Entry, reader: Reader) -> tuple[Any, list[Record], list[Score]]:
        end, records, scores = reader.case(entry.index, self.scorers[0].id) or (None, [], [])
        for scorer in self.scorers[1:]:
            scores = [*scores, *reader.scores(entry.index, scorer.id)]
        return end, records, scores


def _answers(view: View) -> Iterable[Answer]:
    found: Iterable[Answer] = view.case.gold.answers(view.records)
    return found


def _rows(view: View) -> Rows:
    rows: Rows = view.case.gold.rows(view.records)
    return rows


def _use(tally: Tally, records: list[Record], scores: list[Score]) -> None:
    """Seconds and tokens of every stage."""
    for record in records:
        said = record.data
        if record.kind == SESSION:
            tally.use("storage", said["seconds"], None)
        elif record.kind == ANSWER:
            tally.count(said)
            tally.use("retrieval", said["search_seconds"], None)
            tally.use("answer", said.get("answer_seconds"), said.get("tokens"))
        elif record.kind == USED:
            for stage, tokens in said["tokens"].items():
                tally.use(stage, None, tokens)
    for score in scores:
        if score.end is not None and score.end.calls:
            usage = score.end.usage
            tally.use("judge", score.end.seconds, [usage.input, usage.output] if usage else None)
