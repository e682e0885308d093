"""Prints the Report of any suite on the terminal.

The order is always the same: main table, judges, remarks on single numbers, slices, curves, tables, examples, and
comparisons of subjects. `print_run` adds the cost of a run and how to continue it.

Tables are printed by `screen.table`, not by rich. If a table is too wide, rich breaks or cuts its cells; ours splits
the table by columns and never breaks a number. Also, rich takes 60 ms to import.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import UNSET

from assay.cli.footer import print_footer
from assay.core.chart import sparkline
from assay.core.dollars import dollars
from assay.core.errors import UsageError
from assay.core.report import (
    NO_GROUP,
    POOLED,
    Cell,
    Curve,
    Difference,
    Entry,
    Example,
    Metric,
    Report,
    Slice,
    Table,
)
from assay.store.render.screen import block, counted, heading, safe, table, tell
from assay.store.render.tables import (
    NOT_MEASURED,
    PAIR_COLUMNS,
    count_cell,
    interval_cell,
    judge_lines,
    left_out_cell,
    merged_tables,
    metric_cell,
    metric_title,
    nested,
    number,
    pair_cells,
    plain,
)

if TYPE_CHECKING:
    from assay.core.judges import JudgeInfo
    from assay.core.suite import Overview
    from assay.core.suite_pages import Section
    from assay.runner.results import Run

# Limits for the terminal. The report itself has more.
MAX_EXAMPLES = 10
MAX_CHARS = 300
# With more subjects, only the first one is compared with the others.
_MAX_PAIRED = 4


def print_run(run: Run, *, hints_at_errors: bool = True) -> None:
    """Print a run's report, the comparison of its subjects, notices and cost; see `print_footer`."""
    if run.report is not None:
        print_report(run.report, str(run.folder))
        print_pairs(run)
        print_notices(run.report)
    print_footer(run, hints_at_errors=hints_at_errors)


def print_report(report: Report, run: str = "") -> None:
    """Print a report. `run` is the run's name for hints such as `assay show RUN`; empty if there is no run."""
    if not report.entries:
        return
    if any(metric.filter for _, metric in report.metrics()):
        _print_long_table(report)
    else:
        _print_main_table(report)
    print_judges(report.judges())
    _print_remarks(report, run)
    click.echo()
    _print_slices(report)
    _print_curves(report)
    _print_tables(report)
    _print_examples(report, run)
    if report.differences:
        rows = [[pair.base, pair.new, *pair_cells(pair.row)] for pair in report.differences]
        table(["base", "new", *PAIR_COLUMNS], rows, names=2)
        click.echo()


def print_notices(report: Report) -> None:
    """Print the report's notices on stderr."""
    for notice in report.notices:
        tell(notice)


# The main table.


def _print_long_table(report: Report) -> None:
    """Print a line per entry, filter and metric. For suites with several filters."""
    rows = []
    for entry, depth in nested(report.entries):
        title = f"{'  ' * depth}{entry.title}"
        for metric in entry.metrics:
            numbers = [number(metric.value), number(metric.stderr), interval_cell(metric.interval)]
            count = count_cell(metric.numerator, metric.denominator)
            cells = [*numbers, count, left_out_cell(metric.left_out)]
            rows.append([title, metric.filter, metric_title(metric), *cells])
    header = [report.entry_word, "filter", "metric", "value", "stderr", "95% interval", "n", "left out"]
    table(header, rows, names=3)


def _print_main_table(report: Report) -> None:
    """Print a table of entries and metrics. The larger number becomes rows, because terminals scroll down."""
    metrics = _metric_names(_main_metrics(entry) for entry in report.entries)
    counts = _count_names(entry.counts for entry in report.entries)
    entries = list(nested(report.entries))
    if len(metrics) > len(entries):
        rows = [[title, *(metric_cell(entry.metric(name)) for entry, _ in entries)] for name, title in metrics.items()]
        rows += [[plain(name), *(_count_cell(entry.counts, name) for entry, _ in entries)] for name in counts]
        table(["metric", *(entry.title for entry, _ in entries)], rows)
        return
    rows = []
    for entry, depth in entries:
        cells = [metric_cell(entry.metric(name)) for name in metrics]
        cells += [_count_cell(entry.counts, name) for name in counts]
        rows.append([f"{'  ' * depth}{entry.title}", *cells])
    table([report.entry_word, *metrics.values(), *map(plain, counts)], rows)


def _main_metrics(entry: Entry) -> list[Metric]:
    """Return the metrics that no other table of the entry shows."""
    return [metric for metric in entry.metrics if not metric.table]


