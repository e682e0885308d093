"""Shows how a run goes on: a bar on a terminal, a line every few seconds elsewhere, nothing when quiet."""

from __future__ import annotations

import sys
import time
from typing import Any

import click

from assay.cli.screen import counted, duration, tell
from assay.core.events import Called, Ended, Event, Finished, Noted, Notify, Retrying, Started, Stopping

_EVERY_SECONDS = 5.0
_BAR_SECONDS = 0.1
_MANY = 10
"""Calls of a case, from which on they are told too."""


class Progress:
    """Counts events, and shows the counts now and then. Costs nothing between two looks at the clock."""

    def __init__(self) -> None:
        self.total = self.done = self.fresh = 0
        self.errors = self.retries = 0
        self.calls = self.input = self.output = 0
        self._begun = time.monotonic()
        self._shown = self._begun
        self._every = _EVERY_SECONDS

    def __call__(self, event: Event) -> None:
        kind = type(event)
        if kind is Called:
            self.calls += 1
            usage = event.usage  # type: ignore[union-attr]
            if usage:
                self.input += usage.input
                self.output += usage.output
        elif kind is Ended:
            self._ended(event)
        elif kind is Retrying:
            self.retries += 1
        else:
            self._rare(event)
        if (now := time.monotonic()) - self._shown >= self._every:
            self._shown = now
            self.show()

    def _ended(self, event: Any) -> None:
        self.done += 1
        self.fresh += 1
        self.errors += event.end.status != "ok"

    def _rare(self, event: Event) -> None:
        if isinstance(event, Started):
            self.total, self.done = event.total, event.done
            self.begin()
        elif isinstance(event, Noted):
            self.note(event.text)
        elif isinstance(event, Stopping):
            self.note("stopping: letting running calls finish; Ctrl-C leaves at once")
        elif isinstance(event, Finished):
            self.finish()

    @property
    def rate(self) -> float:
        """Cases a second in this start."""
        return self.fresh / max(1e-9, time.monotonic() - self._begun)

    def line(self) -> str:
        """Everything in one line."""
        parts = [f"{self.done:,}/{self.total:,}", f"{self.rate:,.1f}/s"]
        if self.calls > _MANY * max(1, self.fresh):  # long cases: something moves before one ends
            parts.append(counted(self.calls, "call"))
        if self.errors:
            parts.append(counted(self.errors, "error"))
        if self.retries:
            parts.append(counted(self.retries, "retry", "retries"))
        if self.input or self.output:
            parts.append(f"{self.input:,} tokens in, {self.output:,} out")
        if self.fresh and self.done < self.total:
            parts.append(f"{duration((self.total - self.done) / self.rate)} left")
        return " · ".join(parts)

    def begin(self) -> None:
        """The total is known."""
        self._begun = time.monotonic()
        if self.done:
            self.note(f"continuing: {self.done:,} of {counted(self.total, 'case')} are done")

    def note(self, text: str) -> None:
        """Something to read once."""
        tell(text)

    def show(self) -> None:
        """The counts as they are now."""
        click.echo(self.line(), err=True)

    def finish(self) -> None:
        """Nothing more will come."""


class Bar(Progress):
    """The same counts as a bar that stays in its line."""

    def __init__(self) -> None:
        super().__init__()
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._every = _BAR_SECONDS
        self._bar = RichProgress(
            BarColumn(bar_width=30),
            TextColumn("{task.description}"),
            console=Console(stderr=True),
            auto_refresh=False,
        )
        self._task: Any = None

    def begin(self) -> None:
        """Draw the empty bar."""
        super().begin()
        self._bar.start()
        self._task = self._bar.add_task("", total=self.total or 1, completed=self.done)

    def note(self, text: str) -> None:
        """Above the bar."""
        self._bar.console.print(text, markup=False, highlight=False)

    def show(self) -> None:
        """Redraw."""
        self._bar.update(self._task, completed=self.done, description=self.line())
        self._bar.refresh()

    def finish(self) -> None:
        """Leave the last state on the screen."""
        self.show()
        self._bar.stop()


def observers(*, quiet: bool) -> list[Notify]:
    """What watches a run, by where its output goes."""
    if quiet:
        return []
    return [Bar() if sys.stderr.isatty() else Progress()]
