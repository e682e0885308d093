"""One start of a run: the one place that puts suite, engine, journal and models together."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext, suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

import assay
from assay.core import registry
from assay.core.connect import CHAT, Role, role_of
from assay.core.differing import differences
from assay.core.envfile import keys_in
from assay.core.errors import AssayError, ModelRefused, StopRun, UsageError, cannot_write
from assay.core.events import Event, Noted, Notify
from assay.core.hashing import fingerprint
from assay.core.protocols import Model, Outcome, Plan, RunFacts, Upstream
from assay.core.spec import RunSpec, marked
from assay.engine.context import SharedEndpoint
from assay.engine.loop import Loop, Setup
from assay.journal import folder as folders
from assay.journal.calls import ReusableCalls
from assay.journal.folder import HOME, RunFolder, RunInfo, Summary
from assay.journal.journal import Journal
from assay.journal.redact import Redactor, secrets_from_environment
from assay.models.calling.caller import Caller, CallLedger
from assay.models.calling.connect import ReplayOnlyModel, connect
from assay.models.calling.gateway import Gateway, sdk_environment
from assay.models.calling.permits import Permits
from assay.store.runs import find_run

GRACE_SECONDS = 10.0
"""How long Ctrl-C lets running calls finish: they are paid."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NO_SIGNALS = (NotImplementedError, RuntimeError, ValueError)
"""What says that this is not the main thread, or a platform without signals: then nobody is to be heard."""


class Run(NamedTuple):
    """A run as it stands after a start: where it is, what it found, and how the process should exit."""

    folder: Path
    info: RunInfo
    summary: Summary
    exit_code: int
    reason: str = ""
    asked: bool = True

    @property
    def results(self) -> dict[str, Any]:
        """The suite's numbers, with denominators."""
        return self.summary.results

    @property
    def files(self) -> list[Path]:
        """The format's own files."""
        return [Path(name) for name in self.summary.files]


