"""The judge of a run: a model that is asked by versioned prompts, or `offline`, which asks nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assay.core import registry
from assay.core.connect import Role
from assay.core.hashing import file_sha256, fingerprint
from assay.core.protocols import Context
from assay.scoring.judging.asking import Asking
from assay.scoring.judging.matters import KINDS, Matter, Verdict
from assay.scoring.judging.settling import settled

OFFLINE = "offline"
ROLE = "judge"
_MODELS = ("OPENAI_MODEL_JUDGE", "JUDGE_MODEL", "OPENAI_MODEL")
_URL, _KEY = "OPENAI_BASE_URL_JUDGE", "OPENAI_API_KEY_JUDGE"


def judge_named(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """What --judge says, else the environment, else `offline`. A bare name is one of OpenAI's kind."""
    if given:
        return given if "/" in given or given == OFFLINE else f"openai/{given}"
    found = next((environ[name] for name in _MODELS if environ.get(name)), OFFLINE)
    return found if found == OFFLINE else provided(found)


def provided(name: str) -> str:
    """A name of the environment with its provider; that of `meta-llama/Llama-3` is of OpenAI's kind too."""
    return name if name.partition("/")[0] in registry.names("model") and "/" in name else f"openai/{name}"


class Panel:
    """Judges every kind of matter. Outputs call it `name`; `id` tells it from any other judge."""

    def __init__(self, name: str, votes: int = 1, base_url: str | None = None) -> None:
        self.name = name
        self._base_url = base_url
        self.votes = 1 if name == OFFLINE else votes
        self._content = content_of(name)
        self._asking = {} if name == OFFLINE else {kind: _asking(kind, self.votes) for kind in KINDS}

    def fingerprint(self, kind: str) -> str:
        """Changes with the judge's model, its prompt for this kind, its parameters and votes."""
        if self.name == OFFLINE:
            return str(_offline().FINGERPRINT)
        return fingerprint([self.name, self._content, self._asking[kind].fingerprint])

    @property
    def id(self) -> str:
        """Name and fingerprint over all kinds."""
        return f"{self.name}@{fingerprint([self.fingerprint(kind) for kind in KINDS])}"

    @property
    def speaker(self) -> str:
        """Who replies, however it is asked: the model, and the code of one that is a function or a script."""
        return f"{self.name}@{fingerprint([self.name, self._content])}"

    @property
    def role(self) -> dict[str, Any]:
        """The model to connect, if any; it may have an endpoint and a key of its own."""
        if self.name == OFFLINE:
            return {}
        url, key = self.endpoint, _KEY if os.environ.get(_KEY) else ""
        return {ROLE: Role(self.name, url, key) if url or key else self.name}

    @property
    def endpoint(self) -> str | None:
        """That of the judge alone, if it has one; else it is asked where the run's model is."""
        return None if self.name == OFFLINE else self._base_url or os.environ.get(_URL) or None

    async def verdict(self, matter: Matter, ctx: Context) -> Verdict:
        """Of one matter. Raises ModelError where the judge could not be asked at all."""
        if (plain := settled(matter)) is not None:
            return plain
        if self.name == OFFLINE:
            said: Verdict = _offline().verdict(matter)
            return said
        return await self._asking[matter.kind].verdict(matter, ctx.model(ROLE), ctx)


def content_of(name: str) -> str:
    """What a judge's file holds, where it is a function or a script of the user; else nothing."""
    provider, _, file = name.partition("/")
    path = Path(file.rpartition(":")[0] if provider == "python" else file)
    if provider not in {"python", "script"} or not path.is_file():
        return ""
    return registry.identity(file) if provider == "python" else file_sha256(path)


def _asking(kind: str, votes: int) -> Asking:
    return Asking(registry.find("judge", kind).build(), votes)


def _offline() -> Any:
    """Loaded where it judges: its rules take longer to read than most commands to start."""
    from assay.scoring.judging import offline

    return offline
