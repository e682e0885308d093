"""`assay label`: a person labels the answers of a run in the terminal, without seeing what the judge said."""

from __future__ import annotations

import getpass
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from assay.cli.code_option import code_option
from assay.cli.completion import complete_runs
from assay.core.errors import UsageError
from assay.store.render.screen import block, counted, heading, rule, tell

if TYPE_CHECKING:
    from assay.core.suite_pages import GradedAnswer
    from assay.store.labels import AnswerPlace, Answers, RunLabels

# Longer texts are cut; the key m shows them in full.
MAX_CHARS = 3000
KEYS = "y right · n wrong · s skip · u undo · m whole text · ? help · q quit"
HELP = """\
  y  the answer is right: it says what the reference says, in any words
  n  the answer is wrong: it says something else, leaves out or makes up something
  s  skip this answer; the next start of the command shows it again
  u  undo: remove the last label of this session, or go back to the answer that was just skipped
  m  print the whole text, if it was cut
  q  quit; all labels are saved, and the same command continues"""


@click.command("label", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("run", metavar="RUN", shell_complete=complete_runs)
@click.option(
    "--metric",
    default="",
    metavar="NAME",
    help="Label answers with this score: METRIC or METRIC,FILTER. [default: that of the judge, else the first]",
)
@click.option("--sample", type=click.IntRange(min=1), metavar="N", help="Label a random sample of N answers.")
@click.option(
    "--balance",
    is_flag=True,
    help="With --sample: as many answers that the judge accepts as answers that it rejects.",
)
@click.option("--seed", type=int, default=0, show_default=True, help="Another seed gives another sample and order.")
@click.option("--by", default="", metavar="NAME", help="Your name in the file of labels. [default: your login name]")
@code_option
def command(run: str, metric: str, sample: int | None, balance: bool, seed: int, by: str) -> int:
    """Label the answers of a run as right or wrong, one key each. The judge's verdicts stay hidden.

    The answers come in random order with question and reference, and without the name of the model. Every label is
    saved at once in labels.jsonl in the run folder; the same command continues where you stopped. At the end the
    command prints how often you and the scores of the run agree. `assay judge calibrate --labels RUN` measures any
    judge against your labels.

    \b
    Examples:
      assay label results --sample 50
      assay label results --sample 50 --balance --by ann
      assay label results --metric exact_match
      assay judge calibrate --judge openai/NAME --labels results
    """
    if balance and sample is None:
        raise UsageError("--balance needs --sample N: it says which answers are in the sample")
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise UsageError(
            "assay label reads single keys from a terminal, and this is none. For labels that exist already, pass "
            "their file to `assay judge calibrate --labels FILE`"
        )
    # Imported here because completion and --help need none of them.
    from assay.runner import api
    from assay.runner.results import load
    from assay.store.labels import RunLabels, choose_answers

    loaded = load(run)
    answers = choose_answers(
        loaded.folder,
        api.suite_pages(loaded.info.suite, tell).graded_answers,
        metric=metric,
        sample=sample,
        seed=seed,
        balance=balance,
    )
    labels = RunLabels(loaded.folder, by or _login_name())
    try:
        with _single_keys():
            complete = _label_all(answers, labels)
        _print_end(answers, labels, str(loaded.folder), complete=complete)
    finally:
        labels.close()
    return 0


@contextmanager
def _single_keys() -> Iterator[None]:
    """Let the terminal send every key at once and print none. Ctrl-C still interrupts the command."""
    before = termios.tcgetattr(sys.stdin.fileno())
    tty.setcbreak(sys.stdin.fileno(), termios.TCSADRAIN)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin.fileno(), termios.TCSADRAIN, before)


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container whose user has no name
        raise UsageError("your login has no name; pass one with --by NAME") from None


