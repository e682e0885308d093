"""Examines an installation and a model, and says what to do about each problem: `assay doctor`.

    diagnosis = await examine(spec, probe_limits=0)
    diagnosis.usable        # whether no finding is a problem
    diagnosis.findings      # each with a level, a text and an advice

A model is examined through the interface that every provider has: it gets a few small requests, at most MAX_CALLS. So
this file knows no provider.
"""

from __future__ import annotations

import asyncio
import os
import platform
import re
import shutil
import ssl
import tempfile
import time
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

import msgspec
from msgspec import Struct

import assay
from assay.core.errors import AssayError, ModelError, UsageError, write_advice
from assay.core.protocols import Model
from assay.core.roles import CHAT, EMBEDDINGS, FORWARD, LIKELIHOOD, SCHEMA, About, Role, response_format
from assay.core.spec import RunSpec
from assay.core.types import Failure, Request, Response, SdkRequest
from assay.engine.connect import connect
from assay.engine.reasoning import split_reasoning
from assay.models.http.client import REQUESTS_SPENT, RequestLimit, request_limit
from assay.models.http.proxies import proxy_for
from assay.models.likelihood.endpoint import PROBE_TEXT
from assay.usercode import plugins
from assay.usercode.model_args import check_arguments, with_options_of_arguments

# Requests that one examination may send, without --probe-limits.
MAX_CALLS = 8
# Extras for people who work on assay itself.
_DEVELOPMENT = frozenset({"dev", "browser", "oracle", "test-mem0", "test-langmem", "test-graphiti", "test-hf"})
# Room that a small run needs, and that a large one may need.
_LITTLE_ROOM, _MUCH_ROOM = 50e6, 1e9
# A first reply that takes longer than this makes a run of hundreds of cases take hours.
_SLOW_SECONDS = 20.0
# The rate of replies must grow by this factor for more requests at once to be worth it.
_WORTHWHILE = 1.2

Level = Literal["ok", "warning", "problem"]


class Finding(Struct, frozen=True):
    """One line of the diagnosis. `advice` says what to do, and is empty if nothing is to be done."""

    group: str
    name: str
    level: Level
    text: str
    advice: str = ""


class Diagnosis(Struct, frozen=True):
    """All findings, in reading order. `calls` counts the requests that were sent to the model."""

    model: str
    usable: bool
    calls: int
    findings: list[Finding]


async def examine(spec: RunSpec, probe_limits: int = 0) -> Diagnosis:
    """Examine the installation, and the model of the spec if it names one.

    Raises UsageError for an unknown provider, and for an argument that it does not take.

    With `probe_limits` it also sends up to twice as many requests, ever more at once, to find the endpoint's limits.
    """
    about = plugins.find("model", spec.model.partition("/")[0]).ABOUT if "/" in spec.model else None
    findings = [*_installation(), _output_folder(Path(spec.output_dir or "results"))]
    probe: ModelProbe | None = None
    if about is not None:
        spec = with_options_of_arguments(spec)
        check_arguments(spec, Role(spec.model))
    if spec.model:
        try:
            model = connect(spec, spec.model)
        except AssayError as error:
            if about is None:  # no provider is named, so nothing can be said about the model
                raise
            findings += [*_network(spec, ""), *_keys(about)]
            findings.append(Finding("model", "connection", "problem", f"{spec.model} cannot be used: {error}"))
        else:
            probe = ModelProbe(spec, model)
            findings += [*_network(spec, probe.address or model.endpoint)]
            findings += _keys(about) if probe.address else []
            try:
                findings += await probe.run(probe_limits)
            finally:
                await model.close()
    else:
        findings += _network(spec, "")
    usable = all(finding.level != "problem" for finding in findings)
    return Diagnosis(spec.model, usable, probe.calls if probe else 0, findings)


# The machine.


def _installation() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.machine()}"
    text = f"assay {assay.__version__}, Python {platform.python_version()}, {system}"
    yield Finding("installation", "version", "ok", text)
    installed: list[str] = []
    missing: list[str] = []
    for extra, packages in sorted(_extras().items()):
        (installed if all(map(_is_installed, packages)) else missing).append(extra)
    text = f"installed: {', '.join(installed) or 'none'}"
    advice = f"for {', '.join(missing)}: pip install 'assay[NAME]'" if missing else ""
    yield Finding("installation", "extras", "ok", text, advice)


