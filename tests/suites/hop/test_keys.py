"""Keys of a `.env` file in a batch: who gets which, and that they stand nowhere afterwards."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import assay

from servers.endpoint import Endpoint
from support.hop_batch import Batch, numbered

OWN, COMMON, OTHER = "own-login-000001", "common-login-0002", "unused-login-0003"
CODE = """
import os
from pathlib import Path

async def hop(n, session):
    said = await session.model.chat(f"number {n}")
    known = [name for name in os.environ if "login" in os.environ[name]]
    return {"said": said, "known": known, "read": Path(__file__).with_name(".env").read_text() if n == 1 else ""}
"""
SETTINGS = """\
llms:
  a-b.c: {{model: m, base_url: "{url}"}}
  plain: {{model: m, base_url: "{url}"}}
profiles: {{own: {{run: a-b.c}}, common: {{run: plain}}}}
"""


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without keys."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "HOP_KEY_A_B_C"):
        monkeypatch.delenv(name, raising=False)


def batch_at(folder: Path, env: str, inside: Path | None = None) -> Batch:
    """A batch with two profiles, and keys in a `.env` beside its settings or elsewhere."""
    batch = Batch(folder, CODE, numbered(2))
    ((inside or folder) / ".env").write_text(env)
    return batch


def asked_with(batch: Batch) -> list[str]:
    """The keys that the endpoint was sent, each once."""

    async def main() -> list[str]:
        async with Endpoint() as endpoint:
            (batch.folder / "settings.yaml").write_text(SETTINGS.format(url=endpoint.url))
            spec = assay.spec(
                "hop",
                target=f"{batch.folder}/hop.py:hop",
                data=f"{batch.folder}/rows.jsonl",
                output_dir=str(batch.out),
                workers=1,
            )
            assert (await assay.arun(spec)).exit_code == 0
            return sorted({asked.authorization.removeprefix("Bearer ") for asked in endpoint.asked})

    return asyncio.run(main())


def test_keys_of_the_file_are_used_and_written_nowhere(tmp_path: Path) -> None:
    """An llm's own key, else the common one. The function's environment has neither; what it reads is redacted."""
    env = f"HOP_KEY_a-b.c='{OWN}'\nexport OPENAI_API_KEY={COMMON}  # for all\nHOP_KEY_UNUSED={OTHER}\n"
    batch = batch_at(tmp_path, env)
    assert asked_with(batch) == [COMMON, OWN]
    files = [path for path in batch.out.rglob("*") if path.is_file() and path.name != "observer.jsonl"]
    assert any(b"[redacted]" in path.read_bytes() for path in files)
    assert any(b'\\"known\\": []' in path.read_bytes() for path in files)
    for path in files:
        assert not any(key.encode() in path.read_bytes() for key in (OWN, COMMON, OTHER)), path


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variable by variable: an own key of the file comes before a common one of the environment."""
    monkeypatch.setenv("OPENAI_API_KEY", "common-of-the-user")
    assert asked_with(batch_at(tmp_path / "a", f"OPENAI_API_KEY={COMMON}\nHOP_KEY_A_B_C={OWN}\n")) == [
        "common-of-the-user",
        OWN,
    ]
    monkeypatch.setenv("HOP_KEY_A_B_C", "own-of-the-user")
    assert asked_with(batch_at(tmp_path / "b", f"OPENAI_API_KEY={COMMON}\nHOP_KEY_A_B_C={OWN}\n")) == [
        "common-of-the-user",
        "own-of-the-user",
    ]


def test_a_file_here_is_read_if_none_stands_beside_the_settings(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And no file of the run, nor its log, has the key."""
    monkeypatch.chdir(tmp_path)
    batch = batch_at(tmp_path / "task", f"OPENAI_API_KEY={COMMON}", tmp_path)
    batch.code("async def hop(n, session):\n    return {'said': await session.model.chat(f'{n}')}\n")
    assert asked_with(batch) == [COMMON]
    (tmp_path / "task" / ".env").write_text(f"OPENAI_API_KEY={OTHER}")
    batch.rows(numbered(3))
    assert asked_with(batch) == [OTHER]
    files = [path.read_bytes() for path in batch.out.rglob("*") if path.is_file()]
    assert files
    assert not any(key.encode() in raw for raw in files for key in (COMMON, OTHER))