def _metric_names(lists: Iterable[Sequence[Metric]]) -> dict[str, str]:
    """Return the title of every metric by name, in order of appearance."""
    names: dict[str, str] = {}
    for metrics in lists:
        for metric in metrics:
            names.setdefault(metric.name, metric_title(metric))
    return names


def _count_names(counts: Iterable[dict[str, int]]) -> list[str]:
    return list(dict.fromkeys(name for by_name in counts for name in by_name))


def _count_cell(counts: dict[str, int], name: str) -> str:
    """Return a count as text. A missing count is 0, or a dash if the entry has no counts at all."""
    return f"{counts.get(name, 0):,}" if counts else NOT_MEASURED


# Below the main table.


def print_judges(judges: Iterable[JudgeInfo]) -> None:
    """Print a line per judge: its name, its metrics, and its agreement with labels."""
    for line in judge_lines(judges, tell):
        block(line, indent="")


def _print_remarks(report: Report, run: str) -> None:
    """Print reasons of missing numbers, warnings, a hint about invalid scores, and the entries' notes."""
    invalid = 0
    warnings: dict[tuple[str, str], list[str]] = {}
    metrics = [(entry, metric) for entry in report.entries for metric in _main_metrics(entry)]
    for entry, metric in metrics:
        name = ",".join(filter(None, (metric.title, metric.filter)))
        # Verdicts from which several metrics are computed are counted below, each once.
        if entry.invalid_verdicts is None:
            invalid += metric.left_out.get("invalid", 0)
        if metric.reason:
            block(f"{entry.title} {name}: {metric.reason}", indent="")
        if metric.warning:
            warnings.setdefault((entry.title, metric.warning), []).append(name)
    texts = {warning for _, warning in warnings}
    if len(texts) == 1 and sum(map(len, warnings.values())) == len(metrics):
        block(f"all values: {texts.pop()}", indent="")
    else:
        for (title, warning), names in warnings.items():
            block(f"{title} {', '.join(names)}: {warning}", indent="")
    verdicts = sum(entry.invalid_verdicts or 0 for entry in report.entries)
    counts = (
        (verdicts, "verdict of the judge is", "verdicts of the judge are"),
        (invalid, "score is", "scores are"),
    )
    for count, one, several in counts:
        if count and run:
            block(
                f"{counted(count, one, several)} invalid. See the reasons with: assay show {run} --failed",
                indent="",
            )
    for entry in report.entries:
        for note in entry.notes:
            block(f"{entry.title}: {note}" if len(report.entries) > 1 else note, indent="")


def _print_slices(report: Report) -> None:
    """Print a table per kind of slice. The entries of one slice are adjacent rows, so that they can be compared."""
    # Reference entries, such as an oracle, are printed in the main table only, unless there are no others.
    entries = [entry for entry in report.entries if not entry.reference] or report.entries
    kinds = dict.fromkeys(part.by for entry in entries for part in entry.slices)
    for by in kinds:
        slices = [(entry, part) for entry in entries for part in entry.slices if part.by == by]
        names = list(dict.fromkeys(part.name for _, part in slices))
        if by == "set" and len(names) == 1:
            continue  # it would repeat the main table
        metrics = _metric_names(part.metrics for _, part in slices)
        counts = _count_names(part.counts for _, part in slices)
        rows = []
        for name in names:
            for entry, part in slices:
                if part.name == name:
                    head = [_slice_title(part), entry.title] if len(entries) > 1 else [_slice_title(part)]
                    by_name = {metric.name: metric for metric in part.metrics}
                    cells = [metric_cell(by_name.get(metric)) for metric in metrics]
                    rows.append([*head, *cells, *(_count_cell(part.counts, count) for count in counts)])
        first = [by, report.entry_word] if len(entries) > 1 else [by]
        header = [*first, *metrics.values(), *map(plain, counts)]
        table(header, rows, names=len(first))
        click.echo()


def _slice_title(part: Slice) -> str:
    if part.by == "tag":
        return f"#{part.title}"
    if part.label == NO_GROUP:
        return NO_GROUP
    if part.label and part.label != part.name:
        return f"{part.label} ({part.name})"
    return part.name or NO_GROUP


