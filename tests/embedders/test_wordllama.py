"""The offline embedder, as it is installed."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from assay.core import registry
from assay.core.errors import MissingExtra, UsageError
from assay.embedders import wordllama

TEXTS = [
    "She adopted a puppy",
    "a dog",
    "the stock market fell",
    "",
    "猫",
    "🙂 naïve",
    "  ",
    "\x00",
    "half \ud83d",
]


def test_it_is_found_by_name_and_loaded_once() -> None:
    """Loading leaves the program's logging alone."""
    before = list(logging.getLogger().handlers)
    module = registry.find("embedder", "wordllama")
    assert module.load() is module.load()
    assert logging.getLogger().handlers == before


def test_rows_have_length_1_or_0() -> None:
    """0 only where nothing is said; a text gives the same row alone and among others."""
    rows = wordllama.load().embed(TEXTS)
    assert rows.dtype == np.float32
    assert rows.shape == (len(TEXTS), 256)
    lengths = np.linalg.norm(rows, axis=1)
    assert lengths[3] == 0
    assert np.delete(lengths, 3) == pytest.approx(np.ones(len(TEXTS) - 1), abs=1e-5)
    for text, row in zip(TEXTS, rows, strict=True):
        assert (wordllama.load().embed([text])[0] == row).all()
    assert wordllama.load().embed([]).shape == (0, 256)


def test_nearer_in_meaning_is_nearer() -> None:
    puppy, dog, market = wordllama.load().embed(TEXTS[:3])
    assert puppy @ dog > 0.3 > puppy @ market


def test_rows_are_those_of_the_package() -> None:
    """The package's own code gives the same vectors; it runs apart, since it changes the logging."""
    code = (
        "import sys, numpy, pathlib, wordllama\n"
        "folder = pathlib.Path(wordllama.__file__).parent\n"
        "model = wordllama.WordLlama.load(cache_dir=folder, disable_download=True)\n"
        "sys.stdout.buffer.write(model.embed(sys.argv[1:], norm=True).astype('f4').tobytes())\n"
    )
    said = [*TEXTS[:3], TEXTS[4], TEXTS[5]]
    done = subprocess.run([sys.executable, "-c", code, *said], check=True, capture_output=True)
    theirs = np.frombuffer(done.stdout, np.float32).reshape(-1, 256)
    np.testing.assert_allclose(wordllama.load().embed(said), theirs, atol=2e-6)


def test_no_socket_is_opened_and_the_package_is_not_imported() -> None:
    code = (
        "import socket, sys\n"
        "def refused(*_): raise SystemExit('a socket')\n"
        "socket.socket = refused\n"
        "from assay.embedders import wordllama\n"
        "wordllama.load().embed(['a'])\n"
        "assert not {'wordllama', 'requests', 'huggingface_hub'} & set(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_long_text_is_embedded() -> None:
    """Its words count as often as they stand there, so twice the text is the same vector."""
    rows = wordllama.load().embed([" word" * 2_000, " word" * 4_000])
    assert rows[0] == pytest.approx(rows[1], abs=1e-4)


def test_a_missing_package_is_reported_with_the_install_command(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """If the package is missing, or has no weights, the message tells what to install."""
    monkeypatch.setattr(wordllama, "find_spec", lambda _name: None)
    with pytest.raises(MissingExtra, match="pip install 'assay\\[memory\\]'"):
        wordllama.load.__wrapped__()
    (tmp_path / "wordllama").mkdir()
    (tmp_path / "wordllama" / "__init__.py").touch()
    monkeypatch.undo()
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    with pytest.raises(UsageError, match="has no weights/l2_supercat_256.safetensors. Install the version that has it"):
        wordllama.load.__wrapped__()