class Start:
    """One start of a run: resolve, find or make its folder, loop, write."""

    def __init__(
        self, spec: RunSpec, observers: Sequence[Notify], *, unasked: ReplayOnlyModel | None = None
    ) -> None:
        suite = registry.find("suite", spec.suite)
        if hasattr(suite, "normalise"):
            spec = suite.normalise(spec)
        self._asks, given = unasked is None, spec
        self.models: dict[str, Model] = {}
        if unasked or spec.model:
            self.models["main"] = unasked or connect(spec, spec.model)
            spec = msgspec.structs.replace(spec, base_url=self.models["main"].endpoint or None)
        self.spec = spec
        self.plan: Plan = suite.plan(spec)
        self._named: Mapping[str, str | Role] = getattr(self.plan, "roles", {"main": spec.model})
        self.roles = {role: role_of(named) for role, named in self._named.items()}
        for role, named in self._named.items():
            if role not in self.models or isinstance(named, Role):
                self.models[role] = (unasked and unasked.for_role(role)) or connect(given, named)
        self._shared_role = (
            getattr(self.plan, "common_role", "main") if getattr(self.plan, "common", False) else None
        )
        self._secrets = self._known_secrets()
        self._refuse_what_the_models_cannot()
        named = {"suite": registry.identity(spec.suite), "plan": self.plan.ask}
        self._refuse_secrets()
        self.parts = {"ask": marked(spec, "ask") | named | self._other_models()}
        self.ask = fingerprint(self.parts["ask"])
        self.score = fingerprint(marked(spec, "score") | {"plan": self.plan.score} | self._other_judge())
        self.home = Path(spec.output_dir) / HOME
        self._reused = find_run(spec.reuse, other_than=f"-{self.ask}") if spec.reuse else None
        self._observers = list(observers)
        self._spent_now: dict[str, int] = {}
        self._unscored = 0

    def _other_models(self) -> dict[str, Any]:
        """What else is asked besides --model, each at its endpoint. No key is part of it."""
        others = {
            role: [self.roles[role].model, self.models[role].endpoint]
            for role, named in self._named.items()
            if role not in ("main", "judge") or (role == "main" and isinstance(named, Role))
        }
        return {"models": others} if others else {}

    def _other_judge(self) -> dict[str, Any]:
        """A judge that has an endpoint of its own."""
        named = self._named.get("judge")
        return {"judge": [named.model, self.models["judge"].endpoint]} if isinstance(named, Role) else {}

    def _refuse_what_the_models_cannot(self) -> None:
        if self._shared_role is not None and self._shared_role not in self.roles:
            raise UsageError(
                f"this run has no model for the role {self._shared_role!r}, which its code may ask"
            )
        for role, named in self.roles.items():
            needs = frozenset({CHAT}) if role == "judge" else self.plan.needs
            if missing := needs - self.models[role].can:
                raise UsageError(
                    f"{named.model} cannot do {', '.join(sorted(missing))}, which this run needs"
                )

    def _known_secrets(self) -> list[str]:
        """What must not be written: secrets of the environment, and all keys of the files that roles name."""
        found = secrets_from_environment({named.key for named in self.roles.values() if named.key})
        files = {named.env_file for named in self.roles.values() if named.env_file}
        return [*found, *(key for file in files for key in keys_in(file).values())]

    def _refuse_secrets(self) -> None:
        told = msgspec.json.encode(self.spec)
        if Redactor(self._secrets)(told) != told:
            raise UsageError(
                "an option holds a secret of the environment; options are written down, keys are not"
            )

    def _found(self) -> Path | None:
        return None if self.spec.fresh else folders.find(self.home, self.spec.suite, self.ask)

    def shown(self) -> Run | None:
        """The run as it is, if nothing is left to ask, score or write."""
        path = self._found()
        summary = folders.read_summary(path) if path else None
        if path is None or summary is None or summary.state != "finished" or summary.score != self.score:
            return None
        if self.spec.retry_failed and summary.subject_error:
            return None
        if not all(Path(file).is_file() for file in summary.files):
            return None
        if folders.written_over(path, summary, self.spec.suite):
            return None
        folders.show_newest(path, summary)
        return Run(path, folders.read_info(path), summary, summary.exit_code, asked=False)

    async def run(self) -> Run:
        """Ask, score and write what is left."""
        folder, info = self._open()
        try:
            return await self._run_in(folder, info)
        except ModelRefused:
            if folder.created:
                folder.discard()
            raise
        finally:
            folder.close()

    async def close(self) -> None:
        """Let go of every model, and of what the suite started."""
        for model in self.models.values():
            await model.close()
        if hasattr(self.plan, "close"):
            await self.plan.close()

    def _open(self) -> tuple[RunFolder, RunInfo]:
        """The run's folder, locked. Bad input is refused before a new one is made."""
        path = self._found()
        facts = self.plan.prepare(folders.read_info(path).facts if path else None)
        with folders.choosing(self.home):
            path = path or self._found()
            if path is not None:
                folder = RunFolder(path, created=False)
                return folder, folder.info()
            self._refuse_another()
            info = self._info(facts)
            return folders.create(self.home, info), info

    def _refuse_another(self) -> None:
        """Files of fixed names are paid work: another run's are not written over by chance."""
        if self.spec.fresh or not getattr(self.plan, "alone", False):
            return
        for other in folders.of_suite(self.home, self.spec.suite):
            now = msgspec.to_builtins(self.parts["ask"], str_keys=True)
            places = list(differences(folders.read_info(other).parts["ask"], now))
            told = [place for place in places if not place.startswith("plan.")]
            named = ", ".join(told) or "data, prompts or code"
            raise UsageError(
                f"{self.spec.output_dir} holds a run with other settings ({named}): {other}\n"
                "Repeat its command to continue it, name another --output-dir, or start anew with --fresh"
            )

    def _info(self, facts: dict[str, Any]) -> RunInfo:
        return RunInfo(
            suite=self.spec.suite,
            ask=self.ask,
            started=time.time(),
            version=assay.__version__,
            total=self.plan.total,
            command=sys.argv,
            spec=msgspec.to_builtins(self.spec),
            parts=msgspec.to_builtins(self.parts, str_keys=True),
            facts=facts,
        )

    async def _run_in(self, folder: RunFolder, info: RunInfo) -> Run:
        started = time.perf_counter()
        folders.reopen(folder.path)
        journal = Journal(folder.path, [scorer.id for scorer in self.plan.scorers], self._secrets)
        try:
            with chdir("."):  # user code may leave for another folder
                stopped = await self._loop(journal, info)
            if isinstance(stopped, ModelRefused) and not journal.empty:
                folder.created = False
            if stopped and not isinstance(stopped, (StopRun, KeyboardInterrupt)):
                raise stopped
            seconds = time.perf_counter() - started
            return self._finish(journal, folder, info, seconds, stopped)
        finally:
            journal.close()

    async def _loop(self, journal: Journal, info: RunInfo) -> BaseException | None:
        spec = self.spec
        reuse = ReusableCalls(self._reused).find if self._reused else None
        ledger = CallLedger(journal, self._notify, spec.max_calls, reuse)
        upstreams = {role: Upstream(named.model, self.models[role]) for role, named in self.roles.items()}
        permits = {up.model.endpoint: Permits(spec.concurrency) for up in upstreams.values()}
        gateway = Gateway(upstreams)
        callers = {
            role: Caller(up, permits[up.model.endpoint], ledger, seed=spec.seed, max_retries=spec.max_retries)
            for role, up in upstreams.items()
        }
        open_cases = self._open_cases()
        shared = await self._open_shared_endpoint(gateway, callers, journal, only_open_case=open_cases == 1)
        loop = Loop(
            Setup(
                plan=self.plan,
                journal=journal,
                models=callers,
                gate=next(iter(permits.values()), Permits(spec.concurrency)),
                halt=ledger.halt,
                notify=self._notify,
                open_cases=open_cases,
                retry_failed=spec.retry_failed,
                seed=spec.seed,
                started=info.started,
                gateway=gateway,
                shared_endpoint=shared,
                asks=self._asks,
            )
        )
        for notice in self.plan.notices:
            self._notify(Noted(notice))
        with interruptible(loop), sdk_environment(shared.endpoint.url) if shared else nullcontext():
            try:
                await loop.run()
            except (AssayError, KeyboardInterrupt) as error:
                return error
            finally:
                await gateway.close()
                self._spent_now = ledger.counts()
                self._unscored = loop.unscored
        return None

    def _open_cases(self) -> int:
        """What the plan says, else as many as calls may be in flight; never more than there are cases."""
        most = getattr(self.plan, "open_cases", None) or self.spec.concurrency
        return min(most, max(1, self.plan.total))

    async def _open_shared_endpoint(
        self, gateway: Gateway, callers: dict[str, Caller], journal: Journal, *, only_open_case: bool
    ) -> SharedEndpoint | None:
        """The endpoint for code that knows nothing of cases, where the plan wants one."""
        role = self._shared_role
        if role is None or not self._asks:
            return None
        await gateway.start()
        asker = callers[role].bind_shared(journal.shared_replies())
        endpoint = gateway.open_shared_endpoint(role, asker)
        return SharedEndpoint(role, asker, endpoint, only_open_case)

    def _notify(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    def _finish(
        self, journal: Journal, folder: RunFolder, info: RunInfo, seconds: float, stopped: Any
    ) -> Run:
        outcome = Outcome({}, [])
        if not stopped:
            try:
                outcome = Outcome(
                    *self.plan.finish(journal.reader, RunFacts(info.started, seconds, folder.path))
                )
            except OSError as error:
                stopped = cannot_write(error.filename or self.spec.output_dir, error)
        for notice in outcome.notices:
            self._notify(Noted(notice))
        summary = self._summary(journal, seconds, stopped, outcome)
        try:
            folders.write_json(folder.path / "summary.json", summary)
            folders.show_newest(folder.path, summary)
        except StopRun:
            if not stopped:
                raise
        return Run(folder.path, info, summary, summary.exit_code, reason=str(stopped or ""))

    def _summary(self, journal: Journal, seconds: float, stopped: Any, outcome: Outcome) -> Summary:
        counts = journal.counts(self.plan.total)
        left = counts["infra_error"] + self._unscored
        return Summary(
            state="stopped" if stopped else "incomplete" if left else "finished",
            score=self.score,
            scorers=[scorer.id for scorer in self.plan.scorers],
            total=self.plan.total,
            ok=counts["ok"],
            subject_error=counts["subject_error"],
            infra_error=counts["infra_error"],
            exit_code=_exit_code(stopped, outcome, left),
            seconds=seconds,
            spent=journal.spent(),
            this_start=self._spent_now,
            files=[str(path) for path in outcome.files],
            results=outcome.results,
            failures=journal.failures(),
            newest=str(outcome.newest or ""),
            unscored=self._unscored,
        )


def _exit_code(stopped: BaseException | None, outcome: Outcome, without_answer: int) -> int:
    """A failed check speaks louder than cases without an answer."""
    if stopped:
        return 130 if isinstance(stopped, KeyboardInterrupt) else 3
    if outcome.passed is False:
        return 1
    return 3 if without_answer else 4 if outcome.passed is None else 0


class interruptible:  # noqa: N801 - used as a with statement reads
    """Within this, Ctrl-C or a CI's SIGTERM stops the loop kindly; a second one stops it at once."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self._count = 0

    def __enter__(self) -> None:
        with suppress(*_NO_SIGNALS):
            for number in _SIGNALS:
                asyncio.get_running_loop().add_signal_handler(number, self._interrupted)

    def __exit__(self, *_: object) -> None:
        with suppress(*_NO_SIGNALS):
            for number in _SIGNALS:
                asyncio.get_running_loop().remove_signal_handler(number)

    def _interrupted(self) -> None:
        self._count += 1
        if self._count == 1:
            self._loop.stop(KeyboardInterrupt("interrupted"))
            asyncio.get_running_loop().call_later(GRACE_SECONDS, self._loop.cancel)
        else:
            self._loop.cancel()
