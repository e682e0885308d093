"""The options of `assay judge calibrate`."""

from __future__ import annotations

from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import SuiteOptions, ask, how, score


class CalibrationOptions(SuiteOptions, frozen=True, kw_only=True):
    """Measure how well a judge agrees with labelled answers.

    The result is remembered, and shown wherever this judge's scores are shown. It belongs to the judge's model,
    prompt and parameters: when one of them changes, the judge is not calibrated. Without --judge it is the judge
    `offline`, unless OPENAI_MODEL_JUDGE, JUDGE_MODEL or OPENAI_MODEL name one.
    """

    command: ClassVar[str] = "judge calibrate"
    examples: ClassVar[str] = """\
assay judge calibrate --labels answers_with_votes.json
assay judge calibrate --judge openai/NAME --labels labelled.jsonl --votes 3 --min-kappa 0.7
assay judge calibrate --judge openai/NAME --labels rows.json --label-field human.word"""

    labels: Annotated[str, ask("File of labelled rows: JSON lines, or JSON.", content=True)] = ""
    question_field: Annotated[
        str, ask("Field of the question, where it has no usual name. `a.b` is b inside a.", content=True)
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
    save: Annotated[str, how("Write the calibration to this file too, to share it.")] = ""
