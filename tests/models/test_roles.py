"""Models by role: each with its own endpoint and its own key, which is in no file."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import AssayError, UsageError
from assay.core.roles import Role, role_of
from assay.engine.connect import connect
from assay.runner.rescore import rescore

from servers.endpoint import Endpoint
from suites import shared

FIRST, SECOND = "first-login-0001", "second-login-0002"


@pytest.fixture(autouse=True)
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two keys in variables whose names do not sound secret."""
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-user")
    monkeypatch.setenv("FIRST_LOGIN", FIRST)
    monkeypatch.setenv("SECOND_LOGIN", SECOND)


async def run_at(out: Path, first: Endpoint, second: Endpoint, **options: Any) -> assay.Run:
    """One start with both endpoints."""
    return await assay.arun(shared.spec(base_url=first.url, second=second.url, output_dir=str(out), cases=2, **options))


def keys_seen(endpoint: Endpoint) -> set[str]:
    """What the endpoint was sent as a key."""
    return {asked.authorization for asked in endpoint.asked}


def test_each_endpoint_sees_its_own_key_and_no_file_sees_any(tmp_path: Path) -> None:
    """Two roles, two endpoints, two keys; even a prompt that holds the keys is written without them."""

    async def main() -> None:
        async with Endpoint() as first, Endpoint() as second:
            run = await run_at(tmp_path, first, second)
            assert run.exit_code == 0
            assert (keys_seen(first), keys_seen(second)) == ({f"Bearer {FIRST}"}, {f"Bearer {SECOND}"})
            assert len(first.asked) == len(second.asked) == 2
            named = run.info.parts["ask"]["models"]
            assert named == {"main": ["openai/fake", first.url], "other": ["openai/fake", second.url]}

    asyncio.run(main())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"[redacted]" in path.read_bytes() for path in files)
    for path in files:
        raw = path.read_bytes()
        assert FIRST.encode() not in raw, path
        assert SECOND.encode() not in raw, path


def test_an_unset_variable_falls_back(tmp_path: Path) -> None:
    """A variable that is named and not set leaves OPENAI_API_KEY; another key is the same run."""

    async def main() -> None:
        async with Endpoint() as first, Endpoint() as second:
            run = await run_at(tmp_path, first, second, key="UNSET_LOGIN", max_calls=2, workers=1)
            assert keys_seen(second) == {"Bearer sk-of-the-user"}
            again = await run_at(tmp_path, first, second)
            assert again.folder == run.folder
            assert keys_seen(second) == {"Bearer sk-of-the-user", f"Bearer {SECOND}"}

    asyncio.run(main())


def test_another_endpoint_is_another_run(tmp_path: Path) -> None:
    """The fingerprint of what is asked holds each role's endpoint."""

    async def main() -> None:
        async with Endpoint() as first, Endpoint() as second:
            one = await run_at(tmp_path, first, second)
            other = await run_at(tmp_path, second, second)
            assert one.folder != other.folder

    asyncio.run(main())


def test_a_role_is_graded_anew_at_the_endpoint_it_had(tmp_path: Path) -> None:
    """`rescore` asks nothing and knows the run by the endpoints that it had."""

    async def main() -> assay.Run:
        async with Endpoint() as first, Endpoint() as second:
            return await run_at(tmp_path, first, second)

    run = asyncio.run(main())
    again = rescore(str(run.folder), code=[Path(__file__).parents[1]])
    assert (again.folder, again.exit_code) == (run.folder, 0)


@pytest.mark.parametrize("base_url", [None, "http://127.0.0.1:9/v1"])
def test_a_provider_without_a_name_is_asked_for_the_name(base_url: str | None) -> None:
    """The example has the provider once."""
    spec = assay.spec("task", tasks=["x"], model="openai/", base_url=base_url)
    with pytest.raises(UsageError, match=r"'openai/' is not a model; write PROVIDER/NAME, such as openai/NAME\. "):
        connect(spec, spec.model)


def test_a_key_in_place_of_a_variable_is_refused() -> None:
    """A role names a variable; what cannot be the name of one is refused and not repeated."""
    with pytest.raises(UsageError, match="not the name of an environment variable") as told:
        role_of(Role("openai/x", None, "sk-12345678"))
    assert "sk-12345678" not in str(told.value)
    assert role_of("openai/x") == Role("openai/x")


def test_a_refused_role_leaves_what_others_were_told(tmp_path: Path) -> None:
    """If the second endpoint rejects its key, the run stops; the replies of the first are kept."""

    async def main() -> None:
        async with Endpoint() as first, Endpoint(faults=[401] * 9) as second:
            with pytest.raises(AssayError, match="variable that is named for this model"):
                await run_at(tmp_path, first, second, workers=1)
            asked = len(first.asked)
            second.faults.clear()
            run = await run_at(tmp_path, first, second, workers=1)
            assert run.exit_code == 0
            assert len(first.asked) == 2
            assert asked >= 1
            lines = (run.folder / "calls.jsonl").read_text().splitlines()[1:]
            assert len([line for line in lines if "response" in json.loads(line)]) == 4

    asyncio.run(main())


def test_a_variable_may_be_spelt_in_any_way_that_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """`HOP_KEY_x-y.z` is not a valid shell name, but an environment variable can have it."""
    named = Role("openai/x", None, "HOP_KEY_x-y.z")
    with pytest.raises(UsageError):
        role_of(named)
    monkeypatch.setenv("HOP_KEY_x-y.z", "k")
    assert role_of(named) == named
