"""What the judges share: a versioned prompt, texts of others marked off as data, labels read back."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from assay.core import prompts
from assay.scoring.judging import replies
from assay.scoring.judging.fitting import CHARACTERS, nearest
from assay.scoring.judging.matters import Matter

M = TypeVar("M", bound=Matter)
NONE = "(none)"
"""What stands for a list without texts."""


def mark_of(*texts: str) -> str:
    """A marker that none of the texts can hold, since it is made of all of them."""
    return hashlib.sha256("\0".join(texts).encode(errors="surrogatepass")).hexdigest()[:16]


def listed(texts: Sequence[str]) -> str:
    """One numbered line each. As a JSON string no text can begin a line, and so a number, of its own."""
    lines = [f"{at}: {json.dumps(text, ensure_ascii=False)}" for at, text in enumerate(texts, 1)]
    return "\n".join(lines) or NONE


class Prompted(ABC, Generic[M]):
    """A prompt in a file beside its judge; what it is filled with is up to the judge."""

    def __init__(self, prompt: Path) -> None:
        self._prompt = prompt
        # The reason comes first: a model writes from left to right, so it weighs before it decides.
        self.params: dict[str, Any] = {"temperature": 0, "max_tokens": 2048}

    @property
    def fingerprint(self) -> str:
        """The version of the prompt and the sha256 of its file."""
        return prompts.fingerprint(self._prompt.stem, self._prompt)

    def messages(self, matter: M) -> list[dict[str, Any]]:
        """System and user, filled with what the judge makes of the matter."""
        values = self._values(matter)
        values["mark"] = mark_of(*values.values())
        return [
            {"role": role, "content": prompts.filled(self._part(role), values)} for role in ("system", "user")
        ]

    def parts(self, matter: M) -> list[M]:
        """One request is enough, unless a judge says so."""
        return [matter]

    @abstractmethod
    def _values(self, matter: M) -> dict[str, str]: ...

    def _part(self, name: str) -> str:
        return prompts.parts_of(self._prompt)[name]

    def _near(self, texts: Sequence[str], wanted: Sequence[str], budget: int = CHARACTERS) -> tuple[str, str]:
        """The texts that fit, listed, and what is said where they are not all."""
        shown = nearest(texts, wanted, budget)
        if shown is texts:
            return listed(texts), ""
        counts = {"shown": str(len(shown)), "total": str(len(texts))}
        return listed(shown), prompts.filled(self._part("chosen"), counts)


class OneLabel(Prompted[M]):
    """Asks for one label."""

    def schema(self, matter: M) -> dict[str, Any]:
        """A reason and a label."""
        return replies.label_schema(matter.labels)

    def read(self, reply: Mapping[str, Any], matter: M) -> tuple[tuple[str, ...], str]:
        """The label and the reason."""
        return replies.label_in(reply, matter.labels)


class LabelEach(Prompted[M]):
    """Asks for one label for each of several things, which the prompt numbers from 1 on."""

    aliases: ClassVar[Mapping[str, str]] = {}

    def schema(self, matter: M) -> dict[str, Any]:
        """A reason and a label for each number."""
        return replies.labels_schema(matter.labels, matter.count)

    def read(self, reply: Mapping[str, Any], matter: M) -> tuple[tuple[str, ...], str]:
        """The labels in order and the reason."""
        return replies.labels_in(reply, matter.labels, matter.count, self.aliases)


def counted(matter: Matter) -> dict[str, str]:
    """How many labels are wanted, and which numbers they have."""
    return {"count": str(matter.count), "ids": "1" if matter.count == 1 else f"1 to {matter.count}"}
