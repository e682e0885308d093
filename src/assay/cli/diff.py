"""`assay diff`: shows two cases beside each other, with the words or lines in which their texts differ."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.render.screen import block, heading, safe, table

if TYPE_CHECKING:
    from assay.core.suite_pages import StoredCase
    from assay.store.render.case_diff import CaseDiff, TextPair
    from assay.store.render.flips import Change

# A text that is the same in both cases is cut; `assay show RUN CASE` prints it in full.
MAX_SAME = 300
# Characters of one line that differs.
MAX_CHARS = 4000
_COLOURS = {"removed": "red", "added": "green"}
_TAB = "\t"


@click.command("diff", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("names", nargs=-1, metavar="RUN CASE [RUN] CASE", shell_complete=complete_runs)
@click.option("--markdown", is_flag=True, help="Print Markdown, for a pull request or an issue.")
def command(names: tuple[str, ...], markdown: bool) -> int:
    """Show two cases of one run or of two runs: prompts as sent, replies, answers, failures and scores.

    Short texts are compared word by word, long ones line by line. `[-…-]` stands only in the left case, `{+…+}` only
    in the right one; a terminal shows them in colours. RUN and CASE are what `assay show` takes; `@4` is the case at
    position 4.

    \b
    Examples:
      assay diff results-before 17 results-now 17
      assay diff results "row 4 with fast" "row 4 with slow"
      assay diff results @0 @1 --markdown
    """
    if len(names) not in (3, 4):
        raise UsageError("name two cases: assay diff RUN CASE RUN CASE, or assay diff RUN CASE CASE for one run")
    left_run, left_case, right_case = names[0], names[1], names[-1]
    right_run = names[2] if len(names) == 4 else left_run
    # Imported here because completion and --help need neither.
    from assay.store.cases import RunCases
    from assay.store.render.case_diff import compare_cases
    from assay.store.render.markdown import case_diff_markdown
    from assay.store.runs import find_run

    stored_cases, titles = [], []
    for run, case in ((left_run, left_case), (right_run, right_case)):
        cases = RunCases(find_run(run))
        stored = cases.find(case)
        stored_cases.append(stored._replace(calls=cases.calls(stored.end.index)))
        titles.append(f"{cases.folder.name} · {_case_title(stored)}")
    diff = compare_cases(*stored_cases)
    if markdown:
        click.echo(case_diff_markdown(diff, titles), nl=False)
    else:
        print_diff(diff, titles)
    return 0


def _case_title(case: StoredCase) -> str:
    end = case.end
    label = f"{end.label} with {end.subject}" if end.label else end.subject
    return " · ".join((f"case {end.index}", f"{end.set}/{end.case}", label, end.status))


def print_diff(diff: CaseDiff, titles: list[str]) -> None:
    """Print both titles, then each text with its changes, then the scores."""
    colours = sys.stdout.isatty()
    for sign, colour, title in (("-", "red", titles[0]), ("+", "green", titles[1])):
        line = safe(f"{sign} {title}")
        click.echo(click.style(line, fg=colour) if colours else line)
    if not diff.same_row:
        click.echo("these are different rows of the data")
    for pair in diff.texts:
        click.echo()
        if pair.same:
            heading(f"{pair.name}: the same")
            block(pair.left or "", max_chars=MAX_SAME)
            continue
        only = "" if None not in (pair.left, pair.right) else f": only {'left' if pair.right is None else 'right'}"
        heading(f"{pair.name}{only}")
        _print_changes(pair, colours=colours)
    click.echo()
    if diff.scores.rows:
        table(*diff.scores)
    else:
        click.echo("neither case has a score")


def _print_changes(pair: TextPair, *, colours: bool) -> None:
    words = [] if pair.by_line else pair.words
    if words:
        for line in "".join(_marked(change, colours=colours) for change in words).split("\n"):
            click.echo(f"  {line}")
        return
    for kind, text in pair.lines:
        sign = {"same": " ", "removed": "-", "added": "+"}[kind]
        more = f"… ({len(text):,} characters)" if len(text) > MAX_CHARS else ""
        line = f"  {sign} {safe(text[:MAX_CHARS], keep=_TAB)}{more}"
        click.echo(click.style(line, fg=_COLOURS.get(kind)) if colours else line)


def _marked(change: Change, *, colours: bool) -> str:
    """Return a piece of a text with its mark: a colour, or brackets where there are no colours."""
    kind, text = change.kind, safe(change.text, keep="\n\t")
    if kind == "same":
        return text
    words = text.rstrip() or text
    if colours:
        # A removed word is also struck through, because some people do not see the colours.
        marked = click.style(words, fg=_COLOURS[kind], strikethrough=kind == "removed" or None)
    else:
        marked = f"[-{words}-]" if kind == "removed" else f"{{+{words}+}}"
    return marked + text[len(words) :]
