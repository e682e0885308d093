"""The files of pipelines and testsets: recognised, checked and described; results of Prompt Lab."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.file_check import CheckOptions, FileCheck
from assay.core.suite_files import Match, SuiteFiles
from assay.files.json_schema import FileSchema
from assay.suites.pipeline.check import examine, is_default_testset, is_pipeline
from assay.suites.pipeline.file_schema import file_schemas
from assay.suites.pipeline.project import is_agent, is_flow
from assay.suites.pipeline.result_files import has_results
from assay.suites.pipeline.testset.scan import is_testset


class PipelineFiles(SuiteFiles):
    """The files of pipelines and testsets: recognised, checked and described; results of Prompt Lab."""

    reader = "assay.formats.prompt_lab.lab_results:find_pipeline_results"
    writer = "assay.formats.prompt_lab.export:PipelineExporter"

    def recognises(self, path: Path) -> Match:
        """Recognise a pipeline by its steps, a testset by its folder, keys or pipeline, Prompt Lab's files by keys."""
        if is_pipeline(path) or is_agent(path) or is_flow(path):
            return Match.SURE
        if has_results(path):
            return Match.NO
        return Match.LIKELY if is_testset(path) or is_default_testset(path) else Match.NO

    def examine(self, path: Path, options: CheckOptions) -> FileCheck:
        """Return the check of a pipeline with all its variants, a testset, or an agent or a flow of Prompt Lab."""
        return examine(path, options)

    def schemas(self) -> Sequence[FileSchema]:
        return file_schemas()