def _print_curves(report: Report) -> None:
    """Print pass@k and maj@k as numbers, other curves as sparklines with first and last value."""
    by_name: dict[tuple[str, str], list[list[str]]] = {}
    for entry in report.entries:
        repeats = [curve for curve in entry.curves if curve.name.endswith("@k")]
        _print_repeats(entry, repeats)
        for curve in entry.curves:
            values = [point.metric.value for point in curve.points]
            measured = [value for value in values if value is not None]
            if curve in repeats or not measured:
                continue
            bars = sparkline(values, min(0.0, *measured, 0.0), max(1.0, *measured, 1.0))
            ends = []
            for point in (curve.points[0], curve.points[-1]):
                if point.metric.value is not None:
                    at = f" at {point.place}" if point.span else ""
                    ends.append(f"{point.metric.value:.3f}{at}")
            row = [entry.title, bars, " → ".join(ends)]
            by_name.setdefault((curve.name, curve.title or f"{curve.name} by {curve.x}"), []).append(row)
    for (_, title), rows in by_name.items():
        table([report.entry_word, title, ""], rows)
        click.echo()


def _print_repeats(entry: Entry, curves: Sequence[Curve]) -> None:
    """Print lines such as `pass@1 0.41 @2 0.55` and `maj@1 0.41 @2 0.41`. Filters with equal numbers share them."""
    lines_by_filter: dict[str, list[str]] = {}
    heads: dict[str, str] = {}
    for curve in curves:
        if not curve.points:
            continue
        last = curve.points[-1].metric
        heads[last.filter] = f"{last.title} of {last.denominator:,} cases"
        texts = []
        for point in curve.points:
            k = int(point.x)
            # Powers of two and the last k: the shape of 64 repeats fits into one line.
            if k & (k - 1) == 0 or point is curve.points[-1]:
                texts.append(f"@{k} {number(point.metric.value)}")
        kind = curve.name.removesuffix("@k")
        lines_by_filter.setdefault(last.filter, []).append(f"  {kind}{' '.join(texts)}")
    filters_by_text: dict[str, list[str]] = {}
    for name, lines in lines_by_filter.items():
        filters_by_text.setdefault("\n".join([heads[name], *lines]), []).append(name)
    for text, names in filters_by_text.items():
        title = ", ".join(filter(None, (entry.title, " and ".join(filter(None, names)))))
        click.echo(f"{safe(title)}: {safe(text, keep=chr(10))}")
    if filters_by_text:
        click.echo()


def _print_tables(report: Report) -> None:
    for part in merged_tables(report):
        print_table(part)
        click.echo()


def print_table(part: Table) -> None:
    """Print a table with its title above and its note below."""
    if part.title:
        heading(part.title)
    table(part.columns, [[table_cell(cell) for cell in row] for row in part.rows], names=part.names)
    if part.note:
        block(part.note, indent="")


def table_cell(cell: Cell) -> str:
    """Return a cell as text. None is a dash."""
    if cell is None:
        return NOT_MEASURED
    if isinstance(cell, Metric):
        return metric_cell(cell)
    if isinstance(cell, str):
        return cell
    if isinstance(cell, int):
        return f"{cell:,}"
    # Small numbers get another digit, so that 0.0004 s is not printed as 0.000.
    return f"{cell:,.4f}" if abs(cell) < 0.1 else f"{cell:,.3f}"


def _print_examples(report: Report, run: str) -> None:
    for entry in report.entries:
        for examples in entry.examples:
            if not examples.total:
                continue
            count = f"{examples.total:,}"
            title = examples.title
            heading(f"{entry.title}: {title if title.startswith(count) else f'{title} ({count})'}")
            for example in examples.shown[:MAX_EXAMPLES]:
                _print_example(example)
            if more := examples.total - len(examples.shown[:MAX_EXAMPLES]):
                hint = f". See all with: assay show {run} --failed --limit {examples.total}" if run else ""
                click.echo(f"  … {more:,} more{hint}")
            click.echo()


def _print_example(example: Example) -> None:
    if not example.differences and not example.verdict:
        block(f"{example.label}: {example.reason}", max_chars=MAX_CHARS)
        return
    block(f"✗ {' '.join(filter(None, (example.label, example.verdict)))}", indent="")
    for difference in example.differences:
        print_difference(difference)
    if example.reason and not example.differences:
        block(example.reason, indent="    ", max_chars=MAX_CHARS)


def print_difference(difference: Difference, indent: str = "    ") -> None:
    """Print the path with the reason, then the expected (-) and the actual value (+), if there are any."""
    place = difference.path or "output"
    block(f"{place}: {difference.why}" if difference.why else place, indent=indent, max_chars=MAX_CHARS)
    if difference.expected is UNSET and difference.actual is UNSET:
        return
    for sign, value in (("-", difference.expected), ("+", difference.actual)):
        text = "(nothing)" if value is UNSET else json.dumps(value, ensure_ascii=False)
        block(f"{sign} {text}", indent=indent, max_chars=MAX_CHARS)


