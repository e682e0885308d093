"""The judge of a run: a model that is asked by versioned prompts, or `offline`, which asks nobody."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from assay.core import registry
from assay.core.connect import Role
from assay.core.hashing import fingerprint
from assay.core.protocols import Context
from assay.scoring.judging import offline
from assay.scoring.judging.asking import Asking
from assay.scoring.judging.matters import KINDS, Matter, Verdict

OFFLINE = "offline"
ROLE = "judge"
_MODELS = ("OPENAI_MODEL_JUDGE", "JUDGE_MODEL", "OPENAI_MODEL")
_URL, _KEY = "OPENAI_BASE_URL_JUDGE", "OPENAI_API_KEY_JUDGE"


def judge_named(given: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """What --judge says, else the environment, else `offline`. A bare name is one of OpenAI's kind."""
    found = given or next((environ[name] for name in _MODELS if environ.get(name)), OFFLINE)
    return found if found == OFFLINE else provided(found)


def provided(name: str) -> str:
    """A bare name means an endpoint of OpenAI's kind."""
    return name if "/" in name else f"openai/{name}"


class Panel:
    """Judges every kind of matter. Outputs call it `name`; `id` tells it from any other judge."""

    def __init__(self, name: str, votes: int = 1, base_url: str | None = None) -> None:
        self.name = name
        self._base_url = base_url
        self.votes = 1 if name == OFFLINE else votes
        self._asking = {} if name == OFFLINE else {kind: _asking(kind, self.votes) for kind in KINDS}

    def fingerprint(self, kind: str) -> str:
        """Changes with the judge's model, its prompt for this kind, and its parameters."""
        if self.name == OFFLINE:
            return offline.FINGERPRINT
        return fingerprint([self.name, self._asking[kind].fingerprint])

    @property
    def id(self) -> str:
        """Name and fingerprint over all kinds."""
        return f"{self.name}@{fingerprint([self.fingerprint(kind) for kind in KINDS])}"

    @property
    def role(self) -> dict[str, Any]:
        """The model to connect, if any; it may have an endpoint and a key of its own."""
        if self.name == OFFLINE:
            return {}
        url, key = self._base_url or os.environ.get(_URL), _KEY if os.environ.get(_KEY) else ""
        return {ROLE: Role(self.name, url, key) if url or key else self.name}

    async def verdict(self, matter: Matter, ctx: Context) -> Verdict:
        """Of one matter. Raises ModelError where the judge could not be asked at all."""
        if not matter.count:
            return Verdict()
        if self.name == OFFLINE:
            return offline.verdict(matter)
        return await self._asking[matter.kind].verdict(matter, ctx.model(ROLE))


def _asking(kind: str, votes: int) -> Asking:
    return Asking(registry.find("judge", kind).build(), votes)
