"""Finds the metrics of a report by the names that people type: `exact_match`, `gsm8k exact_match,strict@concise`.

    for entry, metric in find_metrics("exact_match,strict", report, "", folder):
        full_name(entry, metric, report), metric.value

`assay gate --require` and `assay power --metric` use the same names.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.core.errors import UsageError, similar_names, unknown
from assay.core.report import Entry, Metric, Report


def find_metrics(name: str, report: Report, subject: str, folder: Path) -> list[tuple[Entry, Metric]]:
    """Return the metrics that a name fits. A reference such as an oracle counts only if its subject is named.

    An empty subject means all subjects. Raises UsageError, with the names that exist, if nothing fits.
    """
    entries = [entry for entry in report.entries if not subject or subject in (entry.subject, entry.name)]
    if not entries:
        subjects = list(dict.fromkeys(entry.subject or entry.name for entry in report.entries))
        raise UsageError(f"{folder}: {unknown('subject', subject, subjects)}")
    matches: list[tuple[Entry, Metric]] = []
    choices: dict[str, None] = {}
    for entry in entries:
        for metric in entry.metrics:
            choices[full_name(entry, metric, report)] = None
            if name in _spellings(entry, metric) and (not entry.reference or subject or "@" in name):
                matches.append((entry, metric))
    if not matches:
        if not choices:
            raise UsageError(f"{folder} has no metrics: no case was scored")
        # `exact_macth` is nearer to `exact_match` than to its full name `exact_match,none`.
        spellings = (word for entry in entries for metric in entry.metrics for word in _spellings(entry, metric))
        near = similar_names(name, dict.fromkeys(spellings))
        raise UsageError(f"{folder}: {unknown('metric', name, near or list(choices))}")
    return matches


def full_name(entry: Entry, metric: Metric, report: Report) -> str:
    """Return the name that fits one metric of a report only, without the parts that all metrics share."""
    several = len(report.entries) > 1
    set_name = entry.set or ("" if entry.subject else entry.name)
    several_sets = len({each.set or ("" if each.subject else each.name) for each in report.entries}) > 1
    several_subjects = several and len({each.subject for each in report.entries}) > 1
    name = f"{metric.name},{metric.filter}" if metric.filter else metric.name
    if several_sets and set_name:
        name = f"{set_name} {name}"
    return f"{name}@{entry.subject}" if several_subjects and entry.subject else name


def _spellings(entry: Entry, metric: Metric) -> Iterator[str]:
    """Yield all names of a metric: `metric`, `metric,filter`, `set metric`, each also with `@subject`."""
    sets = {"", entry.set, entry.name, entry.alias}
    subjects = {"", entry.subject, entry.name, entry.alias}
    for set_name in sets:
        for own_name in (metric.name, metric.title):
            for filter_name in {"", metric.filter}:
                for subject in subjects:
                    text = f"{set_name} {own_name}{',' if filter_name else ''}{filter_name}".strip()
                    yield f"{text}@{subject}" if subject else text