def _extras() -> dict[str, list[str]]:
    """Return the packages of each extra that users may want, from assay's own metadata."""
    try:
        requirements = metadata.requires("assay") or []
    except metadata.PackageNotFoundError:  # a source folder on the path
        return {}
    extras: dict[str, list[str]] = {}
    for requirement in requirements:
        package = re.match(r"[\w.-]+", requirement)
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if package and extra and extra[1] not in _DEVELOPMENT and package[0] != "assay":
            extras.setdefault(extra[1], []).append(package[0])
    return extras


def _is_installed(package: str) -> bool:
    try:
        metadata.distribution(package)
    except metadata.PackageNotFoundError:
        return False
    return True


def _output_folder(folder: Path) -> Finding:
    """Write a file into the folder, or into the first parent that exists: the folder itself is not created."""
    existing = next((each for each in (folder, *folder.absolute().parents) if each.is_dir()), Path("/"))
    try:
        with tempfile.TemporaryFile(dir=existing) as file:
            file.write(bytes(4096))
        free = shutil.disk_usage(existing).free
    except OSError as error:
        advice = f"{write_advice(error)}, or choose another folder with --output-dir"
        return Finding("machine", "output folder", "problem", f"{existing} cannot be written: {error.strerror}", advice)
    text = f"{folder} can be written, {free / 1e9:,.1f} GB are free"
    if free < _LITTLE_ROOM:
        return Finding("machine", "output folder", "problem", text, "Make room: a run that cannot write stops")
    if free < _MUCH_ROOM:
        return Finding("machine", "output folder", "warning", text, "Make room before a large run")
    return Finding("machine", "output folder", "ok", text)


def _network(spec: RunSpec, endpoint: str) -> Iterator[Finding]:
    """Check proxies and certificates. Both are skipped for a model without a network."""
    if endpoint and not _is_url(endpoint):
        return
    proxies = {
        name: value
        for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")
        if (value := os.environ.get(name.lower()) or os.environ.get(name))
    }
    shown = ", ".join(f"{name}={_without_password(value)}" for name, value in proxies.items())
    if not proxies.keys() - {"NO_PROXY"}:
        yield Finding("network", "proxy", "ok", "none is set in the environment")
    elif not endpoint:
        yield Finding("network", "proxy", "ok", shown)
    else:
        host = urlsplit(endpoint).hostname or ""
        try:
            used = proxy_for(endpoint, os.environ)
        except UsageError as error:
            yield Finding("network", "proxy", "problem", str(error))
            return
        use = f"{host} is reached through {used.url}" if used else f"not used for {host}"
        yield Finding("network", "proxy", "ok", f"{shown}; {use}")
    if spec.ca_file:
        yield _certificates("--ca-file", Path(spec.ca_file))
        return
    if spec.insecure:
        advice = "Leave --insecure out, and name the PEM file of your authority with --ca-file"
        yield Finding("network", "certificates", "warning", "not checked, as --insecure says", advice)
        return
    for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"):
        if path := os.environ.get(name):
            yield _certificates(name, Path(path))


def _without_password(text: str) -> str:
    """Return a URL, or a list of hosts, with the credentials of the URL hidden."""
    return re.sub(r"(?<=//)[^/@\s]*@", "…@", text) if "//" in text else re.sub(r"^[^/@\s]*@", "…@", text)


def _certificates(name: str, path: Path) -> Finding:
    advice = f"Correct {name}, or leave it out to use the system's certificates"
    if name == "SSL_CERT_DIR":
        if path.is_dir():
            return Finding("network", "certificates", "ok", f"{name}={path}")
        return Finding("network", "certificates", "problem", f"{name}={path} is not a folder", advice)
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(path)
        count = len(context.get_ca_certs())
    except (OSError, ssl.SSLError) as error:
        reason = error.strerror or error
        return Finding("network", "certificates", "problem", f"{name}={path} cannot be used: {reason}", advice)
    return Finding("network", "certificates", "ok", f"{name}={path} has {count} certificates of authorities")


