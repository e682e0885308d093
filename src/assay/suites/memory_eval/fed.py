"""Stage one: every sample of the data goes through every memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core import registry
from assay.core.connect import CHAT
from assay.core.errors import UsageError
from assay.core.hashing import fingerprint, row_key
from assay.core.memory import MemoryPlugin
from assay.core.spec import RunSpec, limited
from assay.core.types import Case
from assay.solvers.memory.answers import CITED_PROMPT, prompt_fingerprint
from assay.solvers.memory.sessions import SessionsSolver
from assay.solvers.memory.timed_memory import MemorySet, find_memories
from assay.suites.memory_eval.building import Gold
from assay.suites.memory_eval.feeding import visits
from assay.suites.memory_eval.loading import load
from assay.suites.memory_eval.options import MemoryEvalOptions
from assay.suites.memory_eval.origin import Baseline, Entry
from assay.suites.memory_eval.sample import Sample, cut

_encode = msgspec.json.Encoder().encode


class Fed:
    """Samples in the order of the data, each with every memory. The data is read anew for each pass."""

    alone = True
    writes = True

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, MemoryEvalOptions)
        if not options.dataset:
            raise UsageError(
                "no data is named: assay memory eval --dataset PATH --baseline FUMemory --output-dir DIR"
            )
        self._spec, self._options = spec, options
        self._kinds = find_memories(options.baseline, "--baseline")
        self.baselines = {
            name: Baseline(kind.title, kind.about.reference) for name, kind in self._kinds.items()
        }
        self._samples = load(Path(options.dataset))
        self._wanted = self._chosen()
        self._left_out = 0
        self._name = Path(options.dataset).resolve().stem
        self._solve()
        self._look()
        self.total = len(self._keys) * len(self._kinds)

    def _chosen(self) -> frozenset[str]:
        options, ids = self._options, self._samples.ids
        if missing := [name for name in options.sample if name not in ids]:
            raise UsageError(registry.unknown("sample", missing[0], ids))
        chosen = [name for name in ids if not options.sample or name in options.sample]
        chosen = chosen[: limited(self._spec.limit, len(chosen))]
        return frozenset(chosen[:1] if options.smoke else chosen)

    def _solve(self) -> None:
        options = self._options
        if not self._spec.model:
            raise UsageError("name a model to answer with --model, or set OPENAI_MODEL")
        self._prompt = Path(options.answer_prompt) if options.answer_prompt else CITED_PROMPT
        memories = MemorySet(self._kinds, options.memory_args, options.embedder, self._spec.timeout)
        self.roles: dict[str, Any] = {"main": self._spec.model} | memories.roles
        self.needs = frozenset({CHAT})
        self._told = memories.needing_evidence
        self.solver = SessionsSolver(memories, options.top_k, self._prompt)

    def _look(self) -> None:
        """Once over the data: what is fed has a key, what is judged by a fingerprint."""
        self._keys: list[list[str]] = []
        golds = []
        self._sessions = self._questions = 0
        evidence = bool(self._told)
        for sample in self._read(count=True):
            self._sessions += len(sample.sessions)
            self._questions += sum(len(each.questions) for each in sample.checkpoints)
            shown = [sample.sample_id, visits(sample, "", evidence=evidence)]
            self._keys.append([sample.sample_id, row_key(_encode(shown))])
            golds.append(row_key(_encode(sample)))
        self.gold = fingerprint(golds)
        self.ask: dict[str, Any] = {
            "set": self._name,
            "data": self._keys,
            "subjects": list(self._kinds),
            "prompt": prompt_fingerprint(self._prompt),
            "memories": [registry.identity(name) for name in self._options.baseline],
            "wordings": [kind.about.prompts for kind in self._kinds.values()],
        }

    def _read(self, *, count: bool = False) -> Iterator[Sample]:
        for sample in self._samples:
            if sample.sample_id in self._wanted:
                found, left_out = cut(sample, self._options.max_sessions)
                self._left_out += left_out if count else 0
                yield found

    @property
    def notices(self) -> tuple[str, ...]:
        """What is odd in the data, and what a cut leaves out."""
        if not self._left_out:
            return tuple(self._samples.warnings)
        told = f"{self._left_out:,} checkpoints reach beyond --max-sessions and are not asked"
        return (*self._samples.warnings, told)

    @property
    def facts(self) -> dict[str, Any]:
        """For the run's own record."""
        return {
            "samples": len(self._keys),
            "sessions": self._sessions,
            "questions": self._questions,
            "baselines": list(self._kinds),
        }

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Sample after sample, each with every memory."""
        for entry, sample in self._pairs():
            if not skip(entry.index):
                inputs = visits(sample, entry.baseline, evidence=entry.baseline in self._told)
                yield Case(
                    entry.index, entry.key, self._name, entry.baseline, entry.label, inputs, entry.gold
                )

    def entries(self) -> Iterator[Entry]:
        """In the order of the cases."""
        return (entry for entry, _ in self._pairs())

    def _pairs(self) -> Iterator[tuple[Entry, Sample]]:
        index = 0
        for (name, key), sample in zip(self._keys, self._read(), strict=True):
            for baseline, kind in self._kinds.items():
                yield Entry(index, key, baseline, name, self._gold(sample, kind)), sample
                index += 1

    def _gold(self, sample: Sample, kind: MemoryPlugin) -> Gold:
        return Gold(sample, kind, self._options.top_k)

    def folders(self, output: Path) -> dict[str, Path]:
        """One baseline has its files in the folder itself, several have a folder each."""
        return {name: output / name if len(self._kinds) > 1 else output for name in self._kinds}
