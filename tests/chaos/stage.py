"""Where a scenario is played: a folder with a run, an endpoint that counts, and the undisturbed run to compare with.

with Lab(root) as lab:
stage = Stage(lab, configuration, Random(17))
stage.start(Disturbance("kill", point=9))    # checks what was sent and what was logged
stage.finish()                               # starts until the run has ended, compares it with a whole one
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import pickle
import re
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from random import Random
from typing import Any, Literal, Self

import msgspec

from assay.engine import caller
from assay.journal import journal, sidecar
from assay.models.http import wire

from chaos.configuration import CONFIGURATIONS, OUTPUT, Configuration, How
from chaos.oracle import Whole, check_readable, check_same, check_text, read_logged, read_run, run_folders
from chaos.process import Ended, Job, Process, start, warm_up
from chaos.ray_nodes import RayNodes
from chaos.write_points import Disturbance
from servers.fake_openai import Behaviour, FakeOpenAI, Seen

Executor = Literal["local", "ray"]
SMALL_DISK_BYTES = 6 << 20
_NEW_NAMESPACE, _PRIVATE, _REMOUNT, _READ_ONLY = 0x00020000, (1 << 18) | (1 << 14), 32, 1
# Waits before another attempt, and the largest reply: what is tested is the way, which small values take too.
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS, _MAX_BODY_BYTES = 0.005, 0.05, 4 << 20


class Lab:
    """A process that plays scenarios: its endpoint, its small disk, and the undisturbed runs."""

    def __init__(self, root: Path, executor: Executor = "local") -> None:
        self.root = root
        self.logs = root / "logs"
        self.disk = root / "disk"
        self.has_disk = False
        self.server = FakeOpenAI()
        self.nodes = RayNodes() if executor == "ray" else None
        """The cluster on which runs go on. None: they run in their own process."""
        self._wholes: dict[tuple[str, bytes], Whole] = {}

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True, exist_ok=True)
        self.disk.mkdir()
        self.has_disk = self._mount()
        self.server.__enter__()
        self._warm_up()
        if self.nodes is not None:
            import_module("ray.exceptions")  # starts no thread
            self.nodes.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self.server.kill()
        if self.nodes is not None:
            self.nodes.__exit__()
        if self.has_disk:
            ctypes.CDLL(None).umount2(bytes(self.disk), 2)
        shutil.rmtree(self.root, ignore_errors=True)

    def _mount(self) -> bool:
        """Mount a small disk that only this process and its copies see. Returns False where that is forbidden."""
        c = ctypes.CDLL(None)
        if c.unshare(_NEW_NAMESPACE) or c.mount(b"none", b"/", None, _PRIVATE, None):
            return False
        size = f"size={SMALL_DISK_BYTES}".encode()
        return not c.mount(b"none", bytes(self.disk), b"tmpfs", 0, size)

    def set_read_only(self, *, on: bool) -> None:
        """Make the small disk read-only, or writable again."""
        size = f"size={SMALL_DISK_BYTES}".encode()
        flags = _REMOUNT | (_READ_ONLY if on else 0)
        assert not ctypes.CDLL(None).mount(b"none", bytes(self.disk), b"tmpfs", flags, size)

    def _warm_up(self) -> None:
        """Import all that runs and readers import, once, in this process."""
        jobs: list[Job] = []
        for configurations in CONFIGURATIONS.values():
            for configuration in configurations:
                stage = Stage(self, configuration, Random(0), name=f"warm-{len(jobs)}")
                job = stage.job(How())
                jobs.append(job._replace(run=partial(_run_and_read, job)))
        self.server.behave(wrap=CONFIGURATIONS["calibration"][0].wrap)
        warm_up(jobs)
        gc.collect()
        gc.freeze()

    def whole(self, configuration: Configuration, behaviour: Behaviour) -> Whole:
        """Return the undisturbed run of a configuration at an endpoint of this behaviour."""
        key = str(configuration), msgspec.json.encode(behaviour)
        if key not in self._wholes:
            stage = Stage(self, configuration, Random(0), name="whole")
            self.server.reset()
            self.behave(behaviour)
            ended = start(stage.job(How())).end()
            check_text(ended)
            requests = Counter(seen.reply for seen in self.requests("start-1") if _is_answered(seen))
            self.server.reset()  # a scenario asks for this run before its first start
            path = self.root / "whole.pickle"

            def read() -> int:
                path.write_bytes(pickle.dumps(read_run(stage.folder, ended.code, ended.points, requests)))
                return 0

            job = Job(stage.folder, read, self.logs)
            reading = start(job, count=False).end()
            assert reading.code == 0, ended.text + reading.text
            self._wholes[key] = pickle.loads(path.read_bytes())
        return self._wholes[key]

    def behave(self, behaviour: Behaviour) -> None:
        """Let the endpoint answer like this."""
        self.server.behave(**{name: getattr(behaviour, name) for name in behaviour.__struct_fields__})

    def requests(self, key: str) -> list[Seen]:
        """Return what one start has sent."""
        return [seen for seen in self.server.stats().requests if seen.key == key]


class Stage:
    """One run that is disturbed, and then compared."""

    def __init__(
        self,
        lab: Lab,
        configuration: Configuration,
        random: Random,
        *,
        name: str = "stage",
        small: bool = False,
    ) -> None:
        """With `small`, the run is on the small disk, if there is one."""
        self.lab = lab
        self.configuration = configuration
        self.random = random
        self.is_small = small and lab.has_disk
        self.folder = (lab.disk if self.is_small else lab.root) / name
        self.large = False
        """Whether the index is kept in sidecars, as for a run of many lines."""
        self.damaged = False
        """Whether lines of the log may be lost."""
        self.flags: list[str] = []
        """Flags of every start: where the cases run."""
        self.refused = False
        """Whether the run cannot go on before its damage is dealt with."""
        self.behaviour = Behaviour(wrap=configuration.wrap)
        self.lasting = self.behaviour
        """How the endpoint behaves in the undisturbed run, too."""
        self.was_bad = False
        """Whether the endpoint has failed to answer in an earlier start."""
        self.how = How()
        self.starts = 0
        self.cpu = 0.0
        self.told: list[str] = []
        shutil.rmtree(self.folder, ignore_errors=True)
        configuration.write(self.folder)

    @property
    def whole(self) -> Whole:
        """The undisturbed run."""
        return self.lab.whole(self.configuration, self.lasting)

    def point(self) -> int:
        """Draw the number of a write point. The last ones may not be reached by a continued run."""
        return 1 + int(self.random.random() * self.whole.points * 1.02)

    def job(
        self,
        how: How,
        more: Sequence[str] = (),
        change: Callable[[], object] = lambda: None,
        key: str = "start-1",
    ) -> Job:
        """Return a start of the run."""
        url = self.lab.server.url

        def prepare() -> None:
            caller.FIRST_WAIT_SECONDS = _FIRST_WAIT_SECONDS
            caller.LONGEST_WAIT_SECONDS = _LONGEST_WAIT_SECONDS
            wire.MAX_BODY_BYTES = _MAX_BODY_BYTES
            if self.large:
                sidecar.MIN_LINES = 1
                vars(journal)["MIN_LINES"] = 1
            change()

        environment = {"OPENAI_API_KEY": key, "ASSAY_DATA": "calibrations", "COLUMNS": "100"}
        run = partial(self.configuration.start, url, how, [*self.flags, *more])
        return Job(self.folder, run, self.lab.logs / key, environment, prepare)

    # One start.

    def begin(self, disturbance: Disturbance | None = None, **job: Any) -> Process:
        """Start the run without waiting for it. The caller checks it with `account`."""
        self.starts += 1
        return start(self.job(self.how, key=f"start-{self.starts}", **job), disturbance)

    def start(self, disturbance: Disturbance | None = None, **job: Any) -> Ended:
        """Start or continue the run, wait for its end, and check what was sent, logged and printed."""
        whole = self.whole  # may play it, at an endpoint of other behaviour
        self.was_bad = self.was_bad or bool(self.behaviour.faults)
        self.lab.behave(self.behaviour)
        before = read_logged(self.folder).replies
        ended = self.begin(disturbance, **job).end()
        self.account(ended, before, [self.starts])
        self.tell(f"start {self.starts}: exit code {ended.code}" + f" at {ended.reached}" * bool(ended.reached))
        if ended.code == whole.code and not ended.killed and self.behaviour == self.lasting:
            self.check(lambda: check_same(self.folder, whole, log=False, names=False))
        return ended

    def account(self, ended: Ended, before: Counter[str], starts: Sequence[int], *, lost: int = 0) -> None:
        """Check what some starts sent, of which `ended` is the last. `before` are the replies logged before them.

        `lost` replies may be missing in the log although no start was killed.
        """
        self.cpu += ended.cpu
        check_text(ended)
        seen = [each for number in starts for each in self.lab.requests(f"start-{number}")]
        sent = Counter(each.reply for each in seen)
        answered = Counter(each.reply for each in seen if _is_answered(each))
        missing = self.whole.requests - before
        if self.lasting.faults:
            again = set(answered - missing)
        elif self.behaviour.faults:
            again = sent.keys() - missing.keys()
        else:
            again = set(sent - missing)
        assert not again, f"sent although their replies were logged: {sorted(again)[:3]}, {len(again)} in all"
        after = read_logged(self.folder).replies
        if self.damaged:
            return
        assert not before - after, f"lost lines of the log: {before - after}"
        invented = (after - before) - answered
        assert not invented, f"logged replies that were not given: {invented}"
        in_flight = (answered - (after - before)).total()
        allowed = self.how.concurrency if ended.killed else lost
        # The endpoint may have answered an attempt that the client no longer waited for.
        if not self.behaviour.faults:
            assert in_flight <= allowed, f"{in_flight} replies that arrived are not in the log"

    def tell(self, what: str) -> None:
        """Note what happened, for the message of a failure."""
        self.told.append(what)

    def check(self, run: Callable[[], int]) -> None:
        """Run a check in a copy of this process, because readers of runs keep caches and threads."""
        ended = start(Job(self.folder, run, self.lab.logs / "check"), count=False).end()
        self.cpu += ended.cpu
        assert ended.code == 0, _assertion(ended.text)
        check_text(ended)

    # The end.

    def finish(self) -> None:
        """Start the run undisturbed, as people do after a fault, and compare it with an undisturbed one."""
        self.check(lambda: check_readable(self.folder))
        self.behaviour = self.lasting
        if self.flags and self.random.random() < 0.5:
            self.flags = []
            self.tell("the last start is without the cluster")
        self.how = How(concurrency=self.random.choice((1, 4, 8)))
        whole, more = self.whole, []
        ended = self.start()
        if ended.code == 3 and self.was_bad:
            # A case that went on after an endpoint's failure, and was then interrupted, ends with that failure. This
            # start asks again, as the message says.
            ended = self.start()
        for _ in range(4):
            if ended.code != 2 or not self.damaged:
                break
            more += self._heed(ended.text)
            ended = self.start(more=more)
        assert ended.code == whole.code, f"exit code {ended.code} instead of {whole.code}: {ended.text[-2000:]}"
        os.chdir(self.folder)
        one = len(run_folders()) == 1
        self.check(lambda: check_same(self.folder, whole, log=not self.damaged and one, names=one and not self.damaged))
        if self.random.random() < 0.3:
            sent = len(self.lab.server.stats().requests)
            again = self.start(more=[word for word in more if word != "--fresh"])
            assert again.code == whole.code, f"the finished run ends with {again.code}: {again.text[-2000:]}"
            assert len(self.lab.server.stats().requests) == sent, "a finished run sends requests"

    def _heed(self, message: str) -> list[str]:
        """Do what the message of a refused start says. Returns the flags that it names."""
        self.tell(f"refused: {message.strip().splitlines()[-1]}")
        run = str(min((self.folder / OUTPUT / "assay").iterdir()).relative_to(self.folder))
        if "--fresh --reuse" in message:
            return ["--fresh", "--reuse", run]
        match = re.search(r"(\S+): the file belongs to another run.*delete this one", message, re.DOTALL)
        assert match, f"no advice: {message}"
        (self.folder / match[1]).unlink()
        return []


def _is_answered(seen: Seen) -> bool:
    return seen.outcome in ("ok", "trickle", "old_http", "continue_first", "second_reply")


def _run_and_read(job: Job) -> int:
    job.run()
    return check_readable(job.folder)


def _assertion(text: str) -> str:
    """Return the message of the assertion that ended a check, without the lines of its traceback."""
    _, _, message = text.rpartition("AssertionError: ")
    return message.strip() if message != text else text[-3000:]


@contextlib.contextmanager
def filled_disk(disk: Path, free: int) -> Any:
    """Fill the small disk but for so many bytes."""
    filler = disk / "filler"
    status = os.statvfs(disk)
    size = max(0, status.f_bavail * status.f_frsize - free)
    with filler.open("wb") as file:
        os.posix_fallocate(file.fileno(), 0, size) if size else None
    try:
        yield
    finally:
        filler.unlink()