def _label_all(answers: Answers, labels: RunLabels) -> bool:
    """Show one answer after the other and save the labels. Returns False if the person quits or skips an answer."""
    places = answers.places
    open_places = [place for place in places if place.key not in labels.labels]
    total, before = len(places), len(places) - len(open_places)
    heading(f"{counted(total, 'answer')} to label for {answers.metric}, as {labels.by}")
    if before:
        click.echo(f"labelled before: {before:,}")
    click.echo(KEYS)
    position = 0
    steps: list[int | None] = []  # for undo: the position of a skipped answer, None for a label
    while position < len(open_places):
        place = open_places[position]
        done = sum(place.key in labels.labels for place in places)
        answer = answers.read(place)
        # A key that was typed before the answer is on the screen cannot be about it.
        termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)
        _print_answer(answer, f"{done + 1:,} of {total:,}")
        match _ask(answer):
            case "y" | "n" as key:
                labels.add(place, answer, right=key == "y")
                steps.append(None)
                position += 1
            case "s":
                steps.append(position)
                position += 1
            case "u":
                skipped = steps.pop() if steps else None
                position = _undo(open_places, labels, position) if skipped is None else skipped
            case _:
                return False
    return all(place.key in labels.labels for place in places)


def _ask(answer: GradedAnswer) -> str:
    """Return the key that decides about an answer: y, n, s, u or q. Other keys only print something."""
    while True:
        click.echo(click.style("right? [y/n/s/u/m/?/q] ", bold=True), nl=False)
        # An arrow key sends several characters at once. Only the first one counts. No character is a closed terminal.
        key = os.read(sys.stdin.fileno(), 32).decode(errors="replace")[:1].lower() or "q"
        words = {"y": "right", "n": "wrong", "s": "skipped", "u": "undo", "q": "quit", "\x04": "quit"}
        click.echo(words.get(key, ""))
        if key in words:
            return "q" if key == "\x04" else key
        if key == "m":
            _print_answer(answer, "whole text", max_chars=None)
        else:
            click.echo(HELP)


def _undo(places: list[AnswerPlace], labels: RunLabels, position: int) -> int:
    """Remove the last label and return the position of its answer, which is shown again."""
    key = labels.undo()
    if key is None:
        click.echo("there is no label of this session to undo")
        return position
    return next(number for number, place in enumerate(places) if place.key == key)


def _print_answer(answer: GradedAnswer, title: str, max_chars: int | None = MAX_CHARS) -> None:
    """Print the texts to decide on. Neither the score nor the model is printed: both would influence the label."""
    rule()
    click.echo(click.style(title, dim=True))
    texts = {"rubric": answer.rubric} if answer.rubric else {"question": answer.question}
    texts |= {"reference": answer.reference, "text" if answer.rubric else "answer": answer.response}
    for name, text in texts.items():
        if text or name == "answer":
            heading(name)
            block(text or "(empty)", max_chars=max_chars)


def _print_end(answers: Answers, labels: RunLabels, folder: str, *, complete: bool) -> None:
    from assay.store.labels import agreement_with_scores

    done = [place for place in answers.places if place.key in labels.labels]
    rule()
    if not complete:
        # The agreement so far would tell something about the answers that are still to be labelled.
        total = counted(len(answers.places), "answer")
        tell(f"{len(done):,} of {total} labelled. The same command shows the others.")
        return
    result = agreement_with_scores(labels.labels, done)
    click.echo(f"{counted(len(done), 'answer')} labelled in {labels.path}")
    if not result.n:
        click.echo(f"{answers.metric} has no right or wrong here, so there is no agreement to compute")
    else:
        agreed = round((result.accuracy or 0) * result.n)
        kappa = "undefined (all labels or all scores are alike)" if result.kappa is None else f"{result.kappa:.2f}"
        between = f" ({result.interval[0]:.2f}–{result.interval[1]:.2f})" if result.interval else ""
        click.echo(f"you and {answers.metric} agree on {agreed:,} of {result.n:,}, kappa {kappa}{between}")
        for name, share in (
            ("right for the score, wrong for you", result.false_accepts),
            ("wrong for the score, right for you", result.false_rejects),
        ):
            click.echo(f"  {name}: {share.count:,} of {share.of:,}")
        if result.invalid:
            click.echo(f"  without a valid score: {result.invalid:,}")
    click.echo(f"measure a judge against all labels: assay judge calibrate --judge NAME --labels {folder}")
