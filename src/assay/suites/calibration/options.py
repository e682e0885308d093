"""The options of `assay judge calibrate`."""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from msgspec import Meta, field

from assay.core.spec import JUDGE_PROMPT, SuiteOptions, ask, how, score


class CalibrationOptions(SuiteOptions, frozen=True, kw_only=True):
    """Measure how well a judge agrees with labels of answers, points, memories and evidence.

    The result is stored for each kind of question, and later reports show it next to this judge's scores. It is valid
    for one model, prompt and set of parameters; after a change of any of these, the judge counts as not calibrated.
    Judge: --judge, else $OPENAI_MODEL_JUDGE, $JUDGE_MODEL or $OPENAI_MODEL, else `offline` (rules, no model calls).
    """

    command: ClassVar[str] = "judge calibrate"
    default_params: ClassVar[Mapping[str, str]] = {
        "judge_kwargs": "temperature=0,max_tokens=2048; for rubrics max_tokens=1024",
    }
    examples: ClassVar[str] = """\
assay judge calibrate --labels answers_with_votes.json
assay judge calibrate --judge openai/NAME --labels built-in
assay judge calibrate --judge openai/NAME --labels labelled.jsonl --votes 3 --min-kappa 0.7
assay judge calibrate --judge openai/NAME --labels rows.json --label-field human.word
assay judge calibrate --judge openai/NAME --labels results/assay/RUN"""

    labels: Annotated[
        str,
        ask(
            "File with labelled rows, JSON lines or JSON; or a run whose answers were labelled with `assay label`; or "
            "`built-in`, the constructed set of all six kinds.",
            content=True,
        ),
    ] = ""
    question_field: Annotated[
        str,
        ask("Field with the question; needed only for unusual names. `a.b` is b inside a.", content=True),
    ] = ""
    reference_field: Annotated[str, ask("Field with the reference answer.", content=True)] = ""
    response_field: Annotated[str, ask("Field with the answer that has the label.", content=True)] = ""
    label_field: Annotated[str, ask("Field with the label, or with several votes.", content=True)] = ""
    category_field: Annotated[
        str, ask("Field with the category. Results are also reported per category.", content=True)
    ] = ""
    cluster_field: Annotated[
        str,
        ask(
            "Field that groups related rows, such as a conversation id. The interval of kappa uses it.",
            content=True,
        ),
    ] = ""
    cluster: Annotated[
        list[str],
        ask("Use only rows of these clusters, for example those not used to develop the judge.", content=True),
    ] = field(default_factory=list)
    judge_prompt: Annotated[str, JUDGE_PROMPT] = ""
    min_kappa: Annotated[
        Annotated[float, Meta(ge=-1, le=1)] | None, score("Exit with code 1 if kappa is below this value.")
    ] = None
    save: Annotated[str, how("Also write the calibration to this file, for example to share it.", writes=True)] = ""
