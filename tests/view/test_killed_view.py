"""The view itself is killed while a batch that it started is running."""

from __future__ import annotations

import os
import re
import signal
import time
import urllib.request
from pathlib import Path
from urllib.parse import urlencode

from assay.store.runs import is_locked, run_folders
from view.hop.test_pages import words_of

from support.hop_task import write_task
from support.web import serving

BATCH = "/hop/batch/Tasks/Verify"
SECONDS = 60.0


def ask(address: str, form: dict[str, str] | None = None) -> str:
    """The page at an address, or the one that is shown after a form was sent."""
    data = urlencode(form).encode() if form else None
    with urllib.request.urlopen(address, data) as response:
        return str(response.read().decode())


def until(address: str, *parts: str) -> str:
    """Look at the batch until its page has all these texts."""
    end = time.monotonic() + SECONDS
    while True:
        text = words_of(ask(address + BATCH))
        if all(part in text for part in parts):
            return text
        assert time.monotonic() < end, text
        time.sleep(0.1)


def test_a_batch_goes_on_after_kill_9_and_the_next_view_finds_it(tmp_path: Path) -> None:
    task = write_task(tmp_path / "Tasks" / "Verify", rows="plain wait plain raise")
    try:
        with serving(tmp_path) as view:
            token = re.search(r'name="token" value="([^"]+)"', ask(view.address + BATCH))
            assert token is not None
            form = {"token": token[1], "do": "start", "file": "rows.jsonl", "workers": "2"}
            ask(view.address + BATCH, form)
            until(view.address, "3/4 (75%) 1 errors")
            os.kill(view.process, signal.SIGKILL)
        (run,) = run_folders(task)
        assert is_locked(run)
        with serving(tmp_path) as first, serving(tmp_path) as second:
            for view in (first, second):
                assert "Running batch running" in until(view.address, "3/4 (75%) 1 errors", "Stop")
            (task / "gate").touch()
            for view in (first, second):
                until(view.address, "4/4 (100%) 1 errors -- Done: rows_")
    finally:
        (task / "gate").touch()  # nothing waits after a test that failed
    (output,) = (task / "TestCases").glob("rows_*.jsonl")
    assert len(output.read_text().splitlines()) == 5
