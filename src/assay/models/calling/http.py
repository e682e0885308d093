"""The thin HTTP seam: `post` and `get` give status, headers and bytes, and every fault has a kind."""

from __future__ import annotations

import email.utils
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import aiohttp
import msgspec
from yarl import URL

from assay.core.errors import ModelError
from assay.core.types import Failure

_RETRIED = frozenset({408, 409})
_OVERFLOW = ("context length", "context_length", "maximum context", "exceed_context_size", "too many tokens")
_HINTS = {
    "auth": ". Check the key in OPENAI_API_KEY, or in the variable that is named for this model",
    "not_found": ". Check the model's name and the base URL",
}


_CONNECT_SECONDS = 30.0


class Reply(NamedTuple):
    """An HTTP answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class HttpEndpoint:
    """One base URL, many kept-alive connections. The session opens with the first request."""

    def __init__(self, base_url: str, key: str | None, timeout: float) -> None:
        self.base_url = base_url.rstrip("/")
        self._headers = {"Content-Type": "application/json"}
        if key:
            self._headers["Authorization"] = f"Bearer {key}"
        self._timeout = aiohttp.ClientTimeout(total=timeout, sock_connect=min(timeout, _CONNECT_SECONDS))
        self._seconds = timeout
        self._urls: dict[str, URL] = {}
        self._session: aiohttp.ClientSession | None = None

    async def post(self, path: str, body: bytes) -> Reply:
        """One POST. Connection faults and timeouts are ModelErrors that may be retried."""
        return await self._exchange("POST", path, body)

    async def get(self, path: str) -> Reply:
        """One GET, with the same faults."""
        return await self._exchange("GET", path, None)

    async def _exchange(self, method: str, path: str, body: bytes | None) -> Reply:
        url = self._urls.get(path)
        if url is None:
            url = self._urls[path] = URL(self.base_url + path)
        if self._session is None:
            self._session = self._open()
        try:
            async with self._session.request(method, url, data=body, allow_redirects=False) as answer:
                return Reply(answer.status, answer.headers, await answer.read())
        except aiohttp.ConnectionTimeoutError:
            raise _failed("unreachable", f"{self.base_url} cannot be reached: it does not answer") from None
        except aiohttp.ClientConnectorError as error:
            raise _failed("unreachable", f"{self.base_url} cannot be reached: {error.os_error}") from None
        except TimeoutError:
            raise _failed("timeout", f"no answer from {self.base_url} within {self._seconds:g} s") from None
        except (aiohttp.ClientError, OSError) as error:
            what = str(error) or type(error).__name__
            raise _failed("connection", f"the connection to {self.base_url} broke: {what}") from None

    def _open(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=self._headers,
            skip_auto_headers=("Accept", "Accept-Encoding", "User-Agent"),
            timeout=self._timeout,
        )

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()


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
