"""Writes the files of a pipeline run, test by test: `results.jsonl`, `results.csv` and `junit.xml`."""

from __future__ import annotations

import csv
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any
from xml.sax.saxutils import escape, quoteattr

import msgspec

from assay.core.errors import InputError, UsageError
from assay.core.types import End, Score
from assay.files.excerpt import cut_end
from assay.files.json_objects import first_object
from assay.files.paths import path_from_here
from assay.files.write import csv_cell
from assay.suites.pipeline.output_checks import RULES, TestOutput
from assay.suites.pipeline.scorer import ERRORED, FAILED, INVALID, NOT_EVALUATED, PASSED, SKIPPED
from assay.suites.pipeline.tally import NO_ANSWER
from assay.suites.pipeline.testset.case import TestCase

# Characters that XML 1.0 does not allow, not even escaped.
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
# Messages may contain whole replies. CI systems show them in one line.
_LONGEST_ATTRIBUTE = 2000
_COPY_BYTES = 1 << 16
PROMPT_LAB_COLUMNS = (
    "id",
    "variant",
    "overall_score",
    "must_have_pass",
    "execution_time",
    "judge_feedback",
    "rule_violations",
)
JUDGE = "judge"
# The columns of a comparison of variants, which only Prompt Lab writes, begin with this.
COMPARED = "must_have__"
# Far longer than a line of column names. A first line that is longer is that of another file.
_LONGEST_HEADER = 1 << 16
_encode = msgspec.json.Encoder().encode

# Keys that every line of results.jsonl has.
RESULT_KEYS = frozenset({"id", "variant", "result", "steps", "checks"})


class TestResult(msgspec.Struct, frozen=True):
    """The result of one test with one variant, for all three files."""

    __test__ = False  # pytest would collect a class whose name starts with Test

    set: str
    variant: str
    test: TestCase
    output: TestOutput
    end: End | None
    score: Score | None
    depends_on: list[str] = []
    """The tests that must pass before this one runs."""

    @property
    def verdict(self) -> str:
        """The verdict; `no_answer` for a test that got no reply from its model or its judge."""
        return str(self.score.data["verdict"]) if self.score else NO_ANSWER

    @property
    def reason(self) -> str:
        """Why the test did not pass; empty if it passed."""
        if self.score is not None:
            return self.score.reason
        failure = self.end.failure if self.end else None
        return f"{failure.kind}: {failure.message}" if failure else "it was not judged"

    def record(self) -> dict[str, Any]:
        """Return the test's line of results.jsonl."""
        test, output = self.test, self.output
        data = self.score.data if self.score else {}
        # Null if no endpoint reported tokens: 0 would be a measured number.
        tokens = [step["tokens"] for step in output.steps.values() if step.get("tokens")]
        return {
            "id": test.id,
            "set": self.set,
            "variant": self.variant,
            "tags": test.tags,
            "result": self.verdict,
            "reason": self.reason,
            "inputs": test.inputs,
            "step_inputs": test.step_inputs,
            "batch_items": test.batch_items,
            "steps": output.steps,
            "outputs": output.outputs,
            "checks": data.get("checks", []),
            "first_wrong": data.get("first_wrong"),
            "seconds": round(output.seconds, 6) if output.ran else None,
            "tokens": {
                "input": sum(pair[0] for pair in tokens) if tokens else None,
                "output": sum(pair[1] for pair in tokens) if tokens else None,
            },
            # For `assay import`: tests that depend on each other are one case, and `assay compare` leaves out tests
            # that expect something else.
            "depends_on": self.depends_on,
            "gold": data.get("gold"),
        }


