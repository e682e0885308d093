"""One pass over one file: checks every record, and notes in a few bytes each what a second pass needs."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import InputError, Problem
from assay.core.hashing import repeated
from assay.scoring.expectations.prefixes import PREFIXES
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.expansion import expanded_keys
from assay.suites.pipeline.testset.findings import FileFindings, Findings
from assay.suites.pipeline.testset.names import DOUBTFUL, Simple, inputs_beside, simple
from assay.suites.pipeline.testset.reading import id_list, key_of
from assay.suites.pipeline.testset.selection import Selection
from assay.suites.pipeline.testset.stream import Record, Spot, record_at, records, repeated_keys
from assay.suites.pipeline.testset.ties import Graph, Ids, Tie, Tied, digest
from assay.suites.pipeline.testset.validation import Fault, faults_of, simple_faults, unknown_steps

_encode = msgspec.json.Encoder(order="deterministic").encode
_TWICE = "this key stands twice in one object; the last one counts"
_USUAL = {"id", "tags", "inputs", "expected_outputs"}
_PREFIXED = re.compile(rf'"(?:{"|".join(sorted(PREFIXES))}):'.encode())
_EMPTY: dict[str, Any] = {}
_ASKS_NO_MORE: list[Any] = [{}, None, None, None, [], None, None]
_EXPECTS_NO_MORE: list[Any] = [None, {}, {}, None, None]


Inspect = Callable[[TestCase], list[Fault]]
"""Looks at a case whose types are right."""


class Frame(NamedTuple):
    """What a file is read for."""

    selection: Selection = Selection()
    declared: frozenset[str] = frozenset()
    steps: frozenset[str] | None = None
    inspect: Inspect | None = None


class Digests:
    """What the selected cases ask, and what is expected of them: two names for the content of testsets."""

    def __init__(self) -> None:
        self._asked, self._gold = hashlib.sha256(), hashlib.sha256()

    def add(self, case: TestCase, keys: list[str]) -> None:
        """The next case; `keys` are the ids of those of its expansions that are meant."""
        given = case.parameters or None
        said = [case.id, case.inputs, case.step_inputs, case.batch_items]
        tags = case.tags if case.conditions else None  # nothing else of what is asked hangs on them
        self._asked.update(_encode([*said, given and keys, given, case.depends_on, case.conditions, tags]))
        said = [case.expected_outputs, case.expected_aggregation, case.intermediate_expectations]
        self._gold.update(_encode([*said, case.evaluation_config, case.performance_baseline, case.reference]))

    def add_usual(self, record: dict[str, Any], reading: Simple | None) -> None:
        """`add` for the record of a case that has no other than the usual keys: most have not."""
        if reading is None:
            inputs, outputs = record.get("inputs", _EMPTY), record.get("expected_outputs", _EMPTY)
        else:
            inputs = {key: record[key] for key in reading.inputs}
            outputs = {name: record[key] for name, key in reading.expected}
        self._asked.update(_encode([record["id"], inputs, *_ASKS_NO_MORE]))
        self._gold.update(_encode([outputs, *_EXPECTS_NO_MORE]))

    @property
    def asked(self) -> str:
        """Changes with ids, inputs, conditions, ties and their order."""
        return self._asked.hexdigest()

    @property
    def gold(self) -> str:
        """Changes with expectations and how they are judged."""
        return self._gold.hexdigest()


class FileLook:
    """What a pass over a file found: how many groups and tests are meant, and which are tied."""

    def __init__(self, path: Path, frame: Frame, findings: Findings, digests: Digests) -> None:
        self.path, self.frame = path, frame._replace(declared=frame.declared & DOUBTFUL)
        self.groups = self.tests = self.records = 0
        self.tied: dict[int, Tied] = {}
        self.sizes: dict[int, int] = {}
        self.spots: dict[int, Spot] = {}
        self.ids_seen: set[str] = set()
        self._found: FileFindings = findings.file(path)
        self._digests = digests
        self._ids, self._ties = Ids(), list[Tie]()
        self._offsets, self._lines, self._meant = array("Q"), array("Q"), bytearray()
        self._usual = frame.selection.all and not self.frame.declared
        self._read()
        self.groups = self.tests
        self._repeats()
        self._tie()
        self._found.done()
        del self._ids, self._ties, self._offsets, self._lines, self._meant

    def case(self, record: Record) -> TestCase:
        """The case of a record of this file."""
        return TestCase.of(record.value, f"{self.path}:{record.line}", self.frame.declared)

    def _read(self) -> None:
        try:
            for record in records(self.path, self._found.note):
                self.records += 1
                try:
                    self._record(record)
                except RecursionError:
                    self._found.fault(record, Fault((), "nested too deeply"))
        except InputError as unreadable:
            for problem in unreadable.problems:
                self._found.note(problem)
        if not self.records and not self._found.errors:
            self._found.note(Problem(str(self.path), "there is no test case in this file"))
        if advice := name_advice(self.path):
            self._found.note(Problem(str(self.path), advice, "advice"))

    def _record(self, record: Record) -> None:
        value = record.value
        reading = simple(tuple(value)) if self._usual else None
        faults = simple_faults(value) if reading else faults_of(value, self.frame.declared)
        if self.frame.steps is not None and not reading:
            faults += unknown_steps(value, self.frame.steps)
        if repeats := repeated_keys(record):
            faults += [Fault(path, _TWICE, "warning") for path in repeats]
        for fault in faults:
            self._found.fault(record, fault)
        key = key_of(value)
        if key is None:
            return
        self._ids.digests.append(digest(key))  # right or wrong, so that ties to it are found
        self._offsets.append(record.offset)
        self._lines.append(record.line)
        if "depends_on" in value:
            self._note_ties(value, faults)
        usual = self._usual and (reading or value.keys() <= _USUAL)
        if usual and not faults and not self._telling(record):
            self._meant.append(1)
            self.tests += 1
            self._digests.add_usual(value, reading)
        else:
            fine = all(fault.level != "error" for fault in faults)
            self._meant.append(fine and self._case(self.case(record), record))

    def _telling(self, record: Record) -> bool:
        """Whether a usual record is to be inspected: an expected text may have a prefix."""
        return self.frame.inspect is not None and _PREFIXED.search(record.raw) is not None

    def _note_ties(self, value: dict[str, Any], faults: list[Fault]) -> None:
        """Of a record with other faults too, so that they do not hide a tie that leads nowhere."""
        wrong = any(fault.path[:1] == ("depends_on",) for fault in faults)
        if not wrong and "depends_on" not in inputs_beside(value, self.frame.declared):
            ordinal = len(self._lines) - 1
            self._ties += [Tie(ordinal, target) for target in id_list(value["depends_on"])]

    def _case(self, case: TestCase, record: Record) -> bool:
        """Whether any of it is meant."""
        keys = self._keys(case)
        if keys:
            self.tests += len(keys)
            self._digests.add(case, keys)
            self._inspect(case, record)
        return bool(keys)

    def _inspect(self, case: TestCase, record: Record) -> None:
        for fault in self.frame.inspect(case) if self.frame.inspect else ():
            self._found.fault(record, fault)

    def _keys(self, case: TestCase) -> list[str]:
        """The ids it stands for that are meant; notes all of them."""
        keys = expanded_keys(case)
        if case.parameters:
            self._ids.add_expanded(keys)
        selection = self.frame.selection
        self.ids_seen |= selection.ids & {case.key, *keys}
        return selection.keys(case)

    def _repeats(self) -> None:
        """Names the first line of an id that stands twice. Reads again only where there is one."""
        twice = repeated(self._ids.all())
        if not twice:
            return
        first: dict[str, int] = {}
        for record in records(self.path, lambda _: None):
            for key in self._keys_of(record):
                if digest(key) not in twice:
                    continue
                if key in first:
                    before = f"line {first[key]}" if first[key] != record.line else "the same line"
                    message = f"the id {key!r} stands on {before} already"
                    self._found.fault(record, Fault(("id",), message))
                first.setdefault(key, record.line)

    def _keys_of(self, record: Record) -> list[str]:
        """The id and those it is expanded to."""
        value = record.value
        key = key_of(value)
        if key is None:
            return []
        if value.get("parameters") is None or any(
            fault.level == "error" for fault in faults_of(value, self.frame.declared)
        ):
            return [key]
        case = self.case(record)
        return [key, *(expanded_keys(case) if case.parameters else ())]

    def _tie(self) -> None:
        if not self._ties:
            return
        graph = Graph(self._ties, self._ids)
        for missing in graph.missing:
            message = f"there is no case {missing.target!r} in this file"
            self._found.note(Problem(self._where(missing.ordinal), message))
        for cycle in graph.cycles():
            names = " → ".join(str(self._again(at).value["id"]) for at in [*cycle, cycle[0]])
            self._found.note(Problem(self._where(cycle[0]), f"these cases wait for each other: {names}"))
        if not self._found.errors:
            self._group(graph.tied(lambda at: bool(self._meant[at])))

    def _group(self, tied: list[Tied]) -> None:
        for group in tied:
            self.tied[group.first] = group
            for at in group.members:
                self.spots[at] = Spot(self._offsets[at], self._lines[at])
                record = self._again(at)
                case = self.case(record)
                keys = expanded_keys(case) if at in group.brought else self.frame.selection.keys(case)
                self.sizes[group.first] = self.sizes.get(group.first, 0) + len(keys)
                if at in group.brought:
                    self.tests += len(keys)
                    self._digests.add(case, keys)
                    self._inspect(case, record)
                else:
                    self.groups -= len(keys)
            self.groups += 1

    def _again(self, ordinal: int) -> Record:
        return record_at(self.path, Spot(self._offsets[ordinal], self._lines[ordinal]))

    def _where(self, ordinal: int) -> str:
        return self._found.where(self._lines[ordinal], ("depends_on",))


def name_advice(path: Path) -> str:
    """What to say of a file's name; the usual form is `<feature>_<type>_<version>.jsonl`."""
    if "_" in path.stem and not any(char.isspace() for char in path.name):
        return ""
    return f"an unusual name; testsets are named <feature>_<type>_<version>.jsonl, such as {_example(path)}"


def _example(path: Path) -> str:
    return "_".join(path.stem.split()) + "_basic_v1.jsonl"
