"""Reads a run once more in data order, and writes its files and numbers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.protocols import Outcome, Reader, check_key
from assay.store.judges import about
from assay.suites.pipeline.evaluation import by_test, given
from assay.suites.pipeline.junit import JunitFile
from assay.suites.pipeline.rows import Row, RowFiles
from assay.suites.pipeline.scorer import INVALID
from assay.suites.pipeline.tally import VariantTally
from assay.suites.pipeline.testset.testsets import CaseGroup

if TYPE_CHECKING:
    from assay.suites.pipeline.plan import PipelinePlan


class Results:
    """The results of one run."""

    def __init__(self, plan: PipelinePlan, reader: Reader, folder: Path) -> None:
        self._plan = plan
        self._reader = reader
        self._folder = folder
        self._tallies = {
            name: VariantTally([step.id for step in pipeline.steps])
            for name, pipeline in plan.pipelines.items()
        }

    def write(self, newest: Path) -> Outcome:
        """Everything, and whether no evaluated check failed."""
        outputs = {output.key: None for p in self._plan.pipelines.values() for output in p.outputs}
        files = RowFiles(self._folder, list(outputs), self._plan.variants)
        junit = JunitFile(self._folder, self._plan.file.id, self._plan.variants)
        for group in self._plan.testsets.load().groups:
            for rows in self._tests(group):
                files.write(rows)
                for row in rows:
                    self._tallies[row.variant].add(row.set, row.test, row.found, row.score)
                    junit.add(row)
        files.close()
        junit.close({name: tally.counts() for name, tally in self._tallies.items()})
        judge = about(self._plan.judge) if self._plan.judge else {}
        found = {name: tally.summary(name) | judge for name, tally in self._tallies.items()}
        return Outcome(found, [*files.paths, junit.path], self._verdict(), newest)

    def _verdict(self) -> bool | None:
        """Whether no evaluated check failed; open where a judge's word could not be read."""
        if any(tally.failed for tally in self._tallies.values()):
            return False
        return None if any(tally.all.counts[INVALID] for tally in self._tallies.values()) else True

    def _tests(self, group: CaseGroup) -> Iterator[list[Row]]:
        """The tests of a group, each in all variants."""
        cases = [self._rows(group, variant, place) for place, variant in enumerate(self._plan.variants)]
        yield from map(list, zip(*cases, strict=True))

    def _rows(self, group: CaseGroup, variant: str, place: int) -> list[Row]:
        found = self._reader.case(group.index * len(self._plan.variants) + place, self._plan.scorer.id)
        end, records, scores = found or (None, [], [])
        if end is not None:
            check_key(group.key, end, group.cases[-1].key)
        said = {score.part: score for score in scores}
        parts = by_test(records, group.cases)
        return [
            Row(group.set, variant, test, given(parts[test.key], test.key), end, said.get(test.key))
            for test in group.cases
        ]
