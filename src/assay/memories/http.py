"""`http`: any memory that runs as a service. assay talks to it in four requests; docs/memories.md has the contract.

    assay memory test --memory http --memory-args url=http://127.0.0.1:8765 …

`reset` gives the service a name for the conversation and a URL at which it reaches the run's model. Calls to that URL
are logged and replayed when a run continues, so the service should send them in a fixed order. The ids of a service may
be random: items get numbers in the order of their creation. No request is repeated: `add` might then store twice.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Sequence
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct, field

from assay.core.errors import CaseFailed, ModelError, UsageError
from assay.core.memory import (
    ACTIVE,
    LINEAR,
    AboutMemory,
    JsonValue,
    MemoryContext,
    MemoryItem,
    Message,
    Query,
    SearchHit,
    options_of,
)
from assay.core.types import Failure
from assay.files.excerpt import cut_end
from assay.memories.helpers.scores import limit

T = TypeVar("T")

ABOUT = AboutMemory(
    summary="a memory that runs as a service, with a REST contract of four requests",
    asks=True,
    needs_model=False,
    options={"k": 0, "url": "", "key": "", "timeout": 60.0},
    prompts="contract 1",
)
# The largest reply that is read. All items of a long conversation have a few MB.
MAX_REPLY_BYTES = 64 << 20
# Number of characters of a reply that an error message quotes.
_QUOTE_LENGTH = 300


class ServiceItem(Struct):
    """An item as the service sends it."""

    id: str
    text: str
    session: str = ""
    date: str = ""
    sources: list[str] = field(default_factory=list)
    kind: str = LINEAR
    status: str = ACTIVE
    metadata: dict[str, JsonValue] = field(default_factory=dict)


class ServiceHit(ServiceItem):
    """An item with its score."""

    score: float = 0.0
    trace: dict[str, JsonValue] = field(default_factory=dict)


class ItemsReply(Struct):
    """The reply to `items`: all items, in the order of their creation."""

    items: list[ServiceItem]


class SearchReply(Struct):
    """The reply to `search`: hits, best first."""

    hits: list[ServiceHit]


class HttpMemory:
    """One conversation at a service. The first message sends `reset`."""

    def __init__(self, context: MemoryContext) -> None:
        self._base_url = context.base_url
        self._options = options_of(ABOUT, context.options)
        self._service = Service(self._options["url"], self._options["key"], self._options["timeout"])
        self.reset()

    def reset(self) -> None:
        """Forget the conversation. The next message starts another one, under a name of its own."""
        self._conversation = ""
        self._numbers: dict[str, int] = {}  # by the service's id

    async def add(self, messages: Sequence[Message]) -> None:
        """Send messages."""
        if not messages:
            return
        if not self._conversation:
            # Random, because other runs may use the same service at the same time.
            self._conversation = uuid.uuid4().hex
            reply = await self._post("reset", model_url=await self._base_url())
            # Nothing in it is of interest. Text that is no JSON comes from something else, such as a login page.
            self._service.read("reset", reply, object)
        reply = await self._post("add", messages=[message_body(message) for message in messages])
        self._service.read("add", reply, object)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the hits of the service."""
        max_hits = limit(k, self._options["k"])
        if not self._conversation or not max_hits:
            return []
        body = await self._post("search", query=query.text, date=query.date, k=max_hits)
        hits = self._service.read("search", body, SearchReply).hits[:max_hits]
        if any(hit.id not in self._numbers for hit in hits):
            # Numbers follow the order of creation, which only `items` tells.
            await self.items()
        return [SearchHit(self._item(hit), float(hit.score), hit.trace) for hit in hits]

    async def items(self) -> list[MemoryItem]:
        """Return all items of the service."""
        if not self._conversation:
            return []
        reply = self._service.read("items", await self._post("items"), ItemsReply)
        return [self._item(item) for item in reply.items]

    def end_session(self) -> None:
        """Do nothing. Each message tells the service its session."""

    async def _post(self, name: str, **values: Any) -> bytes:
        return await self._service.post(name, {"conversation": self._conversation, **values})

    def _item(self, item: ServiceItem) -> MemoryItem:
        number = self._numbers.setdefault(item.id, len(self._numbers) + 1)
        return MemoryItem(
            f"http:{number}",
            item.text,
            item.session,
            item.date,
            tuple(item.sources),
            item.kind,
            item.status,
            item.metadata,
        )


