"""The contracts of memories and embedders.

A memory stores the messages of a conversation and searches them for a question. A built-in memory is one file
in `assay.memories`; a user names `path/to/file.py:make`. Either has a function `make` and may have `ABOUT`:

    ABOUT = AboutMemory(summary="the last k messages")

    def make(context: MemoryContext) -> Memory:
        return LastMessages(**options_of(ABOUT, context.options))

The five methods of a memory may be plain or `async`. Everything a memory may use comes from
`MemoryContext`. A memory never sees an answer or a reference. It sees where the evidence of a question
stands only if its `ABOUT` declares `needs_evidence`.
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

# The `kind` of an item that is one text among others, as opposed to a summary or a note of a tree.
LINEAR = "linear"
# The `kind` that files show for the items of a memory with `bundle`. The run's journal keeps the real items.
BUNDLE = "memgallery:string_bundle"


class Message(Struct, frozen=True):
    """One utterance. `id` is its place in the conversation, such as D1:3; `date` is that of its session."""

    id: str
    text: str
    speaker: str = ""
    session: str = ""
    date: str = ""

    @property
    def line(self) -> str:
        """The message as prompts and search indexes use it: `speaker: text`."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class MemoryItem(Struct, frozen=True):
    """One text that a memory stores.

    `sources` are the ids of the messages it was made of. `session` is the session it came from.
    """

    id: str
    text: str
    session: str = ""
    date: str = ""
    sources: tuple[str, ...] = ()
    kind: str = LINEAR


class SearchHit(Struct, frozen=True):
    """An item that a search returned. Scores of different memories cannot be compared."""

    item: MemoryItem
    score: float = 0.0


class Query(Struct, frozen=True):
    """A question. `evidence` holds message ids, and only for memories with `needs_evidence`."""

    text: str
    evidence: tuple[str, ...] = ()


class Memory(Protocol):
    """The memory of one conversation. An item keeps its id as long as it is the same item."""

    def reset(self) -> Awaitable[None] | None:
        """Forget everything, as if the memory were new."""
        ...

    def add(self, messages: Sequence[Message]) -> Awaitable[None] | None:
        """Store messages of one session, in order."""
        ...

    def search(self, query: Query, k: int) -> Awaitable[Sequence[SearchHit]] | Sequence[SearchHit]:
        """Return at most `k` items for a question, best first. An empty memory returns none."""
        ...

    def items(self) -> Awaitable[Sequence[MemoryItem]] | Sequence[MemoryItem]:
        """Return every stored item, in a fixed order."""
        ...

    def end_session(self) -> Awaitable[None] | None:
        """Called after the last message of a session."""
        ...


class MemoryContext(Struct, frozen=True):
    """Everything a memory may use.

    After a kill, `ask` and `embed` serve the logged replies again. A memory must therefore ask in a fixed
    order.
    """

    ask: Callable[[list[dict[str, Any]], dict[str, Any]], Awaitable[str]]
    """Sends chat messages and parameters, returns the text of the reply. Raises ModelError."""
    embed: Callable[[Sequence[str]], Awaitable[np.ndarray[Any, Any]]]
    """Turns texts into rows of float32 of length 1."""
    base_url: Callable[[], Awaitable[str]]
    """The URL at which a foreign SDK reaches the run's model while the case is open."""
    folder: Path
    """An empty folder of this case. It is deleted when the case ends."""
    rng: random.Random
    options: Mapping[str, Any] = field(default_factory=dict)


class AboutMemory(Struct, frozen=True, kw_only=True):
    """What a memory declares about itself. `options` are the defaults; no other option may be set."""

    summary: str
    asks: bool = False
    """`add`, `search` or `end_session` asks the model."""
    embeds: bool = False
    reference: bool = False
    """It is a yardstick such as `oracle`. Outputs mark it as a reference."""
    needs_evidence: bool = False
    bundle: bool = False
    """It returns one text in place of single items; `search` returns the items behind that text."""
    quick: bool = False
    """Its plain methods take microseconds. They are called in place, without a thread."""
    options: dict[str, Any] = field(default_factory=dict)
    prompts: str = ""
    """Version and hash of the prompts it asks with. Another wording makes another run."""


class MemoryPlugin(NamedTuple):
    """A memory by name: what it declares, and the function that makes one."""

    about: AboutMemory
    make: Callable[[MemoryContext], Memory]
    name: str = ""

    @property
    def title(self) -> str:
        """The name in tables and charts, where a reference must not be mistaken for a memory."""
        return f"{self.name} (reference)" if self.about.reference else self.name


def find_memory(name: str) -> MemoryPlugin:
    """Find a memory by name, or by `path/to/file.py:make`, whose file may define `ABOUT` too."""
    plugin = registry.find("memory", name)
    module = sys.modules.get(getattr(plugin, "__module__", ""))
    about = getattr(plugin, "ABOUT", None) or getattr(module, "ABOUT", AboutMemory(summary=name))
    make = getattr(plugin, "make", plugin)
    if not isinstance(about, AboutMemory) or not callable(make):
        raise UsageError(
            f"{name!r} is no memory: it needs make(context), and ABOUT, if any, is an AboutMemory; "
            "see docs/memories.md"
        )
    return MemoryPlugin(about, make, registry.short(name))


def options_of(about: AboutMemory, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the defaults, overridden by `values`. Refuses unknown names and values of another type."""
    problems: list[str] = []
    for name, value in values.items():
        if problem := _option_problem(about.options, name, value):
            problems.append(problem)
    if problems:
        raise UsageError(f"options of the memory: {'; '.join(problems)}")
    return {**about.options, **values}


def _option_problem(defaults: Mapping[str, Any], name: str, value: Any) -> str:
    if name not in defaults:
        return f"there is no {name!r}, only {', '.join(defaults) or 'none at all'}"
    expected = type(defaults[name])
    # A whole number is fine where the default is a float. A bool is an int in Python, but not to a user.
    fits = isinstance(value, (int, float) if expected is float else expected)
    if not fits or isinstance(value, bool) is not (expected is bool):
        return f"{name} is of type {expected.__name__}, not {value!r}"
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        return f"{name} is a number from 0 up, not {value!r}"
    return ""


async def resolve(value: Awaitable[T] | T) -> T:
    """Return what a memory's method returned, and await it first where the method is `async`."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else value


class Embedder(Protocol):
    """Turns texts into vectors. An embedder is one file in `assay.embedders` with a function `load()`.

    The same text has the same vector, alone or among others.
    """

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return a row of float32 of length 1 for each text, and a row of zeros for a text without words."""
        ...