# Pairs of subjects of one run.


def print_pairs(run: Run) -> None:
    """Print comparisons of a run's subjects, on the cases that both have.

    Every later subject is compared with the first one by all metrics of the report. Other pairs are compared by the
    first metric only, to keep the table short, and not at all if there are many subjects.
    """
    assert run.report is not None
    titles: dict[str, str] = {}
    references = set()
    for entry in run.report.entries:
        titles.setdefault(entry.subject or entry.name, entry.title)
        if entry.reference:
            references.add(entry.subject or entry.name)
    subjects = list(titles)
    if len(subjects) < 2 or run.exit_code == 130:
        return
    from assay.runner import api

    labels = _metric_names(_main_metrics(entry) for entry in run.report.entries)
    for entry in run.report.entries:
        for metric in entry.metrics:
            if metric.aggregation == POOLED and metric.name in labels:
                unit = entry.answered.unit if entry.answered else "case"
                labels[metric.name] = f"{metric_title(metric)}, mean of {unit}s"
    rows = []
    try:
        # The pairs of ten settings of a sweep would be 45.
        for position in range(len(subjects) - 1 if len(subjects) <= _MAX_PAIRED else 1):
            others = [name for name in subjects[position + 1 :] if position == 0 or name not in references]
            if position and (subjects[position] in references or not others):
                continue
            sides = [f"{run.folder}@{name}" for name in (subjects[position], *others)]
            for pair in api.compare(sides, flips=0).comparisons:
                # In the order of the main table. Scores that are not in the report are shown by `assay compare`.
                chosen = [row for name in labels for row in pair.rows if row.metric == name]
                chosen = chosen or pair.rows[:1]
                for row in chosen if position == 0 else chosen[:1]:
                    names = [titles.get(side.subject, side.subject) for side in (pair.base, pair.new)]
                    rows.append([*names, labels.get(row.metric, plain(row.metric)), *pair_cells(row)])
    except UsageError as error:  # the comparison is an extra, so its failure must not fail the run
        block(f"not compared: {error}", indent="")
        return
    table(["base", "new", "score", *PAIR_COLUMNS], rows, names=3)
    click.echo(f"case by case: assay compare {run.folder}")
    click.echo()


# Sections and overviews.


def print_sections(sections: Iterable[Section]) -> None:
    """Print sections: headings, texts and tables, indented. A blank line follows each table."""
    after_table = False
    for section in sections:
        if after_table:
            click.echo()
        indent = "  " * section.indent
        if section.heading:
            heading(f"{indent}{section.heading}")
        if section.text:
            block(section.text, indent=f"{indent}  " if section.heading else indent, max_chars=section.max_chars)
        after_table = section.table is not None and bool(section.table.rows)
        if section.table is not None and after_table:
            print_table(section.table)


def _planned_cost(overview: Overview) -> str:
    """Return the price of all planned calls in a sentence, with what is missing and what it is computed from."""
    unknown = [planned for planned in overview.calls if planned.cost is None]
    if len(unknown) == len(overview.calls):
        return f"cost: unknown ({', '.join(dict.fromkeys(planned.no_cost for planned in unknown))})"
    total = dollars(sum(planned.cost or 0.0 for planned in overview.calls))
    missing = "; ".join(dict.fromkeys(f"{planned.what} ({planned.no_cost})" for planned in unknown))
    without = f" Not in it: {missing}." if missing else ""
    return f"cost: about {total} for the estimated tokens above, without retries.{without} Prices: {overview.prices}"


def print_overview(overview: Overview) -> None:
    """Print the plan of a run, for `--dry-run`."""
    if overview.facts:
        table(["what", ""], [[name, value] for name, value in overview.facts.items()])
        click.echo()
    if overview.calls:
        rows: list[list[Any]] = []
        is_priced = any(planned.cost is not None for planned in overview.calls)
        for planned in overview.calls:
            tokens = [planned.calls, planned.input_tokens, planned.output_tokens]
            row = [planned.what, planned.model, *("unknown" if n is None else f"{n:,}" for n in tokens)]
            rows.append([*row, dollars(planned.cost)] if is_priced else row)
        header = ["calls for", "model", "calls", "tokens in (est.)", "tokens out (est.)"]
        table([*header, "cost (est.)"] if is_priced else header, rows, names=2)
        if overview.prices:
            click.echo(_planned_cost(overview))
        click.echo()
    print_sections(overview.sections)
    if overview.sections:
        click.echo()
    click.echo("Dry run: no requests sent, no files written.")