class ResultFiles:
    """Writes `results.jsonl` (a line per test and variant) and `results.csv` (a row per test, columns per variant)."""

    def __init__(self, folder: Path, outputs: Sequence[str], variants: Sequence[str]) -> None:
        self.paths = [folder / "results.jsonl", folder / "results.csv"]
        self._outputs = outputs
        self._jsonl: IO[bytes] = self.paths[0].open("wb")
        self._csv: IO[str] = self.paths[1].open("w", encoding="utf-8", newline="")
        self._table = csv.writer(self._csv)
        names = ["result", "first_wrong", "seconds", *(f"output__{key}" for key in outputs)]
        columns = [f"{name}__{variant}" for variant in variants for name in names]
        self._table.writerow(["id", "set", "tags", *columns])

    def write(self, results: Sequence[TestResult]) -> None:
        """Write one test. `results` has one item per variant, in the order of the variants."""
        cells: list[str] = []
        for result in results:
            self._jsonl.write(_encode(result.record()) + b"\n")
            wrong = (result.score.data.get("first_wrong") or {}) if result.score else {}
            cells += [
                result.verdict,
                csv_cell(wrong.get("step", "")),
                f"{result.output.seconds:.3f}" if result.output.ran else "",
            ]
            cells += [_cell(result.output.outputs, key) for key in self._outputs]
        test = results[0].test
        tags = ";".join(test.tags)
        self._table.writerow([csv_cell(str(test.id)), csv_cell(results[0].set), csv_cell(tags), *cells])

    def close(self) -> None:
        """Flush both files."""
        self._jsonl.close()
        self._csv.close()


class PromptLabCsv:
    """Writes the CSV file of Prompt Lab's `eval --pipeline`: one row per test and variant.

    `overall_score` is empty, because assay has no points from 0 to 10. `must_have_pass` is 1 or 0; it is empty for a
    test without a verdict.
    """

    def __init__(self, path: Path, outputs: Sequence[str]) -> None:
        self.path = path
        self._outputs = outputs
        path.parent.mkdir(parents=True, exist_ok=True)
        self._csv: IO[str] = path.open("w", encoding="utf-8", newline="")
        self._table = csv.writer(self._csv)
        self._table.writerow([*PROMPT_LAB_COLUMNS, *(f"output__{key}" for key in outputs)])

    def write(self, result: TestResult) -> None:
        """Write one test with one variant."""
        passed = {PASSED: "1", FAILED: "0", ERRORED: "0"}.get(result.verdict, "")
        checks = result.score.data.get("checks", []) if result.score else []
        judged = [check["why"] for check in checks if check["kind"] == JUDGE and check.get("why")]
        violated = [
            str(check.get("rule") or check["kind"])
            for check in checks
            if check["of"] == RULES and check.get("passed") is False
        ]
        self._table.writerow(
            [
                csv_cell(str(result.test.id)),
                csv_cell(result.variant),
                "",
                passed,
                f"{result.output.seconds:.3f}",
                csv_cell("; ".join(judged) or result.reason),
                csv_cell(",".join(violated)),
                *(_cell(result.output.outputs, key) for key in self._outputs),
            ]
        )

    def close(self) -> None:
        """Flush the file."""
        self._csv.close()


def has_prompt_lab_columns(columns: Iterable[str]) -> bool:
    """Return whether a CSV file with these columns has results of `eval`, or a comparison of variants."""
    names = set(columns)
    return names >= set(PROMPT_LAB_COLUMNS[:4]) or ("id" in names and any(name.startswith(COMPARED) for name in names))


def check_outfile(path: Path) -> None:
    """Raise UsageError if `--outfile` cannot be written, or is a file that is not an earlier file of this kind.

    Such a file may be an input of the run, whose content would be lost. An empty file has no content.
    """
    try:
        if path.is_dir():
            raise UsageError(f"--outfile {path} is a folder; name a file, such as results.csv")
        if not path.exists():
            # The folders below the first one that exists are created when the file is written.
            above = next(folder for folder in path.absolute().parents if folder.exists())
            if not above.is_dir():
                raise UsageError(
                    f"--outfile {path} cannot be written: {path_from_here(above)} is no folder. Name another place"
                )
            TemporaryFile(dir=above).close()
            return
        if not path.is_file():
            raise UsageError(f"--outfile {path} is no regular file; name one, such as results.csv")
        with path.open("rb") as file:
            header = file.readline(_LONGEST_HEADER).decode("utf-8-sig", errors="replace")
    except OSError as error:
        raise UsageError(f"--outfile {path} cannot be written: {error.strerror}. Name another place") from None
    if header and not has_prompt_lab_columns(name.strip('"') for name in header.strip().split(",")):
        raise UsageError(
            f"--outfile {path} exists and is not a CSV file of earlier results, so it stays as it is. "
            "Name another file, such as results.csv, or remove this one first"
        )