def message_body(message: Message) -> dict[str, Any]:
    """Return a message as `add` sends it. All keys are always there."""
    turns = [{"role": turn.role, "text": turn.text} for turn in message.turns]
    names = ("id", "text", "speaker", "session", "date")
    return {**{name: getattr(message, name) for name in names}, "turns": turns}


class Service:
    """Sends requests to a service and reads its replies.

    `key` names an environment variable. Its value is sent as a bearer token. So the key is in no file and no command.
    """

    def __init__(self, url: str, key: str, timeout: float) -> None:
        self._url = url.rstrip("/")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.username:
            raise UsageError(
                f"the memory http: url is the address of the service, such as http://127.0.0.1:8765, not {url!r}. "
                "Pass --memory-args url=…, and a key by the name of its variable: key=MY_SERVICE_KEY"
            )
        if key and not os.environ.get(key):
            raise UsageError(f"the memory http: key={key} names an environment variable that is not set")
        self._key = key
        self._timeout = timeout

    async def post(self, name: str, body: dict[str, Any]) -> bytes:
        """Return the body of the reply. Raises ModelError if the service is out of reach or fails."""
        import aiohttp  # takes 0.2 s, and most runs have no service

        headers = {"Authorization": f"Bearer {os.environ[self._key]}"} if self._key else {}
        limits = aiohttp.ClientTimeout(total=self._timeout or None)
        try:
            # A session for each request: nobody tells a memory when to close one. trust_env is off: no proxies.
            async with (
                aiohttp.ClientSession(timeout=limits, headers=headers) as session,
                # A redirect would carry the messages, and perhaps the key, to another place.
                session.post(f"{self._url}/{name}", json=body, allow_redirects=False) as reply,
            ):
                content = await _read_body(reply.content)
                status = reply.status
        except TimeoutError as error:
            raise self._failure("timeout", name, f"took longer than {self._timeout:g} s") from error
        except aiohttp.ClientError as error:
            raise self._failure("connection", name, f"is out of reach: {error}") from error
        if content is None:
            raise self._mistake(name, f"sent more than {MAX_REPLY_BYTES >> 20} MB")
        if status >= 500 or status == 429:
            raise self._failure("server_error", name, f"replied {status}: {_quote(content)}", status)
        if status != 200:
            raise self._mistake(name, f"replied {status}: {_quote(content)}")
        return content

    def read(self, name: str, body: bytes, form: type[T]) -> T:
        """Return the reply in this form. Raises CaseFailed if it has another one."""
        try:
            return msgspec.json.decode(body, type=form)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise self._mistake(
                name, f"replied 200 with something that is not in the contract: {error}: {_quote(body)}"
            ) from error

    def _failure(self, kind: str, name: str, message: str, status: int = 0) -> ModelError:
        """An error that the next start repeats, like that of a model's endpoint."""
        return ModelError(Failure(kind, f"http: {self._url}/{name} {message}", http=status))

    def _mistake(self, name: str, message: str) -> CaseFailed:
        """An error of the service itself."""
        return CaseFailed(Failure("user_code", f"http: {self._url}/{name} {message}"))


async def _read_body(stream: Any) -> bytes | None:
    """Return the body, or None if it is too large."""
    body = bytearray()
    async for chunk in stream.iter_any():
        body += chunk
        if len(body) > MAX_REPLY_BYTES:
            return None
    return bytes(body)


def _quote(body: bytes) -> str:
    return cut_end(body.decode("utf-8", "replace"), _QUOTE_LENGTH)


def make(context: MemoryContext) -> HttpMemory:
    """Make an empty memory. Raises UsageError if `url` or `key` cannot be used."""
    return HttpMemory(context)