def _keys(about: About | None) -> Iterator[Finding]:
    """Check the variables with the provider's key. Values are never shown."""
    if about is None or not about.keys:
        return
    name = next((each for each in about.keys if os.environ.get(each)), "")
    if not name:
        advice = f"Fine for an endpoint that needs none, else: export {about.keys[0]}=…"
        is_not = "is not set" if len(about.keys) == 1 else "are not set"
        yield Finding("model", "key", "warning", f"{' and '.join(about.keys)} {is_not}", advice)
        return
    value = os.environ[name]
    if value != value.strip() or not value.isprintable() or value[0] in "'\"":
        advice = f"Set {name} again without quotes, spaces and line breaks around the key"
        yield Finding("model", "key", "problem", f"{name} has a space, a quote or a line break at an end", advice)
    else:
        yield Finding("model", "key", "ok", f"{name} is set")


def _is_url(endpoint: str) -> bool:
    return endpoint.startswith(("http://", "https://"))


# The model.


class ModelProbe:
    """Asks one model a few questions. No more than MAX_CALLS requests are sent, of whatever kind they are."""

    def __init__(self, spec: RunSpec, model: Model) -> None:
        self._limit = RequestLimit(MAX_CALLS)
        self._computed = 0
        self._spec = spec
        self._model = model
        self.address = model.endpoint if _is_url(model.endpoint) else spec.base_url or ""
        """The endpoint's base URL, empty for a model without a network."""
        self._adapted: tuple[str, ...] = ()
        self._can_chat = CHAT in model.can

    @property
    def calls(self) -> int:
        """The HTTP requests that were sent, and the replies of models that need none."""
        return self._limit.sent + self._computed

    async def run(self, probe_limits: int) -> list[Finding]:
        """Return the findings of the model, in reading order."""
        token = request_limit.set(self._limit)
        try:
            return await self._run(probe_limits)
        finally:
            request_limit.reset(token)

    async def _run(self, probe_limits: int) -> list[Finding]:
        started = time.perf_counter()
        try:
            response = await self._ask("Reply with one word: ready", temperature=0.0, max_tokens=64, stop=["\n\n\n"])
        except ModelError as error:
            return self._failed(error.failure)
        seconds = time.perf_counter() - started
        self._adapted = response.adapted
        findings = [*self._first_reply(response, seconds)]
        # A function or a file of replies takes every parameter and may ignore them all.
        if self.address or SCHEMA in self._model.can:
            findings += [self._parameters(), await self._schema(), await self._seed()]
        findings += [await self._likelihood(), *await self._embeddings()]
        if probe_limits:
            self._limit.most = self._limit.sent + 2 * probe_limits
            findings += await self._limits(probe_limits)
        return findings

    async def _send(self, request: Request, seed: int) -> Response:
        """Send a request. A model behind HTTP may need several for it."""
        sent = self._limit.sent
        try:
            response = await self._model.send(request, seed)
        except ModelError as error:
            if self._limit.sent == sent and error.failure.kind != REQUESTS_SPENT:
                self._computed += 1
            raise
        if self._limit.sent == sent:
            self._computed += 1
        return response

    async def _ask(self, text: str, seed: int | None = None, **params: Any) -> Response:
        """Send one request, as a task with a system message would."""
        messages, prompt = None, text
        if self._can_chat:
            system = {"role": "system", "content": "You are being tested. Be brief."}
            messages = [system, {"role": "user", "content": text}]
        request = Request(
            model=self._spec.model,
            endpoint=self._model.endpoint,
            prompt=None if messages else prompt,
            messages=messages,
            params=params,
        )
        seed = self._spec.seed if seed is None else seed
        return split_reasoning(await self._send(request, seed))

    def _failed(self, failure: Failure) -> list[Finding]:
        """Return the findings for a first request that failed."""
        name, advice = _FAILURES.get(failure.kind, ("first reply", ""))
        findings = []
        if self.address and failure.http:
            findings.append(Finding("model", "endpoint", "ok", f"{self.address} answers"))
        if "certificate" in failure.message.lower():
            name = "certificates"
            advice = "Name the PEM file of your company's authority with --ca-file or in SSL_CERT_FILE"
        if failure.kind == "not_recorded":
            text = "the file has no reply to a test question, so nothing more can be tried"
            return [*findings, Finding("model", "first reply", "ok", text)]
        return [*findings, Finding("model", name, "problem", failure.message, advice)]

    def _first_reply(self, response: Response, seconds: float) -> Iterator[Finding]:
        if self.address:
            checked = self.address.startswith("https://") and not self._spec.insecure
            tls = ", and its certificate is trusted" if checked else ""
            yield Finding("model", "endpoint", "ok", f"{self.address} answers{tls}")
        text = f"{self._spec.model} answered in {seconds:.1f} s"
        if not response.text.strip():
            why = "all 64 tokens went into its reasoning" if response.reasoning else f"finish: {response.finish}"
            advice = "Give a reasoning model room: --gen-kwargs max_tokens=4096"
            yield Finding("model", "first reply", "warning", f"{text}, but the reply is empty ({why})", advice)
        elif seconds > _SLOW_SECONDS:
            advice = "A run of many cases takes long. Begin with --limit"
            yield Finding("model", "first reply", "warning", text, advice)
        else:
            yield Finding("model", "first reply", "ok", f"{text}: {response.text.strip()[:40]!r}")
        if response.usage is None and self.address:
            advice = "Tokens and cost of runs stay unknown"
            yield Finding("model", "tokens", "warning", "the endpoint does not count tokens", advice)

    def _parameters(self) -> Finding:
        taken = ["temperature", "max_tokens", "seed", "stop"] + ["system role"] * self._can_chat
        if not self._adapted:
            return Finding("model", "parameters", "ok", f"takes {', '.join(taken)}")
        text = f"does not take all of {', '.join(taken)}. Requests are sent with: {', '.join(self._adapted)}"
        advice = ""
        if "no temperature" in self._adapted:
            advice = "Replies vary from run to run: use repeats or more cases"
        return Finding("model", "parameters", "warning" if advice else "ok", text, advice)

    def _spent(self, calls: int, name: str) -> Finding | None:
        """Return the finding that a check was left out, if `calls` more calls would be too many."""
        if self.calls + calls <= MAX_CALLS:
            return None
        return _spent_finding(name)

    async def _schema(self) -> Finding:
        name = "JSON schema"
        if spent := self._spent(1, name):
            return spent
        advice = "Judges and steps that need JSON then search for it in the text, and fail more often"
        schema = {
            "type": "object",
            "properties": {"colour": {"type": "string", "enum": ["red", "blue"]}},
            "required": ["colour"],
            "additionalProperties": False,
        }
        try:
            response = await self._ask(
                "Name the colour of the sky.", response_format=response_format(schema), max_tokens=256
            )
        except ModelError as error:
            return _not_tried(name, error.failure, "is not taken", advice)
        if "no response_format" in response.adapted:
            return Finding("model", name, "warning", "the provider leaves response_format out", advice)
        try:
            msgspec.json.decode(response.text, type=_Colour)
        except (msgspec.DecodeError, UnicodeDecodeError):
            text = f"response_format is taken, but the reply does not fit: {response.text.strip()[:60]!r}"
            return Finding("model", name, "warning", text, advice)
        return Finding("model", name, "ok", "replies fit a given schema")

    async def _seed(self) -> Finding:
        if "no seed" in self._adapted:
            advice = "Replies vary from run to run: use repeats or more cases"
            return Finding("model", "seed", "warning", "the endpoint takes no seed", advice)
        if spent := self._spent(2, "seed"):
            return spent
        question = "Write a random number with twelve digits."
        try:
            replies = [await self._ask(question, seed=7, temperature=1.0, max_tokens=48) for _ in range(2)]
        except ModelError as error:
            return _not_tried("seed", error.failure, "is not taken", "")
        if replies[0].text == replies[1].text:
            return Finding("model", "seed", "ok", "the same seed gave the same reply twice")
        advice = "Replies vary from run to run: use repeats or more cases"
        return Finding("model", "seed", "warning", "the same seed gave two different replies", advice)

    async def _likelihood(self) -> Finding:
        name = "likelihoods"
        if LIKELIHOOD not in self._model.can:
            advice = "Multiple-choice and perplexity tasks need a provider with loglikelihood: assay models"
            return Finding("model", name, "ok", "none from this model", advice)
        # An endpoint without a tokenizer needs three requests: two to find that out, and one that measures. The tokens
        # of this prompt are known from the probe, so an endpoint with a tokenizer needs four.
        if spent := self._spent(3 if self.address else 1, name):
            return spent
        request = Request(
            model=self._spec.model,
            endpoint=self._model.endpoint,
            prompt=PROBE_TEXT,
            continuation=" blue",
        )
        try:
            response = await self._send(request, self._spec.seed)
        except ModelError as error:
            advice = "Multiple-choice and perplexity tasks cannot run with this model"
            return _not_tried(name, error.failure, "cannot be measured", advice)
        text = f"measured: log p(' blue' | '{PROBE_TEXT}') = {response.data['logprob']:.2f}"
        return Finding("model", name, "ok", text)

    async def _embeddings(self) -> list[Finding]:
        if not self._model.can & {FORWARD, EMBEDDINGS}:
            return []
        if spent := self._spent(1, EMBEDDINGS):
            return [spent]
        request = Request(
            model=self._spec.model,
            endpoint=self._model.endpoint,
            sdk=SdkRequest("/embeddings", {"input": ["sky"]}),
        )
        try:
            response = await self._send(request, self._spec.seed)
            has_vector = bool(response.data["vectors"]["data"][0]["embedding"])
        except ModelError as error:
            if error.failure.kind == REQUESTS_SPENT:
                return [_spent_finding(EMBEDDINGS)]
            has_vector = False
        except (LookupError, TypeError):
            has_vector = False
        if not has_vector:
            advice = "Needed only as --embedder of memories: name an embedding model there"
            return [Finding("model", EMBEDDINGS, "ok", "none from this model", advice)]
        return [Finding("model", EMBEDDINGS, "ok", "returns vectors of texts")]

    async def _limits(self, most: int) -> list[Finding]:
        """Send ever more requests at once. Stops at the first rejected one, or where more bring nothing."""
        findings: list[Finding] = []
        best = 0.0
        good = 1
        at_once = 1
        while True:
            started = time.perf_counter()
            results = await asyncio.gather(
                *[
                    self._ask("Reply with one word: ready", seed=self._spec.seed + number, max_tokens=16)
                    for number in range(at_once)
                ],
                return_exceptions=True,
            )
            seconds = time.perf_counter() - started
            failures = [result.failure for result in results if isinstance(result, ModelError)]
            for result in results:
                if isinstance(result, BaseException) and not isinstance(result, ModelError):
                    raise result
            name, rate = f"{at_once} at once", (at_once - len(failures)) / seconds
            text = f"{at_once - len(failures)} replies in {seconds:.1f} s, {rate:.1f}/s"
            if failures:
                kinds = ", ".join(sorted({failure.kind for failure in failures}))
                text += f"; {len(failures)} failed ({kinds}): {failures[0].message}"
                findings.append(Finding("limits", name, "warning", text, f"Pass --concurrency {good}"))
                return findings
            if rate < best * _WORTHWHILE:
                advice = f"More at once brings little. Pass --concurrency {good}"
                findings.append(Finding("limits", name, "ok", text, advice))
                return findings
            findings.append(Finding("limits", name, "ok", text))
            best, good = max(best, rate), at_once
            if at_once == most:
                return findings
            at_once = min(at_once * 2, most)


