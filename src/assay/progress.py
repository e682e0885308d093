"""Prints the progress of a run on stderr: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import click

from assay.core.dollars import dollars
from assay.core.events import (
    Called,
    Computing,
    Ended,
    Event,
    Finished,
    Noted,
    Notify,
    Retrying,
    Started,
    Stopping,
    Waiting,
)
from assay.screen import counted, duration, safe, stderr_for_bars, tell

# Seconds between two lines in a log.
LINE_SECONDS = 5.0
# Seconds between two redraws of the bar.
BAR_SECONDS = 0.1
# Seconds of reading a run before that is told.
READING_SECONDS = 1.0
# A wait before a retry that is shorter than this is not told.
LONG_WAIT_SECONDS = 5.0
# With more calls per case than this, the line counts calls too: a case of a memory suite may take minutes.
MANY_CALLS = 10
# Calls after which the clock is looked at, as after each end of a case.
_LOOK_EVERY = 10
# Seconds without the end of a call before the line says that it waits. Most models answer sooner.
WAITING_SECONDS = 5.0


class Progress:
    """Counts events and prints the counts in intervals. It is called for every event, so most calls only add."""

    def __init__(self) -> None:
        self.total = self.done = self.fresh = 0
        self.errors = self.retries = 0
        self.calls = self.input = self.output = 0
        self.waiting = Waiting(0, 0, 0.0)
        self.computing = Computing(0, 0, 0, 0.0)
        self._is_shown = False
        self.cost: float | None = None
        self._started = time.monotonic()
        self._last_shown = self._started
        self._interval = LINE_SECONDS
        self._waits: dict[str, float] = {}  # by endpoint: when the wait ends that was told last

    def __call__(self, event: Event) -> None:
        kind = type(event)
        if kind is Called:
            self.calls += 1
            usage = event.usage  # type: ignore[union-attr]
            if usage:
                self.input += usage.input
                self.output += usage.output
            if event.cost is not None and not event.replayed:  # type: ignore[union-attr]
                self.cost = (self.cost or 0.0) + event.cost  # type: ignore[union-attr]
            if self.calls % _LOOK_EVERY:
                return  # without a look at the clock: most calls are followed by the end of their case
        elif kind is Ended:
            self.done += 1
            self.fresh += 1
            self.errors += event.end.status != "ok"  # type: ignore[union-attr]
        elif kind is Retrying:
            self.retries += 1
            if event.wait >= LONG_WAIT_SECONDS:  # type: ignore[union-attr]
                self._tell_wait(event)  # type: ignore[arg-type]
        else:
            self._handle_rare_event(event)
        if (now := time.monotonic()) - self._last_shown >= self._interval and self._is_shown:
            self._last_shown = now
            self.show()

    def _handle_rare_event(self, event: Event) -> None:
        if isinstance(event, Waiting):
            self.waiting = event
        elif isinstance(event, Computing):
            self.computing = event
        elif isinstance(event, Started):
            self.total, self.done = event.total, event.done
            self.begin()
            self._is_shown = True
        elif isinstance(event, Noted):
            self.note(event.text)
        elif isinstance(event, Stopping):
            self.note("Stopping. Waiting for open requests; press Ctrl-C to quit now.")
        elif isinstance(event, Finished):
            self.waiting = Waiting(0, 0, 0.0)
            self.computing = Computing(0, 0, 0, 0.0)
            self.finish()
            self._is_shown = False

    def _tell_wait(self, event: Retrying) -> None:
        """Say for whom and how long calls wait: once while several calls wait for the same endpoint."""
        now = time.monotonic()
        endpoint = event.failure.message.partition(" ")[0]  # messages begin with the endpoint's address
        if now >= self._waits.get(endpoint, 0.0):
            self._waits[endpoint] = now + event.wait
            self.note(f"waiting {duration(event.wait)}: {event.failure.message}")

    @property
    def rate(self) -> float:
        """Cases per second in this start."""
        return self.fresh / max(1e-9, time.monotonic() - self._started)

    def line(self) -> str:
        """Return all counts in one line."""
        parts = [f"{self.done:,}/{self.total:,}", f"{self.rate:,.1f}/s"]
        if self.calls > MANY_CALLS * max(1, self.fresh):
            parts.append(counted(self.calls, "call"))
        if self.errors:
            parts.append(counted(self.errors, "error"))
        if self.retries:
            parts.append(counted(self.retries, "retry", "retries"))
        if self.input or self.output:
            parts.append(f"{self.input:,} tokens in, {self.output:,} out")
        if self.cost is not None:
            parts.append(dollars(self.cost))
        parts += self._open_calls()
        if self.fresh and self.done < self.total:
            parts.append(f"{duration((self.total - self.done) / self.rate)} left")
        return " · ".join(parts)

    def _open_calls(self) -> list[str]:
        """Return what is known about calls that have not ended: tokens of models in this process, else the time."""
        read, prompt, written, per_second = self.computing
        if written:
            return [f"{counted(written, 'token')} so far", f"{per_second:,.0f} tokens/s"]
        if read < prompt:
            return [f"reading {read:,} of {counted(prompt, 'token')}"]
        calls, paused, seconds = self.waiting
        if seconds < WAITING_SECONDS or not calls + paused:
            return []
        parts = [f"waiting for {counted(calls, 'request')}, {duration(seconds)}"] if calls else []
        if paused:
            parts.append(f"{counted(paused, 'request')} to be repeated")
        return parts

    def begin(self) -> None:
        """Called when the number of cases is known."""
        self._started = time.monotonic()
        if self.done:
            self.note(f"continuing: {self.done:,} of {counted(self.total, 'case')} done")

    def note(self, text: str) -> None:
        """Print a sentence."""
        tell(text)

    def show(self) -> None:
        """Print the counts."""
        tell(self.line())

    def finish(self) -> None:
        """Called when the run ends."""


class Bar(Progress):
    """Shows the same counts as a progress bar."""

    def __init__(self) -> None:
        super().__init__()
        # Imported here because rich takes 60 ms to import.
        from rich.console import Console
        from rich.progress import BarColumn, Progress as RichProgress, TextColumn

        self._interval = BAR_SECONDS
        self._bar = RichProgress(
            BarColumn(bar_width=30),
            TextColumn("{task.description}"),
            console=Console(file=stderr_for_bars()),
            auto_refresh=False,
        )
        self._task: Any = None

    def begin(self) -> None:
        """Draw the empty bar."""
        super().begin()
        self._bar.start()
        self._task = self._bar.add_task("", total=self.total or 1, completed=self.done)

    def note(self, text: str) -> None:
        """Print a sentence above the bar."""
        self._bar.console.print(safe(text, keep="\n\t"), markup=False, highlight=False)

    def show(self) -> None:
        """Redraw the bar."""
        self._bar.update(self._task, completed=self.done, description=self.line())
        self._bar.refresh()

    def finish(self) -> None:
        """Leave the last state on the screen."""
        self.show()
        self._bar.stop()


class ReadingBar:
    """Tells on a terminal how much of a large run was read. Silent in the first second, which is enough for most."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._next_time = 0.0
        self._is_shown = False

    def __call__(self, folder: Path, share: float) -> None:
        now = time.monotonic()
        if folder != self._folder:
            self._folder, self._next_time = folder, now + READING_SECONDS
        if share == 1.0:
            self._folder = None
            if self._is_shown:
                self._print("")
        elif now >= self._next_time:
            self._next_time = now + BAR_SECONDS
            self._print(f"reading {folder.name}, once: {share:.0%}")

    def _print(self, text: str) -> None:
        self._is_shown = bool(text)
        # The escape sequence clears the rest of the line.
        click.echo(f"\r{safe(text)}\x1b[K", file=stderr_for_bars(), nl=False)


def observers(*, quiet: bool) -> list[Notify]:
    """Return the observers that print a run's progress: none if `quiet`."""
    if quiet:
        return []
    return [Bar() if sys.stderr.isatty() else Progress()]
