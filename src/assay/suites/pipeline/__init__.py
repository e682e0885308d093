"""`assay pipeline`: multi-step pipelines tested with testsets, in the formats of Prompt Lab.

In Python, testsets are read by `TestsetLoader` into `TestCase`s:

    from assay.suites.pipeline import TestCase, TestsetLoader
"""

from assay.suites.pipeline.options import PipelineOptions as Options
from assay.suites.pipeline.suite import PipelineSuite, is_pipeline
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.loader import TestsetLoader
from assay.suites.pipeline.testset.loader import convert_testset as convert
from assay.suites.pipeline.testset.scan import is_testset

SUITE = PipelineSuite
check = PipelineSuite.check

__all__ = ["SUITE", "Options", "TestCase", "TestsetLoader", "check", "convert", "is_pipeline", "is_testset"]
