"""Earlier scorings of a run: their numbers and result files stay readable after the run was scored again.

A run that is scored again, by `assay rescore` or because a metric or a judge has changed, gets new scores in the
journal, which also keeps the old ones, and new result files. Before these are written, the old files are copied:

    RUN/earlier/<score fingerprint>/summary.json       state, report and scorers, as they were
    RUN/earlier/<score fingerprint>/files/...           the result files
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from assay.core.errors import DamagedRun, Problem, cannot_write
from assay.core.hashing import file_sha256
from assay.files.plain_files import is_plain
from assay.files.write import own_temporary
from assay.journal.lines import run_id
from assay.journal.run_files import Summary, read_summary, write_summary_at

EARLIER = "earlier"


class EarlierScoring(NamedTuple):
    """One earlier scoring: its folder, and its summary with the report."""

    folder: Path
    summary: Summary

    @property
    def numbers(self) -> str:
        """`exact_match 1.000 3/3; …`, the first metric of each entry."""
        entries = self.summary.report.entries if self.summary.report else []
        numbers = [str(metric) for entry in entries for metric in entry.metrics[:1]]
        return "; ".join(numbers) or "no numbers"


def keep_scoring(run: Path, summary: Summary) -> Summary:
    """Copy the result files and the summary of a scoring that is about to be replaced. Raises StopRun on a full disk.

    Returns the summary with the copies in place of the result files. A result file that was changed or overwritten
    since is left out: it no longer has these scores. A copy that an earlier start made stays: that start was killed,
    and may have replaced the result file itself.
    """
    if not summary.score.isalnum():  # a forged summary must not name a folder elsewhere
        raise DamagedRun(Problem(str(run / "summary.json"), f"{summary.score!r} is no fingerprint of a scoring"))
    target = run / EARLIER / summary.score
    copies: dict[str, str] = {}
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name in summary.files:
            path = Path(name)
            digest = summary.digests.get(name)
            if digest is None:
                continue
            copy = path if is_kept(run, path) else target / "files" / _relative(path, run)
            if not is_plain(copy) or file_sha256(copy) != digest:
                if not path.is_file() or digest != file_sha256(path):
                    continue
                copy.parent.mkdir(parents=True, exist_ok=True)
                temporary = own_temporary(copy)
                shutil.copyfile(path, temporary)
                temporary.replace(copy)
            copies[str(copy)] = digest
    except OSError as error:
        raise cannot_write(error.filename2 or error.filename or target, error) from error
    kept = replace(summary, files=list(copies), digests=copies, newest="", scoring_again=False)
    # Written last: a folder without it is the rest of a start that was killed.
    write_summary_at(target, replace(kept, digests={}), run_id(run))
    return kept


def is_kept(run: Path, path: Path) -> bool:
    """Return whether a result file is the copy that `keep_scoring` made of one."""
    return (run / EARLIER).absolute() in path.absolute().parents


def earlier_scorings(run: Path, score: str) -> list[EarlierScoring]:
    """Return the scorings of a run before the one with the fingerprint `score`, the oldest first."""
    scorings = []
    summaries = sorted((run / EARLIER).glob("*/summary.json"), key=lambda path: path.lstat().st_mtime_ns)
    for path in summaries:
        with suppress(DamagedRun):
            summary = read_summary(path.parent, run=run_id(run))
            # After a change back and forth, a kept scoring is the present one again.
            if summary is not None and summary.score != score:
                scorings.append(EarlierScoring(path.parent, summary))
    return scorings


def _relative(path: Path, run: Path) -> Path:
    """Return a result file's path below the run folder or below the output folder, which is OUTPUT/assay/RUN."""
    for base in (run, run.parent.parent):
        with suppress(ValueError):
            relative = path.absolute().relative_to(base.absolute())
            if ".." not in relative.parts:
                return relative
    return Path(path.name)
