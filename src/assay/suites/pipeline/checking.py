"""`assay check` for pipeline files and their testsets."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.core.yamlfile import load_yaml
from assay.solvers.code import OwnCode
from assay.suites.pipeline.builder import CodeRunners, PipelineBuilder, StepModels
from assay.suites.pipeline.pipeline_file import PipelineFile
from assay.suites.pipeline.preflight import Preflight
from assay.suites.pipeline.testset.scan import check_testset

_YAML = (".yaml", ".yml")


def is_pipeline(path: Path) -> bool:
    """Whether a YAML file holds a pipeline: it has steps."""
    if path.suffix not in _YAML or not path.is_file():
        return False
    try:
        return isinstance(load_yaml(path).value.get("steps"), list)
    except InputError:
        return False


def check_file(path: Path, pipeline: Path | None = None) -> list[Problem]:
    """Every problem: of a pipeline in all its variants, or of a testset for the pipeline that is named."""
    if path.suffix in _YAML:
        return check_pipeline(path)
    preflight = Preflight(allow_code=True, judge=True)
    if pipeline is None:
        return check_testset(path, check=preflight.check)
    try:
        file = PipelineFile(pipeline)
    except InputError as error:
        return error.problems
    return check_testset(path, file.known_steps, file.declared, preflight.check)


def check_pipeline(path: Path) -> list[Problem]:
    """What a run of any variant would refuse."""
    try:
        file = PipelineFile(path)
        runners = CodeRunners(OwnCode(1), None)
        builders = [PipelineBuilder(file, name, StepModels(""), runners) for name in file.variants]
        for builder in builders:
            builder.build()
        builders[0].rules()
    except InputError as error:
        return error.problems
    return list(dict.fromkeys(file.problems))
