"""The options of `assay judge calibrate`."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta, field

from assay.core.spec import Options, RunSpec, ask, score
from assay.scoring.panel import judge_name


class CalibrationOptions(Options, frozen=True, kw_only=True):
    """What a calibration can be told besides the common options. Fields may be written `a.b`."""

    labels: Annotated[str, ask("File of labelled rows: JSON lines, or JSON.", content=True)] = ""
    question_field: Annotated[
        str, ask("Field of the question, where it has no usual name.", content=True)
    ] = ""
    reference_field: Annotated[str, ask("Field of the right answer.", content=True)] = ""
    response_field: Annotated[str, ask("Field of the answer that was labelled.", content=True)] = ""
    label_field: Annotated[str, ask("Field of the label, or of several votes.", content=True)] = ""
    category_field: Annotated[str, ask("Field of the category.", content=True)] = ""
    cluster_field: Annotated[
        str, ask("Field that says which rows belong together, such as a conversation.", content=True)
    ] = ""
    cluster: Annotated[
        list[str], ask("Only rows of these clusters: those that the judge was not made with.", content=True)
    ] = field(default_factory=list)
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None, score("Exit 1 where kappa is below this.")
    ] = None


def normalise(spec: RunSpec) -> RunSpec:
    """The judge by its full name, for what the environment says belongs to the run; clusters may be `a,b`."""
    options = spec.options
    assert isinstance(options, CalibrationOptions)
    clusters = [name.strip() for text in options.cluster for name in text.split(",") if name.strip()]
    return msgspec.structs.replace(
        spec, judge=judge_name(spec.judge), options=msgspec.structs.replace(options, cluster=clusters)
    )
