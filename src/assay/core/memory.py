"""What a memory is: something that takes messages and finds what belongs to a question.

A memory is one file in `assay.memories` with `ABOUT` and `make(around)`. Its five methods may be plain or
`async`. Everything it needs from outside comes from `Around`; it never sees an answer, a reference, or where
the evidence of a question stands, unless `ABOUT` says that it is a reference that needs it.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from msgspec import Struct, field

from assay.core import registry

if TYPE_CHECKING:
    import numpy as np

LINEAR = "linear"
"""The kind of an item that is one text among others."""


class Message(Struct, frozen=True):
    """One utterance. `id` is its place in the conversation, such as D1:3; `date` is that of its session."""

    id: str
    text: str
    speaker: str = ""
    session: str = ""
    date: str = ""

    @property
    def line(self) -> str:
        """As a prompt or an index holds it: who said it, and what."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class Item(Struct, frozen=True):
    """One thing a memory holds. `sources` are the messages it was made of, `session` the one it came from."""

    id: str
    text: str
    session: str = ""
    date: str = ""
    sources: tuple[str, ...] = ()
    kind: str = LINEAR


class Found(Struct, frozen=True):
    """An item that was found, best first; the score says how well it fits, in the memory's own measure."""

    item: Item
    score: float = 0.0


class Query(Struct, frozen=True):
    """A question. `evidence` is filled for memories only that declare to need it."""

    text: str
    evidence: tuple[str, ...] = ()


class Memory(Protocol):
    """One memory of one conversation. Ids of items are stable while the item is the same."""

    def reset(self) -> Awaitable[None] | None:
        """Hold nothing, as at the beginning."""
        ...

    def add(self, messages: Sequence[Message]) -> Awaitable[None] | None:
        """Take in messages of one session, in order."""
        ...

    def search(self, query: Query, k: int) -> Awaitable[Sequence[Found]] | Sequence[Found]:
        """At most `k` items for a question, best first; nothing where nothing is held."""
        ...

    def items(self) -> Awaitable[Sequence[Item]] | Sequence[Item]:
        """Everything that is held, in a fixed order."""
        ...

    def end_session(self) -> Awaitable[None] | None:
        """The session of the last messages is over."""
        ...


class Around(Struct, frozen=True):
    """What a memory may use. What an earlier try was told is served again, in the same order."""

    ask: Callable[[list[dict[str, Any]], dict[str, Any]], Awaitable[str]]
    """Messages of a chat and parameters; gives the text of the reply, raises ModelError."""
    embed: Callable[[Sequence[str]], Awaitable[np.ndarray[Any, Any]]]
    """Texts to rows of float32 of length 1."""
    base_url: Callable[[], Awaitable[str]]
    """Where a foreign SDK reaches the run's model while the case is open."""
    folder: Path
    """An empty folder of this case's own, which is gone when the case ends."""
    rng: random.Random
    options: Mapping[str, Any] = field(default_factory=dict)


class AboutMemory(Struct, frozen=True, kw_only=True):
    """What a memory says about itself. `options` are its defaults; only these may be given."""

    summary: str
    asks: bool = False
    """It asks the model while it takes in or searches."""
    embeds: bool = False
    reference: bool = False
    """It is a yardstick and no memory: named so in every output."""
    needs_evidence: bool = False
    bundle: bool = False
    """It gives one text in place of single items; `search` returns the items behind it."""
    options: dict[str, Any] = field(default_factory=dict)


class Kind(NamedTuple):
    """A memory by the name that a user said."""

    name: str
    make: Callable[[Around], Memory]
    about: AboutMemory

    @property
    def shown(self) -> str:
        """As outputs name it: a yardstick is not mistaken for a memory."""
        return f"{self.name} (reference)" if self.about.reference else self.name


def find_memory(name: str) -> Kind:
    """A built-in, an installed one, or `path/to/file.py:Name`, which is called with `Around`."""
    found = registry.find("memory", name)
    make = getattr(found, "make", found)
    about = getattr(found, "ABOUT", None) or AboutMemory(summary="a memory of one's own")
    return Kind(registry.short(name), make, about)
