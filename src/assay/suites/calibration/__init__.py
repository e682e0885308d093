"""`assay judge calibrate`: how well a judge agrees with the labels of a file."""

from assay.suites.calibration.options import CalibrationOptions as Options
from assay.suites.calibration.suite import CalibrationSuite as SUITE  # noqa: N814 - until all suites are classes

__all__ = ["SUITE", "Options"]
