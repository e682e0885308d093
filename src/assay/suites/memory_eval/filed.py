"""`--eval-only`: pipeline files that are there, judged without their data, their memory or its model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.core.connect import CHAT
from assay.core.errors import InputError, UsageError
from assay.core.hashing import file_sha256, fingerprint
from assay.core.memory import find_memory
from assay.core.protocols import Context, Solver
from assay.core.registry import names
from assay.core.spec import RunSpec
from assay.core.types import Case
from assay.store.runs import run_folders, state_of
from assay.suites.memory_eval.options import MemoryEvalOptions
from assay.suites.memory_eval.origin import Baseline, Entry
from assay.suites.memory_eval.pipelines import QUESTIONS, SESSIONS, PipelineFiles, folders_of

MARKS = "pipeline.json"
"""In a run's folder: what it notes of its pipeline files."""


class Marks(Struct):
    """What a run notes of the files that it writes: which gold they carry, and their content by baseline."""

    gold: str
    files: dict[str, dict[str, str]]


class Own(NamedTuple):
    """The run that wrote the files, and what it was asked."""

    ask: dict[str, Any]
    gold: str
    folder: Path


def own_run(output: Path, folders: dict[str, Path]) -> Own | None:
    """The newest run in an output folder that wrote these files and no others, to the byte.

    Of several baselines that were run together, one alone is judged apart from that run.
    """
    now = {name: shas(folder) for name, folder in folders.items()}
    for folder in reversed(list(run_folders(output))):
        for marks in reversed(marks_of(folder)):
            if marks.files == now:
                return Own(state_of(folder).info.parts["ask"]["plan"], marks.gold, folder)
            if list(marks.files.values()) == list(now.values()):
                was, told = ", ".join(marks.files), ", ".join(now)
                raise UsageError(f"a run wrote the files in {output} for {was}; --baseline names {told}")
    return None


def marks_of(folder: Path) -> list[Marks]:
    """What a run notes of its files, oldest first; nothing where the folder is of another kind of run."""
    try:
        return msgspec.json.decode((folder / MARKS).read_bytes(), type=list[Marks])
    except (OSError, msgspec.DecodeError):
        return []


def shas(folder: Path) -> dict[str, str]:
    """Both files by content, as far as they are there."""
    paths = [folder / name for name in (SESSIONS, QUESTIONS)]
    return {path.name: file_sha256(path) for path in paths if path.is_file()}


def refuse_strange(output: Path, folders: dict[str, Path]) -> None:
    """Pipeline files are paid work: those that no run here wrote are not written over.

    Each counts for itself: a run that was killed while its files appeared has left a new and an old one.
    """
    noted = [marks for folder in run_folders(output) for marks in marks_of(folder)]
    for name, folder in folders.items():
        own = {each for marks in noted for each in marks.files.get(name, {}).items()}
        if not own.issuperset(shas(folder).items()):
            raise UsageError(
                f"{folder} has pipeline files that no run there wrote as they are now; judge them with "
                "--eval-only, or name another --output-dir"
            )


class Imported(Solver):
    """In place of a solver: the files hold what a run would have recorded."""

    async def solve(self, inputs: str, ctx: Context) -> None:
        """Nothing is asked."""
        ctx.emit("imported", {"sample_id": inputs})


class Filed:
    """The samples of the files. Of a run's own files the cases are that run's; others become a run.

    With `--fresh` all files do: the judge is asked anew, and the run that wrote them stays as it is.
    """

    alone = False
    writes = False
    needs = frozenset({CHAT})

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, MemoryEvalOptions)
        output = Path(spec.output_dir)
        self._folders = folders_of(output, options.baseline)
        self._files = {name: PipelineFiles(folder) for name, folder in self._folders.items()}
        self.baselines = {name: _baseline(name) for name in self._folders}
        self.roles: dict[str, Any] = {}
        self.solver = Imported()
        self.notices: tuple[str, ...] = ()
        own = None if spec.fresh else own_run(output, self._folders)
        self._places = self._own(own.ask) if own else self._imported()
        self.ask: dict[str, Any] = own.ask if own else self._as_files
        self.gold = own.gold if own else fingerprint(self._as_files)
        self.total = len(own.ask["data"]) * len(own.ask["subjects"]) if own else len(self._places)

    @cached_property
    def _as_files(self) -> dict[str, Any]:
        """Large files are hashed once."""
        return {"set": "files", "files": {name: shas(folder) for name, folder in self._folders.items()}}

    def _own(self, ask: dict[str, Any]) -> list[tuple[int, str, str, str]]:
        """Index, key, baseline and sample of each case of the run that wrote the files."""
        subjects = ask["subjects"]
        return [
            (at * len(subjects) + place, key, baseline, sample)
            for at, (sample, key) in enumerate(ask["data"])
            for place, baseline in enumerate(subjects)
            if baseline in self._files
        ]

    def _imported(self) -> list[tuple[int, str, str, str]]:
        """All lines are looked at before anything is asked: nobody here has written them."""
        pairs = [(name, sample) for name, files in self._files.items() for sample in files.samples]
        if not pairs:
            raise UsageError(f"there is no line in {SESSIONS} and {QUESTIONS} of {self._where}")
        found, problems = [], []
        for index, (name, sample) in enumerate(pairs):
            read = self._files[name].read(sample)
            problems += read.problems
            if not problems:
                found.append((index, read.key, name, sample))
        if problems:
            raise InputError(problems)
        return found

    @property
    def _where(self) -> str:
        return ", ".join(map(str, self._folders.values()))

    @property
    def facts(self) -> dict[str, Any]:
        """For the run's own record."""
        samples = len({sample for *_, sample in self._places})
        return {"samples": samples, "baselines": list(self.baselines), "files": self._as_files}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Those that are not skipped and have lines: of a sample that failed there is nothing to judge."""
        for index, key, baseline, sample in self._places:
            if not skip(index) and sample in self._files[baseline]:
                gold = self._files[baseline].read(sample)
                yield Case(index, key, self.ask["set"], baseline, sample, sample, gold)

    def entries(self) -> Iterator[Entry]:
        """All of them, in order."""
        for index, key, baseline, sample in self._places:
            yield Entry(index, key, baseline, sample, self._files[baseline].read(sample))

    def folders(self, output: Path) -> dict[str, Path]:
        """Where they lie."""
        return self._folders


def _baseline(name: str) -> Baseline:
    """Another tool's memory may have any name; one of ours that is a yardstick is told as one."""
    if name not in names("memory"):
        return Baseline(name)
    kind = find_memory(name)
    return Baseline(kind.title, kind.about.reference)
