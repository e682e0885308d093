"""The thin HTTP seam: `post` and `get` give status, headers and bytes, and every fault has a kind."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.errors import ModelError, UsageError
from assay.core.types import Failure
from assay.models.calling.dialing import Dialer, Unreachable
from assay.models.calling.pool import Pool
from assay.models.calling.reply import Broken, Reply
from assay.models.calling.target import Target, target

_RETRIED = frozenset({408, 409})
_OVERFLOW = ("context length", "context_length", "maximum context", "exceed_context_size", "too many tokens")
_HINTS = {
    "auth": ". Check the key in OPENAI_API_KEY, or in the variable that is named for this model",
    "not_found": ". Check the model's name and the base URL",
}


class HttpEndpoint:
    """One base URL, many kept-alive connections. The first one opens with the first request."""

    def __init__(self, base_url: str, key: str | None, timeout: float) -> None:
        self.base_url = base_url.rstrip("/")
        if key and not key.isprintable():
            raise UsageError(
                f"the key for {self.base_url} has a line break or another control character in it"
            )
        self._fields = "Content-Type: application/json\r\n"
        if key:
            self._fields += f"Authorization: Bearer {key}\r\n"
        self._seconds = timeout
        self._posts: dict[str, bytes] = {}
        self._pool: Pool | None = None

    async def post(self, path: str, body: bytes) -> Reply:
        """One POST, never sent twice. Connection faults and timeouts are ModelErrors that may be retried."""
        start = self._posts.get(path)
        if start is None:
            start = self._posts[path] = self._start("POST", path) + b"Content-Length: "
        return await self._exchange(b"%b%d\r\n\r\n%b" % (start, len(body), body), repeatable=False)

    async def get(self, path: str) -> Reply:
        """One GET, with the same faults; sent again if a kept connection turns out to be closed."""
        return await self._exchange(self._start("GET", path) + b"\r\n", repeatable=True)

    def _start(self, method: str, path: str) -> bytes:
        target = self._target(path)
        return f"{method} {target.path} HTTP/1.1\r\nHost: {target.authority}\r\n{self._fields}".encode()

    def _target(self, path: str) -> Target:
        try:
            return target(self.base_url + path)
        except ValueError:
            raise self._broke(self.base_url + path) from None

    async def _exchange(self, message: bytes, *, repeatable: bool) -> Reply:
        if self._pool is None:
            self._pool = self._open()
        try:
            return await self._pool.exchange(message, repeatable=repeatable)
        except Unreachable as error:
            raise _failed("unreachable", f"{self.base_url} cannot be reached: {error}") from None
        except TimeoutError:
            raise _failed("timeout", f"no answer from {self.base_url} within {self._seconds:g} s") from None
        except Broken as error:
            raise self._broke(str(error)) from None

    def _open(self) -> Pool:
        to = self._target("")
        return Pool(Dialer(to.host, to.port, tls=to.tls, seconds=self._seconds), self._seconds)

    def _broke(self, why: str) -> ModelError:
        return _failed("connection", f"the connection to {self.base_url} broke: {why}")

    async def close(self) -> None:
        """Close all connections."""
        if self._pool is not None:
            await self._pool.close()


def _failed(kind: str, message: str) -> ModelError:
    return ModelError(Failure(kind, message), retry=True)


def parse(reply: Reply, where: str) -> Any:
    """The JSON of a good reply; anything else as the ModelError it means."""
    if reply.status != 200:
        raise status_error(reply, where)
    try:
        return msgspec.json.decode(reply.body)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise bad_reply(where, f"it is not JSON: {error}") from None


def bad_reply(where: str, why: str) -> ModelError:
    """A reply with status 200 that cannot be used; asking again may help."""
    return ModelError(Failure("bad_reply", f"{where} sent a reply that cannot be used: {why}"), retry=True)


def status_error(reply: Reply, where: str) -> ModelError:
    """What an HTTP status means for a call: its kind, and whether asking again may help."""
    status, said = reply.status, _said(reply.body)
    kind = _kind(status, said.lower())
    failure = Failure(kind, f"{where} answered {status}: {said}{_HINTS.get(kind, '')}", http=status)
    if kind in ("rate_limited", "server_error"):
        return ModelError(failure, retry=True, wait=_retry_after(reply.headers))
    return ModelError(failure)


def _kind(status: int, said: str) -> str:
    if status == 429:
        return "rate_limited"
    if status in _RETRIED or status >= 500:
        return "server_error"
    if status in (401, 403):
        return "auth"
    if status == 404:
        return "not_found"
    overflow = status in (400, 413, 422) and any(mark in said for mark in _OVERFLOW)
    return "context_overflow" if overflow else "rejected"


def _said(body: bytes) -> str:
    try:
        value = msgspec.json.decode(body)
        error = value.get("error", value) if isinstance(value, dict) else value
        text = str(error.get("message") or error) if isinstance(error, dict) else str(error)
    except (msgspec.DecodeError, UnicodeDecodeError):
        text = body.decode("utf-8", "replace")
    return text.strip()[:300] or "nothing more"


def _retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds or an HTTP date."""
    value = headers.get("Retry-After")
    if value is None:
        return None
    try:
        return max(0.0, float(value))
    except ValueError:
        pass
    try:
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except ValueError:
        return None