class _Colour(Struct, forbid_unknown_fields=True):
    colour: Literal["red", "blue"]


def _spent_finding(name: str) -> Finding:
    return Finding("model", name, "warning", f"not tried: the {MAX_CALLS} calls of a diagnosis are spent")


def _not_tried(name: str, failure: Failure, refused: str, advice: str) -> Finding:
    """Return the finding for a request that failed: refused as such, or failed for another reason."""
    if failure.kind == REQUESTS_SPENT:
        return _spent_finding(name)
    if failure.kind in ("rejected", "unsupported", "not_found"):
        return Finding("model", name, "warning", f"{refused}: {failure.message}", advice)
    return Finding("model", name, "warning", f"could not be tried: {failure.message}", "Try again")


_UNREACHABLE = "Check the base URL, whether the server runs, and the proxy"
# What a failed first request was about, and what to do, by the kind of the failure.
_FAILURES = {
    "unreachable": ("endpoint", _UNREACHABLE),
    "connection": ("endpoint", _UNREACHABLE),
    "timeout": ("endpoint", "Try again with a longer --timeout, or see whether the server is busy"),
    "server_error": ("endpoint", "Try again later, and look into the server's log"),
    "rate_limited": ("endpoint", "Wait, or ask for a higher limit of this key"),
    "auth": ("key", "Use another key, or ask for access to this model"),
    "not_found": ("model name", "Look up the model's exact name at the endpoint"),
}
