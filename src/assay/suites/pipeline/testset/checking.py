"""`assay check` for testsets."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.suites.pipeline.testset.findings import Findings
from assay.suites.pipeline.testset.looking import Digests, FileLook, Frame, Inspect
from assay.suites.pipeline.testset.names import V2_KEYS, hop_tag
from assay.suites.pipeline.testset.selection import Selection
from assay.suites.pipeline.testset.stream import records


def check_testset(
    path: Path,
    steps: frozenset[str] | None = None,
    declared: frozenset[str] = frozenset(),
    inspect: Inspect | None = None,
) -> list[Problem]:
    """Everything to say of a file: errors, warnings, advice. `steps` are the pipeline's, if one is named."""
    findings = Findings()
    FileLook(path, Frame(Selection(), declared, steps, inspect), findings, Digests())
    return findings.told("error", "warning", "advice")


def is_testset(path: Path) -> bool:
    """Whether a file is for this suite: it lies below `testsets`, or its first record has keys of the format.

    `inputs` alone says little, many data sets have it; with an id or tags it says enough. `expected_output`
    says enough unless a `tag` makes it a row of HOP.
    """
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    if "testsets" in path.resolve().parent.parts:
        return True
    first = next(records(path, lambda _: None), None)
    record = first.value if first else {}
    keys, old = frozenset(record), "expected_output" in record and not hop_tag(record, frozenset())
    return (
        old
        or not (V2_KEYS - {"inputs"}).isdisjoint(keys)
        or ("inputs" in keys and not keys.isdisjoint({"id", "tags"}))
    )
