"""`assay memory test` on the screen: scores with their denominators, a curve, categories, pairs, files."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.commands import typed
from support.memory_talks import Talks, talk


@pytest.fixture
def words(tmp_path: Path) -> list[str]:
    talks = Talks(tmp_path, talk(4, "a"), talk(6, "b"))
    model = f"python/{tmp_path}/model.py:answer"
    data = ["--dataset", "plain", "--data", f"{tmp_path}/talks.json", "--model", model]
    return ["memory", "test", *data, "--memory", f"{talks.own},none", "--output-dir", f"{tmp_path}/out"]


def test_the_report(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """A yardstick is called one; a score has its interval and the number of its questions."""
    assert typed(*words, "--segments", "2") == 0
    lines = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["own", "1.000", "±0.000", "10", "1.000", "±0.000", "10", "1.000", "±0.000", "10"] in [
        line[:10] for line in lines
    ]
    assert any(line[:2] == ["none", "(reference)"] for line in lines)
    assert ["own", "██", "1.000", "→", "1.000"] in lines
    assert any(line[:3] == ["own", "none", "evidence"] and "worse" in line for line in lines)
    assert any(line[:2] == ["own", "plain"] for line in lines)


def test_a_second_time_shows_the_same(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    """Nothing is asked, and the files are found."""
    assert typed(*words) == 0
    first = capsys.readouterr().out.partition("\n4 of 4 cases")
    assert typed(*words) == 0
    second = capsys.readouterr().out.partition("\n4 of 4 cases")
    assert first[:2] == second[:2]
    assert "nothing asked\nfound " in second[2]


def test_what_is_missing_is_told(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert typed(*words[:-4], "--output-dir", "x") == 2
    assert "no memory is named; --memory takes FUMemory, " in capsys.readouterr().err
