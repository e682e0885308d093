"""A suite of a user's own is named by its file."""

from __future__ import annotations

from pathlib import Path

from servers.fake_openai import FakeOpenAI
from support.commands import CHAIN, Job


def runs_below(out: Path) -> list[str]:
    """The names of the run folders."""
    return sorted(path.parent.name for path in out.glob("assay/*/run.json"))


def test_suite_named_by_path_is_known_by_its_content(tmp_path: Path) -> None:
    """Moving the file changes nothing; another content is another run beside the first."""
    out = tmp_path / "out"
    with FakeOpenAI() as server:
        options = [f"base_url={server.url}", f"output_dir={out}", "cases=2"]
        assert Job([str(CHAIN), *options], out).run().code == 0
        (first,) = runs_below(out)
        assert first.rsplit("-", 2)[1] == "chain"
        copy = tmp_path / "chain.py"
        copy.write_text(CHAIN.read_text())
        assert Job([str(copy), *options], out).run().code == 0
        assert runs_below(out) == [first]
        copy.write_text(CHAIN.read_text() + "# changed\n")
        assert Job([str(copy), *options], out).run().code == 0
        assert len(runs_below(out)) == 2
