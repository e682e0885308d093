"""Judges in reports, and how well each one agrees with labels.

A report has a `JudgeInfo` for each judge. Its `Calibration` is the result of `assay judge calibrate`: the judge's
verdicts compared with the labels of one file. The labels may come from people or from other models. Both structs are
written to `summary.json`; calibrations also have files of their own (see `store/calibrations.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta, Struct, field
from msgspec.structs import replace

ANSWER, RUBRIC = "answer", "rubric"
"""Two kinds of judgement: answers to questions, and texts judged by a rubric. `scoring/questions.py` has the others."""

BUILT_IN = "built-in"
"""The value of --labels for the constructed set that ships with the package."""

NOT_JUDGED, LIMITED = "not judged", "beyond --limit"
"""Reasons for left-out rows that make a calibration incomplete. An incomplete calibration is not saved."""

Count = Annotated[int, Meta(ge=0)]
ZeroToOne = Annotated[float, Meta(ge=0, le=1)]
Kappa = Annotated[float, Meta(ge=-1, le=1)]


class Share(Struct, frozen=True):
    """`count` rows out of `of` rows."""

    count: Count
    of: Count


class Agreement(Struct, frozen=True, kw_only=True):
    """Verdicts compared with labels. `n` counts the rows with a verdict, `invalid` the rows without one.

    A number that is undefined for these rows, such as kappa if all labels are equal, is None, never 0 or 1.
    """

    n: Count
    invalid: Count
    positives: Count
    base_rate: ZeroToOne | None
    accuracy: ZeroToOne | None
    balanced_accuracy: ZeroToOne | None
    kappa: Kappa | None
    interval: tuple[Kappa, Kappa] | None
    interval_method: str
    clusters: Count
    auc: ZeroToOne | None
    false_accepts: Share
    """Rows that the judge accepts, of those that the labels reject."""
    false_rejects: Share
    """Rows that the judge rejects, of those that the labels accept."""


class Votes(Struct, frozen=True):
    """How often the votes of one judge agree: rows with several votes, and rows whose votes are all equal."""

    rows: Count
    unanimous: Count


class Calibration(Struct, frozen=True, kw_only=True):
    """A judge measured against the labels of one kind in one file.

    `verdicts` counts the verdicts on each label: `{"covered": {"covered": 80, "missed": 20}}`. `constructed` is True if
    the labels are those of the constructed set (`--labels built-in`), not those of people or of votes. A calibration
    has numbers and names of categories, but no question or answer of the file, so it can be shared.
    """

    judge: str
    kind: str
    fingerprint: str
    votes: int
    labels: str
    labels_sha256: str
    overall: Agreement
    categories: dict[str, Agreement] = field(default_factory=dict)
    among_votes: Votes | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Count]] = field(default_factory=dict)
    constructed: bool = False

    @property
    def reasons_incomplete(self) -> list[str]:
        """The reasons that make this calibration incomplete; empty for a complete one."""
        return [reason for reason in (NOT_JUDGED, LIMITED) if self.left_out.get(reason)]

    def is_of(self, judge: str, fingerprint: str, kind: str) -> bool:
        """Return whether this calibration is for this judge, prompt (`fingerprint`) and kind of judgement."""
        return (self.judge, self.fingerprint, self.kind) == (judge, fingerprint, kind)


class JudgeInfo(Struct, frozen=True, kw_only=True):
    """A judge that decided scores. `fingerprint` identifies its prompt for this kind of judgement."""

    name: str
    id: str
    votes: int
    kind: str
    fingerprint: str
    metrics: Sequence[str]
    """Names of the scores that the judge decides."""
    calibration: Calibration | None = None
    """The newest calibration at the time of the report."""
    prompt_file: str = ""
    """The file of --judge-prompt, if the prompt is the user's own."""
    calibrated_here: bool = False
    """Whether this is the report of the calibration itself: another one that is saved does not replace it."""

    @property
    def advice(self) -> str:
        """The command that calibrates this judge with the same prompt and number of votes."""
        votes = f" --votes {self.votes}" if self.votes > 1 else ""
        prompt = f" --judge-prompt {self.prompt_file}" if self.prompt_file else ""
        command = f"`assay judge calibrate --judge {self.name}{prompt}{votes} --labels FILE` measures it"
        # The constructed set has no rubrics.
        return command if self.kind == RUBRIC else f"{command}; without a file: --labels {BUILT_IN}"

    def with_metrics(self, names: Sequence[str]) -> JudgeInfo:
        """Return the same judge with further metrics."""
        return replace(self, metrics=list(dict.fromkeys([*self.metrics, *names])))
