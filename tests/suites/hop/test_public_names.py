"""`assay.hop`: the names that HOP's documents print, importable from one place."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.commands import environment
from support.hop_batch import Batch, as_lines

NAMES = """
import assay
import assay.hop
from assay.hop import BaseDataStore, BaseService, FieldAggregation, HopletObserver, HopStatus, ViewConfig

store = assay.hop.data_store("results")
print(store.load_results(), assay.hop.analyse("results").entries[0].name, HopStatus.OK)
"""


def test_the_documents_names_are_importable_from_one_place(tmp_path: Path) -> None:
    """Also after a plain `import assay`."""
    (tmp_path / "results").mkdir()
    line = {"id": 1, "tag": "t", "hop_result": "{}", "hop_stats": {"status": "OK"}, "profile": "p"}
    (tmp_path / "results" / "r.jsonl").write_text(as_lines([line]))
    done = subprocess.run(
        [sys.executable, "-c", NAMES],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "1 p OK\n", done.stderr


def test_building_the_suite_reads_no_row(tmp_path: Path) -> None:
    """A worker builds it without the data."""
    import assay
    from assay.suites.hop.suite import HopSuite

    batch = Batch(tmp_path)
    (tmp_path / "rows.jsonl").unlink()
    spec = assay.spec("hop", target=f"{batch.folder}/hop.py:hop", data=f"{batch.folder}/rows.jsonl")
    suite = HopSuite(spec)
    assert suite.ask_identity()["code"]
    assert list(suite.subjects()) == ["default"]
