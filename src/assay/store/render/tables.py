"""Tables of plain text that all formats share: what stands in which cell, before a format escapes it.

table = report_table({"results": run.report})
table.header, table.rows
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from assay.core.dollars import dollars
from assay.core.report import Cell, Entry, Interval, Metric, PairedMetric, Report, Table
from assay.scoring.purpose_table import PurposeNumbers

if TYPE_CHECKING:
    from assay.core.judges import JudgeInfo
    from assay.store.calibrations import Warn
    from assay.store.comparison import Comparison, PairedSlice
    from assay.store.gate import Decision

NOT_MEASURED = "–"
PAIR_COLUMNS = ["base's", "new's", "difference", "95% interval", "n", "won/lost", "p", "verdict"]
# A judge with more metrics than this is described as "judge NAME (8 scores)".
MAX_METRICS_OF_A_JUDGE = 3


class TextTable(NamedTuple):
    """A table of texts. The first `names` columns name the row; numbers follow, then texts."""

    header: list[str]
    rows: list[list[str]]
    names: int = 1


# Reports


def report_table(reports: Mapping[str, Report]) -> TextTable:
    """Return the table of a report: a row for each metric. With several reports, a column for each of them."""
    if len(reports) == 1:
        (report,) = reports.values()
        return _single_table(report)
    cells: dict[tuple[str, str], dict[str, str]] = {}
    # Runs of one subject each differ in their subject, so its name would keep their rows apart.
    one_subject = all(len(report.entries) == 1 and report.entries[0].subject for report in reports.values())
    for name, report in reports.items():
        for entry, _ in nested(report.entries):
            for metric in entry.metrics:
                key = ("" if one_subject else entry.title, full_title(metric))
                cells.setdefault(key, {})[name] = metric_cell(metric)
    words = list(dict.fromkeys(report.entry_word for report in reports.values()))
    head = ["metric"] if one_subject else ["/".join(words), "metric"]
    rows = []
    for (title, metric_name), by_report in cells.items():
        names = [metric_name] if one_subject else [title, metric_name]
        rows.append([*names, *(by_report.get(name, NOT_MEASURED) for name in reports)])
    return TextTable([*head, *reports], rows, len(head))


def _single_table(report: Report) -> TextTable:
    rows = []
    for entry, _ in nested(report.entries):
        for metric in entry.metrics:
            value = NOT_MEASURED if metric.value is None else number(metric.value)
            count = count_cell(metric.numerator, metric.denominator)
            cells = [value, interval_cell(metric.interval), count, left_out_cell(metric.left_out)]
            rows.append([entry.title, full_title(metric), *cells])
    header = [report.entry_word, "metric", "value", "95% interval", "n", "left out"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    return TextTable(header, rows, names=2)


def report_notes(report: Report) -> list[str]:
    """Return the reasons of missing values, the warnings, the judges and the notes of a report."""
    notes: dict[str, None] = {}
    for entry, metric in report.metrics():
        for text in (metric.reason, metric.warning):
            if text:
                notes[f"{entry.title} {full_title(metric)}: {text}"] = None
    for line in judge_lines(report.judges()):
        notes[line] = None
    for entry in report.entries:
        for note in entry.notes:
            notes[f"{entry.title}: {note}" if len(report.entries) > 1 else note] = None
    return list(notes)


def merged_tables(report: Report) -> list[Table]:
    """Return the tables of all entries, then those of the report.

    Tables of the same name and title are merged, with a column for the entry. A column that one entry lacks is a dash.
    """
    several = sum(1 for entry in report.entries if entry.tables) > 1
    groups: dict[tuple[str, str], list[tuple[str, Table]]] = {}
    for entry in report.entries:
        for part in entry.tables:
            if part.rows:
                groups.setdefault((part.name, part.title), []).append((entry.title, part))
    merged: list[Table] = []
    for (name, title), parts in groups.items():
        if not several:
            merged += [part for _, part in parts]
            continue
        # The widest table has the columns of most others in their order.
        widest = max([part for _, part in parts], key=lambda part: len(part.columns))
        columns = dict.fromkeys(widest.columns)
        columns |= dict.fromkeys(column for _, part in parts for column in part.columns)
        rows: list[list[Cell]] = []
        notes: list[str] = []
        for entry_title, part in parts:
            for row in part.rows:
                cells = dict(zip(part.columns, row, strict=True))
                rows.append([entry_title, *(cells.get(column) for column in columns)])
            if part.note:
                notes.append(f"{entry_title}: {part.note}")
        merged.append(
            Table(
                name=name,
                title=title,
                columns=[report.entry_word, *columns],
                rows=rows,
                note="\n".join(notes),
                names=parts[0][1].names + 1,
            )
        )
    return merged + [part for part in report.tables if part.rows]


def nested(entries: Sequence[Entry]) -> Iterator[tuple[Entry, int]]:
    """Yield every entry with its depth: groups before their members. An entry of two groups occurs once."""
    by_name = {entry.name: entry for entry in entries}
    members = {name for entry in entries for name in entry.members}
    printed: set[str] = set()

    def walk(entry: Entry, depth: int) -> Iterator[tuple[Entry, int]]:
        if entry.name not in printed:
            printed.add(entry.name)
            yield entry, depth
            for name in entry.members:
                if name in by_name:
                    yield from walk(by_name[name], depth + 1)

    for entry in entries:
        if entry.name not in members:
            yield from walk(entry, 0)


# Comparisons and gates


def comparison_table(rows: Sequence[PairedMetric]) -> TextTable:
    """Return the rows of a comparison."""
    all_sets = "all sets" if any(row.set for row in rows) else ""
    named = [([row.set or all_sets, pair_title(row)], row) for row in rows]
    return _paired_table(["set", "metric"], ["base", "new"], named)


def _paired_table(names: list[str], sides: list[str], rows: Sequence[tuple[list[str], PairedMetric]]) -> TextTable:
    """Return a table of paired rows with all their numbers.

    A column that says nothing is left out: adjusted p in a table with one p, detectable differences without a number.
    """
    has_adjusted = any(row.p_adjusted not in (None, row.p) for _, row in rows)
    has_detectable = any(row.detectable is not None for _, row in rows)
    further = ["adjusted p"] * has_adjusted + ["detectable"] * has_detectable
    cells = []
    for row_names, row in rows:
        *numbers, verdict = pair_cells(row)
        numbers += [_p_cell(row.p_adjusted)] * has_adjusted
        numbers += ["" if row.detectable is None else number(row.detectable)] * has_detectable
        cells.append([*row_names, *numbers, verdict])
    return TextTable([*names, *sides, *PAIR_COLUMNS[2:-1], *further, "verdict"], cells, names=len(names))


def row_remarks(rows: Sequence[PairedMetric]) -> list[str]:
    """Return a line for each reason for which pairs were left out, and the rows whose intervals are not reliable."""
    # A row over all sets would repeat what its sets left out.
    shown = [row for row in rows if row.set] or rows
    lines = [f"{row.name}: {count:,} left out, {why}" for row in shown for why, count in row.left_out.items()]
    return lines + _unreliable([(row.name, row) for row in rows])


def slice_remarks(slices: Sequence[PairedSlice]) -> list[str]:
    """Return the rows of slices whose intervals are not reliable."""
    return _unreliable([(f"{name} {_set_and_metric(row)}", row) for name, row in slice_rows(slices)])


def _unreliable(rows: Sequence[tuple[str, PairedMetric]]) -> list[str]:
    """Return a line for each reason for which intervals rest on too few clusters, with the names of the rows."""
    names: dict[str, list[str]] = {}
    for name, row in rows:
        if row.few_clusters:
            names.setdefault(row.few_clusters, []).append(name)
    lines = []
    for why, affected in names.items():
        lines.append(f"{'all rows' if len(affected) == len(rows) > 1 else ', '.join(affected)}: {why}")
    return lines


def slice_table(slices: Sequence[PairedSlice]) -> TextTable:
    """Return the slices of a comparison, at least one, metric by metric."""
    rows = [([_set_and_metric(row), name], row) for name, row in slice_rows(slices)]
    return _paired_table(["metric", slices[0].by], ["base", "new"], rows)


def slice_rows(slices: Sequence[PairedSlice]) -> list[tuple[str, PairedMetric]]:
    """Return the rows of all slices with the names of their slices. The slices of one metric are adjacent."""
    return _by_metric([(each.title, row) for each in slices for row in each.rows])


def overview_table(comparisons: Sequence[Comparison]) -> TextTable:
    """Return all comparisons of a command in one table, metric by metric."""
    rows = [([_set_and_metric(row), name], row) for name, row in overview_rows(comparisons)]
    return _paired_table(["metric", "new"], PAIR_COLUMNS[:2], rows)


def overview_rows(comparisons: Sequence[Comparison]) -> list[tuple[str, PairedMetric]]:
    """Return the rows of all comparisons with the names of their new sides. The rows of one metric are adjacent.

    These are the rows over all sets. A metric without such a row has those of its sets.
    """
    several_runs = len({side.folder for pair in comparisons for side in (pair.base, pair.new)}) > 1
    several_subjects = len({pair.new.subject for pair in comparisons}) > 1
    rows = []
    for pair in comparisons:
        names = [pair.new.run] if several_runs else []
        if several_subjects or not several_runs:
            names.append(pair.new.subject)
        covered = {(row.metric, row.part) for row in pair.rows if not row.set}
        shown = [row for row in pair.rows if not row.set or (row.metric, row.part) not in covered]
        rows += [(" ".join(names), row) for row in shown]
    return _by_metric(rows)


def _by_metric(rows: Iterable[tuple[str, PairedMetric]]) -> list[tuple[str, PairedMetric]]:
    groups: dict[tuple[str, str, str], list[tuple[str, PairedMetric]]] = {}
    for name, row in rows:
        groups.setdefault((row.set, row.metric, row.part), []).append((name, row))
    return [named for group in groups.values() for named in group]


def _set_and_metric(row: PairedMetric) -> str:
    return f"{row.set} {pair_title(row)}".lstrip()


def cost_table(comparison: Comparison) -> TextTable:
    """Return time, calls, tokens and money of both sides over the paired cases, and how much they changed."""
    sides = [comparison.cost["base"], comparison.cost["new"]]
    columns: dict[str, list[float | None]] = {
        "seconds a case": [side.seconds_per_case for side in sides],
        "calls": [side.calls for side in sides],
        "tokens in": [side.input_tokens for side in sides],
        "tokens out": [side.output_tokens for side in sides],
        "cost": [side.cost for side in sides],
    }
    if columns["cost"] == [None, None]:
        del columns["cost"]  # the price of no call is known
    rows = []
    for number, name in enumerate(comparison.cost):
        rows.append([name, *(_amount(title, values[number]) for title, values in columns.items())])
    changes = [_change(*values) for values in columns.values()]
    if any(changes):
        rows.append(["change", *changes])
    paired = f"{comparison.paired:,} paired {'case' if comparison.paired == 1 else 'cases'}"
    return TextTable([paired, *columns], rows)


def purpose_table(comparison: Comparison) -> TextTable:
    """Return the numbers by purpose of both sides as `base → new`, or a table without rows if a side has none."""
    base, new = comparison.stages.get("base", {}), comparison.stages.get("new", {})
    rows: list[list[str]] = []
    for purpose in dict.fromkeys([*base, *new]) if base and new else ():
        sides = [side.get(purpose, PurposeNumbers()) for side in (base, new)]
        values: list[list[float | None]] = [
            [side.calls for side in sides],
            [side.reused for side in sides],
            [side.input_tokens for side in sides],
            [side.output_tokens for side in sides],
            [side.cost for side in sides],
            [side.seconds for side in sides],
        ]
        rows.append([purpose, *(" → ".join(map(_purpose_cell, pair)) for pair in values)])
    columns = ["stage", "calls", "reused", "tokens in", "tokens out", "cost $", "seconds"]
    said = [0, *(n for n in range(1, len(columns)) if any(row[n] not in _NOTHING for row in rows))]
    return TextTable([columns[n] for n in said], [[row[n] for n in said] for row in rows])


_NOTHING = ("0 → 0", f"{NOT_MEASURED} → {NOT_MEASURED}")


def _purpose_cell(value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    return f"{value:,}" if isinstance(value, int) else number(value)


def _amount(title: str, value: float | None) -> str:
    if value is None:
        return NOT_MEASURED
    if title == "cost":
        return dollars(value)
    return f"{value:,.3f}" if title == "seconds a case" else f"{value:,}"


def _change(base: float | None, new: float | None) -> str:
    """Return `+12%` or `-0.4%`. Empty if a side is not measured, or if the base is 0."""
    if not base or new is None:
        return ""
    share = (new - base) / base
    return f"{share:+.0%}" if abs(share) >= 0.1 else f"{share:+.1%}" if share else "0%"


def gate_table(decisions: Sequence[Decision]) -> TextTable:
    """Return the decisions of a gate: requirement, verdict, the number with its interval and denominator, and why."""
    rows = []
    for each in decisions:
        value = NOT_MEASURED if each.value is None else number(each.value)
        if each.value is not None and each.base is not None and each.new is not None:
            value = f"{each.value:+.4f} ({each.base:.4f} → {each.new:.4f})"
        count = count_cell(each.numerator, each.denominator)
        if each.left_out:
            count += f", left out: {left_out_cell(each.left_out)}"
        rows.append([each.requirement, each.verdict, value, interval_cell(each.interval), count, each.reason])
    return TextTable(["requirement", "verdict", "value", "95% interval", "n", "why"], rows, names=2)


# Cells


def number(value: float | None) -> str:
    """Return a value with four decimals, or `–` for None."""
    return "–" if value is None else f"{value:.4f}"


def interval_cell(interval: Interval | None) -> str:
    """Return `0.7400 – 0.8800`. Empty without an interval."""
    return f"{interval[0]:.4f} – {interval[1]:.4f}" if interval else ""


def count_cell(numerator: float | None, denominator: int) -> str:
    """Return `29.2/36`, or only the denominator if the number is no ratio."""
    if numerator is None:
        return f"{denominator:,}"
    # A fraction, such as a sum of shares, gets one decimal.
    count = f"{numerator:,.1f}" if numerator % 1 else f"{int(numerator):,}"
    return f"{count}/{denominator:,}"


def left_out_cell(left_out: Mapping[str, int]) -> str:
    """Return `1 invalid, 2 infra error`."""
    return ", ".join(f"{count:,} {plain(why)}" for why, count in left_out.items() if count)


def metric_cell(metric: Metric | None) -> str:
    """Return `0.812 (0.74–0.88) 29.2/36, 1 invalid`: value, interval, numerator/denominator, left out."""
    if metric is None:
        return NOT_MEASURED
    left_out = left_out_cell(metric.left_out)
    if left_out:
        left_out = f", {left_out}"
    if metric.value is None:
        return f"{NOT_MEASURED}{left_out}"
    between = f" ({metric.interval[0]:.2f}–{metric.interval[1]:.2f})" if metric.interval else ""
    return f"{metric.value:.3f}{between} {count_cell(metric.numerator, metric.denominator)}{left_out}"


def pair_cells(row: PairedMetric) -> list[str]:
    """Return the cells of PAIR_COLUMNS: both values, difference, interval, n, wins/losses, p, verdict."""
    return [
        number(row.base),
        number(row.new),
        "–" if row.difference is None else f"{row.difference:+.4f}",
        f"{row.interval[0]:+.4f} to {row.interval[1]:+.4f}" if row.interval else "",
        f"{row.n:,}",
        f"{row.wins:,}/{row.losses:,}",
        _p_cell(row.p),
        row.verdict,
    ]


def _p_cell(p: float | None) -> str:
    if p is None:
        return ""
    return f"{p:.4f}" if p >= 0.0001 else f"{p:.1e}"


def is_number(cell: str) -> bool:
    """Return whether a cell is empty or one number, so that its column is aligned to the right."""
    return not cell or (cell[0] in "+-–0123456789" and " " not in cell)


def metric_title(metric: Metric) -> str:
    """Return the name to print, with an arrow if lower is better."""
    title = metric.title
    return f"{title} ↓" if metric.higher_is_better is False and "↓" not in title else title


def full_title(metric: Metric) -> str:
    """Return the name to print with its filter: `exact_match,strict`."""
    title = metric_title(metric)
    if not metric.filter:
        return title
    name, arrow, rest = title.partition(" ↓")
    return f"{name},{metric.filter}{arrow}{rest}"


def pair_title(row: PairedMetric) -> str:
    """Return the name of a row's metric, with its filter, and an arrow if lower is better."""
    name = f"{row.metric},{row.part}" if row.part else row.metric
    return name if row.higher_is_better else f"{name} ↓"


def plain(name: str) -> str:
    """Return a name in words: `infra error` for `infra_error`."""
    return name.replace("_", " ")


def judge_lines(judges: Iterable[JudgeInfo], warn: Warn | None = None) -> list[str]:
    """Return lines such as `judge offline (answer): calibrated: kappa …`.

    Metrics with the same judge and calibration share a line.
    """
    metrics_by_judge: dict[tuple[str, int, str], list[str]] = {}
    for judge in judges:
        # Imported here because most runs have no judge, and the module imports the judges' code.
        from assay.store.calibrations import describe_calibration
        from assay.store.judges import calibration_of

        about = (judge.name, judge.votes, describe_calibration(calibration_of(judge, warn)))
        metrics_by_judge.setdefault(about, []).extend(judge.metrics)
    lines = []
    for (name, votes, calibration), metrics in metrics_by_judge.items():
        decided = ", ".join(metrics)
        if len(metrics) > MAX_METRICS_OF_A_JUDGE:
            decided = f"{len(metrics)} scores"
        if votes > 1:
            decided += f", {votes} votes"
        lines.append(f"judge {name} ({decided}): {calibration}" if metrics else f"judge {name}: {calibration}")
    return lines
