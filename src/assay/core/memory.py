"""The interfaces of memories and embedders.

A memory stores the messages of a conversation and searches them for a question. A built-in memory is one file
in `assay.memories`; a user passes `path/to/file.py:make`. The file has a function `make` and may have `ABOUT`:

    ABOUT = AboutMemory(summary="the last k messages")

    def make(context: MemoryContext) -> Memory:
        return LastMessages(**options_of(ABOUT, context.options))

The five methods of a memory may be plain or `async`. Everything that a memory may use comes from `MemoryContext`. A
memory never gets a reference answer. It gets the ids of evidence messages only if its `ABOUT` declares
`needs_evidence`.
"""

from __future__ import annotations

import inspect
import random
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from msgspec import Struct, field

from assay.core.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

T = TypeVar("T")

# The `kind` of an ordinary item, as opposed to a summary or a node of a tree.
LINEAR = "linear"
# The `kind` in result files for items of a memory with `bundle`. The run's journal has the real items.
BUNDLE = "memgallery:string_bundle"
# The `status` of an item that the memory uses.
ACTIVE = "active"

# A value that JSON can express. msgspec checks none of it: the journal refuses what it cannot write.
JsonValue = str | int | float | bool | None | list[Any] | dict[str, Any]


class Turn(Struct, frozen=True):
    """What one role of a chat says. `role` is `user`, `assistant` or `system`, as chat models know it."""

    role: str
    text: str


# Names that `Turn.role` may have. A speaker of any other name, such as Nora, has no role.
CHAT_ROLES = ("user", "assistant", "system")


def chat_turns(lines: Iterable[tuple[str, str]]) -> tuple[Turn, ...]:
    """Return a turn for each pair of speaker and text; none if one of the speakers is not a role of a chat."""
    turns = tuple(Turn(role, text) for role, text in lines)
    return turns if all(turn.role in CHAT_ROLES for turn in turns) else ()


class Message(Struct, frozen=True, omit_defaults=True):
    """One message. `id` is its position in the conversation, such as D1:3. `date` is its session's date.

    `turns` are the turns behind the text, if the data has roles instead of speakers: one turn, or a round of user and
    assistant. A memory that takes chat messages passes them on as they are. Other memories read `text`.
    """

    id: str
    text: str
    # Factories, because `omit_defaults` leaves out plain defaults. The keys of rows contain these fields also if they
    # are empty, and must stay as they were: runs are continued by them. `turns` is part of a key only if there are any.
    speaker: str = field(default_factory=str)
    session: str = field(default_factory=str)
    date: str = field(default_factory=str)
    turns: tuple[Turn, ...] = ()

    @property
    def line(self) -> str:
        """`speaker: text`, as prompts and search indexes use it."""
        return f"{self.speaker}: {self.text}" if self.speaker else self.text


class MemoryItem(Struct, frozen=True):
    """One text that a memory stores.

    `sources` are the ids of the messages that it was built from. `session` is its session. An item whose `status` is
    not ACTIVE is still stored, but the memory no longer uses it: a fact that was superseded, for example. `metadata`
    has JSON values of the memory's own, for people who read the result files.
    """

    id: str
    text: str
    session: str = ""
    date: str = ""
    sources: tuple[str, ...] = ()
    kind: str = LINEAR
    status: str = ACTIVE
    metadata: dict[str, JsonValue] = {}


class SearchHit(Struct, frozen=True):
    """An item that a search returned. The scores of two memories are not comparable.

    `trace` has JSON values that tell how the item was found. Result files show them.
    """

    item: MemoryItem
    score: float = 0.0
    trace: dict[str, JsonValue] = {}


class Query(Struct, frozen=True):
    """A question. `date` is the day on which it is asked, if the data has one.

    `evidence` has message ids, but only for memories with `needs_evidence`.
    """

    text: str
    evidence: tuple[str, ...] = ()
    date: str = ""


class Memory(Protocol):
    """The memory of one conversation. Its items have unique ids. An item should keep its id while its text changes."""

    def reset(self) -> Awaitable[None] | None:
        """Delete everything, as if the memory were new."""
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
    """Everything that a memory may use.

    After a kill the conversation starts again, and `ask` and `embed` return the logged replies. So a memory must send
    its requests in a fixed order.
    """

    ask: Callable[[list[dict[str, Any]], dict[str, Any]], Awaitable[str]]
    """Sends chat messages and parameters, and returns the text of the reply. Raises ModelError."""
    embed: Callable[[Sequence[str]], Awaitable[np.ndarray[Any, Any]]]
    """Returns a row of float32 with length 1 for each text."""
    base_url: Callable[[], Awaitable[str]]
    """Returns a base URL at which an SDK of another project reaches the run's model while the case is open.

    A request without `model` goes to that model; `GET URL/models` names it. Another name is passed on as it is. The URL
    is empty if the run has no model, which only happens to memories without `needs_model`.
    """
    folder: Path
    """An empty folder for this case. It is deleted when the case ends."""
    rng: random.Random
    options: Mapping[str, Any] = field(default_factory=dict)


class AboutMemory(Struct, frozen=True, kw_only=True):
    """A memory's description of itself. `options` has all options with their defaults."""

    summary: str
    asks: bool = False
    """`add`, `search` or `end_session` calls the model."""
    needs_model: bool = True
    """A memory that `asks` needs a model. False for one that can do without: its `base_url` is then empty."""
    embeds: bool = False
    """It calls `MemoryContext.embed`."""
    reference: bool = False
    """It is an upper bound such as `oracle`. Reports mark it `(reference)`."""
    needs_evidence: bool = False
    """Its queries have the ids of the evidence messages."""
    bundle: bool = False
    """The model gets one long text instead of single items. `search` returns the items behind that text."""
    quick: bool = False
    """Its plain methods take microseconds, so they are called without a thread."""
    options: dict[str, Any] = field(default_factory=dict)
    prompts: str = ""
    """Version and hash of its prompts. Changed prompts start another run."""


def options_of(about: AboutMemory, values: Mapping[str, Any]) -> dict[str, Any]:
    """Merge `values` over the default options. Raises UsageError for an unknown name or a wrong type."""
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
    # An integer is fine if the default is a float. A bool is an int in Python, but a mistake here.
    fits = isinstance(value, (int, float) if expected is float else expected)
    if not fits or isinstance(value, bool) is not (expected is bool):
        return f"{name} is of type {expected.__name__}, not {value!r}"
    if isinstance(value, (int, float)) and not 0 <= value < float("inf"):
        return f"{name} is a number from 0 up, not {value!r}"
    return ""


async def resolve(value: Awaitable[T] | T) -> T:
    """Return the value of a memory's method, after awaiting it if the method is `async`."""
    return await cast("Awaitable[T]", value) if inspect.isawaitable(value) else value


class Embedder(Protocol):
    """Turns texts into vectors. An embedder is one file in `assay.embedders` with a function `load()`.

    A text must get the same vector in every batch.
    """

    def embed(self, texts: Sequence[str]) -> np.ndarray[Any, Any]:
        """Return a row of float32 with length 1 for each text. The row of a text without words is zero."""
        ...
