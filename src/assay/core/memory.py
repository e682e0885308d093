"""What a memory is: something that takes messages and finds what belongs to a question.

A memory is one file in `assay.memories` with `ABOUT` and `make(around)`. Its five methods may be plain or
`async`. Everything it needs from outside comes from `Around`; it never sees an answer, a reference, or where
the evidence of a question stands, unless `ABOUT` says that it is a reference that needs it.
"""

from __future__ import annotations

import inspect
import random
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar, cast

from msgspec import Struct, field

from assay.core import registry
from assay.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

LINEAR = "linear"
"""The kind of an item that is one text among others."""
BUNDLE = "memgallery:string_bundle"
"""What files show for the items of a memory that gives one text; the run's journal keeps the items."""


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
    quick: bool = False
    """Its plain methods take microseconds: they are called in place, without a thread."""
    options: dict[str, Any] = field(default_factory=dict)
    prompts: str = ""
    """Which wording it asks with, as version and hash: another wording makes another run."""


class Kind(NamedTuple):
    """A memory that can be made: what it says about itself, and how to have one."""

    about: AboutMemory
    make: Callable[[Around], Memory]
    name: str = ""

    @property
    def shown(self) -> str:
        """As outputs name it: a yardstick is not mistaken for a memory."""
        return f"{self.name} (reference)" if self.about.reference else self.name


def find_memory(name: str) -> Kind:
    """By name, or `path/to/file.py:make`, whose file may hold an `ABOUT` beside the function."""
    found = registry.find("memory", name)
    module = sys.modules.get(getattr(found, "__module__", ""))
    about = getattr(found, "ABOUT", None) or getattr(module, "ABOUT", AboutMemory(summary=name))
    make = getattr(found, "make", found)
    if not isinstance(about, AboutMemory) or not callable(make):
        raise UsageError(
            f"{name!r} is no memory: it needs make(around), and ABOUT, if any, is an AboutMemory; "
            "see docs/memories.md"
        )
    return Kind(about, make, registry.short(name))


def options_of(about: AboutMemory, given: Mapping[str, Any]) -> dict[str, Any]:
    """The defaults, and over them what was given. Refuses what no default has the name or the kind of."""
    if wrong := [told for name, value in given.items() if (told := _fault(about.options, name, value))]:
        raise UsageError(f"options of the memory: {'; '.join(wrong)}")
    return {**about.options, **given}


def _fault(defaults: Mapping[str, Any], name: str, value: Any) -> str:
    if name not in defaults:
        return f"there is no {name!r}, only {', '.join(defaults) or 'none at all'}"
    wanted = type(defaults[name])
    fits = isinstance(value, (int, float) if wanted is float else wanted)
    if not fits or isinstance(value, bool) is not (wanted is bool):
        return f"{name} is of type {wanted.__name__}, not {value!r}"
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        return f"{name} is a number from 0 up, not {value!r}"
    return ""


async def settled(value: Awaitable[T] | T) -> T:
    """What a method of a memory gave, awaited where it is to be: plain and `async` methods are one."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else value