class JunitFile:
    """Writes `junit.xml` for CI systems, with one suite per testset and variant.

    Tests arrive in data order, all variants of a test together, but the file needs each suite in one piece. So
    each variant's tests are collected in a temporary file, in the run's folder.
    """

    def __init__(self, folder: Path, name: str, variants: Iterable[str]) -> None:
        self.path = folder / "junit.xml"
        self._name = name
        self._parts = {variant: TemporaryFile(dir=folder) for variant in variants}  # noqa: SIM115 - closed by `close`
        # Bytes of each testset in its variant's temporary file.
        self._sizes: Counter[tuple[str, str]] = Counter()

    def add(self, result: TestResult) -> None:
        """Add one test. All tests of a testset must be added before those of the next."""
        suite = suite_name(result.set, result.variant)
        head = f"    <testcase classname={_attribute(suite)} name={_attribute(result.test.key)}"
        if result.output.ran:  # a test that did not run took no measured time
            head += f' time="{result.output.seconds:.3f}"'
        inside = _testcase_content(result.score, result.reason)
        line = f"{head}>{inside}</testcase>\n" if inside else f"{head}/>\n"
        self._sizes[result.set, result.variant] += self._parts[result.variant].write(line.encode())

    def close(self, suites: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        """Write the file. `suites` has the number of tests by variant, testset and verdict."""
        with self.path.open("wb") as file:
            file.write(b'<?xml version="1.0" encoding="UTF-8"?>\n')
            file.write(f"<testsuites name={_attribute(self._name)}>\n".encode())
            for variant, part in self._parts.items():
                part.seek(0)
                for set_name, counts in suites[variant].items():
                    file.write(_suite_head(suite_name(set_name, variant), counts).encode())
                    _copy(part, file, self._sizes[set_name, variant])
                    file.write(b"  </testsuite>\n")
                part.close()
            file.write(b"</testsuites>\n")


def suite_name(set_name: str, variant: str) -> str:
    """Return the name of a suite in `junit.xml`."""
    return f"{set_name} ({variant})"


def _suite_head(suite: str, counts: Mapping[str, int]) -> str:
    errors = sum(counts.get(name, 0) for name in (ERRORED, INVALID, NO_ANSWER))
    skipped = sum(counts.get(name, 0) for name in (SKIPPED, NOT_EVALUATED))
    return (
        f'  <testsuite name={_attribute(suite)} tests="{sum(counts.values())}" '
        f'failures="{counts.get(FAILED, 0)}" errors="{errors}" skipped="{skipped}">\n'
    )


def _copy(source: IO[bytes], target: IO[bytes], size: int) -> None:
    while piece := source.read(min(size, _COPY_BYTES)):
        target.write(piece)
        size -= len(piece)


def _testcase_content(score: Score | None, reason: str) -> str:
    if score is None:
        return f"<error message={_attribute(reason)}/>"
    verdict = score.data["verdict"]
    if verdict == PASSED:
        return ""
    if verdict not in (FAILED, ERRORED, INVALID):
        return f"<skipped message={_attribute(reason)}/>"
    lines = []
    for check in score.data.get("checks", ()):
        if check.get("passed") is not True:
            place = f"{check['of']} {check['step']} {check.get('path', '')}"
            lines.append(f"{place}: {check.get('why', '')}")
    details = escape(_NOT_XML.sub("\ufffd", "\n".join(lines)))
    if verdict == FAILED:
        wrong = score.data.get("first_wrong") or {}
        headline = ": ".join(filter(None, (wrong.get("step"), wrong.get("path"), score.reason)))
        return f"<failure message={_attribute(headline)}>{details}</failure>"
    return f"<error message={_attribute(reason)}>{details}</error>"


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("\ufffd", cut_end(text, _LONGEST_ATTRIBUTE)))


def _cell(outputs: dict[str, Any], key: str) -> str:
    if key not in outputs:
        return ""
    value = outputs[key]
    return csv_cell(value) if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def has_results(path: Path) -> bool:
    """Return whether the first line of a `.jsonl` file is a result of a test. It has keys of a test too."""
    if path.suffix != ".jsonl" or not path.is_file():
        return False
    try:
        first = first_object(path)
    except InputError:
        return False
    return first is not None and first.value.keys() >= RESULT_KEYS
