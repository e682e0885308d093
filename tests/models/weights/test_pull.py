"""`assay models pull FILE|URL`: what is downloaded is whole, checked, and found by its name afterwards."""

from __future__ import annotations

import hashlib
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from assay.core.errors import UsageError
from assay.core.roles import Connection
from assay.models import llama_server, local
from assay.models.weights.pulled import find_pulled, list_local, pull_model

from servers.files import FileServer
from support.commands import environment, run_here
from support.gguf import tiny_header

CONTENT = tiny_header(general__architecture="llama", llama__context_length=64) + bytes(range(256)) * 5000
SHA256 = hashlib.sha256(CONTENT).hexdigest()


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache."""
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "models"


@pytest.fixture
def server() -> Iterator[FileServer]:
    with FileServer({"/tiny.gguf": CONTENT, "/page.html": b"<!DOCTYPE html><html>"}) as server:
        yield server


def pull(source: str, name: str = "", sha256: str = "") -> str:
    """Everything that a pull says."""
    said: list[str] = []
    pull_model(source, said.append, name=name, sha256=sha256)
    return "\n".join(said)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_a_url_is_downloaded_and_found_by_its_name(cache: Path, server: FileServer, tmp_path: Path) -> None:
    """The command prints the hash, `assay models` lists the model, and local/NAME finds it."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    url = server.url("/tiny.gguf?token=secret")
    done = run_here(["models", "pull", url, "--sha256", SHA256.upper(), "--name", "small"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert SHA256 in done.stdout
    assert "downloading" in done.stdout
    assert "(1.3 MB)" in done.stdout
    assert names(cache) == ["small.gguf", "small.json"]
    assert (cache / "small.gguf").read_bytes() == CONTENT
    assert "secret" not in (cache / "small.json").read_text()
    listed = run_here(["models"], tmp_path).stdout
    assert f"local/small     1       64              –  {SHA256[:16]}" in listed
    assert local.connect(Connection(name="small")).endpoint.startswith(f"local:{SHA256[:16]}")


def test_without_a_given_hash_the_first_one_is_recorded(cache: Path, server: FileServer) -> None:
    said = pull(server.url("/tiny.gguf"))
    assert f"SHA-256 {SHA256}" in said
    assert "No --sha256 was given, so this hash is recorded" in said
    pulled = find_pulled("tiny")
    assert pulled is not None
    assert pulled.identity == SHA256
    assert "already there" in pull(server.url("/tiny.gguf"))
    assert len(server.ranges) == 1


def test_other_content_is_refused_and_deleted(cache: Path, server: FileServer) -> None:
    with pytest.raises(UsageError, match=f"is {SHA256}, not {'0' * 64}. The download was deleted"):
        pull(server.url("/tiny.gguf"), sha256="0" * 64)
    assert names(cache) == []


def test_a_page_instead_of_a_file_is_refused_at_its_first_bytes(cache: Path, server: FileServer) -> None:
    with pytest.raises(UsageError, match="is not a GGUF file: it begins with b'<!DOCTYPE html"):
        pull(server.url("/page.html"))
    assert find_pulled("page.html") is None


def test_a_broken_download_goes_on_where_it_broke(cache: Path, server: FileServer) -> None:
    server.cuts = [400_000, 500_000]
    assert "continuing at 0.4 MB of 1.3 MB" in pull(server.url("/tiny.gguf"), sha256=SHA256)
    assert server.ranges == ["", "bytes=400000-", "bytes=900000-"]
    assert (cache / "tiny.gguf").read_bytes() == CONTENT


def test_a_later_command_continues_the_download(cache: Path, server: FileServer) -> None:
    server.cuts = [1000, 0, 0, 0]
    with pytest.raises(UsageError, match="1,000 of .* bytes arrived. The same command continues the download"):
        pull(server.url("/tiny.gguf"))
    server.cuts, server.ranges = [], []
    pull(server.url("/tiny.gguf"), sha256=SHA256)
    assert server.ranges == ["bytes=1000-"]
    assert names(cache) == ["tiny.gguf", "tiny.json"]


def test_the_key_of_a_signed_url_is_neither_shown_nor_kept(cache: Path, server: FileServer) -> None:
    """Not in messages, and not beside a download that broke off. Another key continues it."""
    server.cuts = [1000, 0, 0, 0]
    with pytest.raises(UsageError, match="broke off") as broken:
        pull(server.url("/tiny.gguf?token=0f8fad5b"))
    assert "0f8fad5b" not in str(broken.value)
    assert [path.name for path in cache.rglob("*") if path.is_file() and b"0f8fad5b" in path.read_bytes()] == []
    server.cuts, server.ranges = [], []
    assert "0f8fad5b" not in pull(server.url("/tiny.gguf?token=0f8fad5b"), sha256=SHA256)
    assert server.ranges == ["bytes=1000-"]


def test_a_file_that_changed_meanwhile_is_downloaded_from_the_start(cache: Path, server: FileServer) -> None:
    server.cuts = [1000, 0, 0, 0]
    with pytest.raises(UsageError, match="broke off"):
        pull(server.url("/tiny.gguf"))
    changed = CONTENT[:-1] + b"!"
    server.cuts, server.etag, server.files["/tiny.gguf"] = [], '"two"', changed
    pull(server.url("/tiny.gguf"), sha256=hashlib.sha256(changed).hexdigest())


def test_a_file_that_became_shorter_is_downloaded_from_the_start(cache: Path, server: FileServer) -> None:
    """The server has nothing from byte 1,000 on and answers 416."""
    server.cuts = [1000, 0, 0, 0]
    with pytest.raises(UsageError, match="broke off"):
        pull(server.url("/tiny.gguf"))
    shorter = tiny_header(general__architecture="llama")
    server.cuts, server.ranges, server.files["/tiny.gguf"] = [], [], shorter
    pull(server.url("/tiny.gguf"), sha256=hashlib.sha256(shorter).hexdigest())
    assert server.ranges == ["bytes=1000-", ""]


def test_a_cut_file_of_a_server_without_etags_is_an_error_and_leaves_nothing(cache: Path, server: FileServer) -> None:
    server.etag, server.cuts = "", [1000]
    with pytest.raises(UsageError, match="broke off: 1,000 of "):
        pull(server.url("/tiny.gguf"))
    assert names(cache) == []


def test_redirects_lead_to_http_only(cache: Path, server: FileServer, tmp_path: Path) -> None:
    (tmp_path / "secret.gguf").write_bytes(CONTENT)
    server.redirects = {"/good": server.url("/tiny.gguf"), "/evil": f"file://{tmp_path}/secret.gguf"}
    pull(server.url("/good"))
    with pytest.raises(UsageError, match="answered 302"):
        pull(server.url("/evil"))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("ftp://127.0.0.1/x.gguf", "http:// and https:// only"),
        ("file:///etc/passwd", "http:// and https:// only"),
        ("http://me:word@127.0.0.1/x.gguf", "Remove the user and password"),
        ("http://127.0.0.1:9/x.gguf", "broke off: .*refused"),
        ("nowhere/x.gguf", "nowhere/x.gguf: there is no such file"),
    ],
)
def test_other_sources_are_refused_with_a_sentence(cache: Path, source: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        pull(source)
    assert [name for name in names(cache) if not name.startswith(".")] == []


@pytest.mark.parametrize(
    ("name", "message"),
    [("smollm2", "a model that assay knows"), ("../up", "cannot be a model's name"), ("", "already another")],
)
def test_names_are_checked(cache: Path, server: FileServer, name: str, message: str) -> None:
    server.files["/other/tiny.gguf"] = CONTENT + b"!"
    pull(server.url("/tiny.gguf"))
    with pytest.raises(UsageError, match=message):
        pull(server.url("/other/tiny.gguf"), name=name)


def test_a_file_is_linked_into_the_cache(cache: Path, tmp_path: Path) -> None:
    """It stays when the original is deleted, and the command says what it did."""
    path = tmp_path / "My Model.gguf"
    path.write_bytes(CONTENT)
    with pytest.raises(UsageError, match="cannot be a model's name"):
        pull(str(path))
    said = pull(str(path), name="mine", sha256=SHA256)
    assert f"linked {path} to {cache / 'mine.gguf'}" in said
    path.unlink()
    assert (cache / "mine.gguf").read_bytes() == CONTENT
    assert names(cache) == ["mine.gguf", "mine.json"]


def test_a_file_with_another_hash_or_content_is_refused(cache: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_bytes(CONTENT)
    bad.write_text("hello")
    with pytest.raises(UsageError, match="Nothing was written"):
        pull(str(good), sha256="f" * 64)
    with pytest.raises(UsageError, match="is not a GGUF file"):
        pull(str(bad))
    assert names(cache) == []


def test_all_parts_of_a_split_model_are_pulled(cache: Path, server: FileServer, tmp_path: Path) -> None:
    for number in (1, 2):
        part = tiny_header(general__architecture="llama", general__name=f"part {number}")
        (tmp_path / f"big-0000{number}-of-00002.gguf").write_bytes(part)
        server.files[f"/big-0000{number}-of-00002.gguf"] = part
    pull(str(tmp_path / "big-00001-of-00002.gguf"))
    pull(server.url("/big-00001-of-00002.gguf"), name="far")
    near, far = find_pulled("big"), find_pulled("far")
    assert near is not None
    assert far is not None
    assert near.identity == far.identity
    assert [file.name for file in far.files] == ["far-00001-of-00002.gguf", "far-00002-of-00002.gguf"]
    with pytest.raises(UsageError, match="2 parts, each with its own SHA-256"):
        pull(server.url("/big-00001-of-00002.gguf"), name="again", sha256=SHA256)


def test_a_damaged_file_is_found_and_mended(cache: Path, server: FileServer) -> None:
    """One changed byte is refused with the command that mends it, and that command works."""
    pytest.importorskip("xllamacpp", reason="the extra 'local' is not installed")
    url = server.url("/tiny.gguf")
    pull(url)
    with (cache / "tiny.gguf").open("r+b") as file:
        file.seek(-1, 2)
        file.write(b"!")
    with pytest.raises(UsageError, match=f"is not the file that was pulled.*assay models pull {url} --name tiny"):
        local.connect(Connection(name="tiny"))
    pull(url)
    assert (cache / "tiny.gguf").read_bytes() == CONTENT
    (cache / "tiny.gguf").unlink()
    with pytest.raises(UsageError, match="tiny.gguf is missing"):
        local.connect(Connection(name="tiny"))
    assert [model.sha256 for model in list_local() if model.name == "tiny"] == [""]


def test_every_provider_of_gguf_files_finds_the_name(cache: Path, server: FileServer) -> None:
    """The file is the same model under its name and its path."""
    pull(server.url("/tiny.gguf"), name="mine")
    named, at_path = (llama_server.connect(Connection(name=name)) for name in ("mine", str(cache / "mine.gguf")))
    assert named.endpoint == at_path.endpoint
    with pytest.raises(UsageError, match=r"llama-server/yours: there is no .* takes mine, smollm2 or the path"):
        llama_server.connect(Connection(name="yours"))


def test_a_cache_that_cannot_be_written_is_named(
    tmp_path: Path, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("ASSAY_CACHE", str(tmp_path / "file"))
    with pytest.raises(UsageError, match="cannot write .*file.*ASSAY_CACHE"):
        pull(server.url("/tiny.gguf"))


def test_a_file_larger_than_the_disk_is_refused_before_it_is_downloaded(cache: Path, server: FileServer) -> None:
    """The server promises more bytes than the disk has room for."""

    class Huge(bytes):
        def __len__(self) -> int:
            return 10**18

    server.files["/huge.gguf"] = Huge(CONTENT)
    with pytest.raises(UsageError, match="has room for .* are missing. Free some disk space"):
        pull(server.url("/huge.gguf"))


def test_a_disk_that_fills_up_is_a_sentence(cache: Path, server: FileServer) -> None:
    """A limit for files stands for a full disk: writing fails in the middle of the download."""
    done = subprocess.run(
        [sys.executable, "-m", "assay", "models", "pull", server.url("/tiny.gguf")],
        env={**environment(), "ASSAY_CACHE": str(cache.parent)},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert "cannot write" in done.stderr
    assert "Free some disk space, or set ASSAY_CACHE to another folder" in done.stderr
    assert find_pulled("tiny") is None


@pytest.mark.skipif(not Path("/dev/shm").is_dir(), reason="needs a second file system")
def test_a_file_of_another_disk_is_copied(cache: Path, tmp_path: Path) -> None:
    folder = Path("/dev/shm") / f"assay-test-{os.getpid()}"
    folder.mkdir()
    try:
        if folder.stat().st_dev == tmp_path.stat().st_dev:
            pytest.skip("there is only one file system")
        (folder / "tiny.gguf").write_bytes(CONTENT)
        assert pull(str(folder / "tiny.gguf")).startswith("copied ")
    finally:
        shutil.rmtree(folder)


def test_unknown_names_are_still_refused_with_the_nearest(cache: Path, tmp_path: Path) -> None:
    done = run_here(["models", "pull", "smolm2"], tmp_path)
    assert (done.returncode, "did you mean 'smollm2'" in done.stderr) == (2, True)
    done = run_here(["models", "pull", "smollm2", "--name", "x"], tmp_path)
    assert (done.returncode, "--name and --sha256 are for URLs and files" in done.stderr) == (2, True)
