"""RayCluster: the connection to a Ray cluster, and how many workers it holds.

    cluster = RayCluster(RaySettings(address=None, workers=4))
    await cluster.connect()        # starts a cluster of this machine if there is no address; takes seconds
    cluster.worker_count()         # 4, or ExecutorRefused with the room on each node
    await cluster.leave()

Runs of one process share a connection. Ray's usage statistics are off.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import socket
import sys
import threading
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, TypeVar

from msgspec import Struct

from assay.core.errors import ExecutorRefused, MissingExtra
from assay.core.threads import DaemonPool
from assay.executors.ray_actor import WorkerActor
from assay.usercode.process_end import leave_threads

if TYPE_CHECKING:
    from types import ModuleType

T = TypeVar("T")
# Ray reads these variables when it is imported. Nothing is sent to Ray's makers, and it prints nothing to the standard
# output, which belongs to the report: a lost worker is told by assay.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
_PROBE_SECONDS = 5.0
# Linux ends the processes of a local cluster with the thread that started them. This one ends with the process.
_THREAD = DaemonPool(1, "assay-ray")
# A program that is interrupted while Ray starts waits so long at its end: Ray's own end fails in the middle of a start.
_MAX_START_SECONDS = 60.0


class RaySettings(Struct, frozen=True, kw_only=True):
    """The options of `--executor ray`."""

    address: str | None = None
    """Address of a cluster. None starts a cluster of this machine, which ends with the run."""
    workers: int | None = None
    """None: as many as the cluster holds, but at most `max_workers`."""
    max_workers: int = 1
    """More would never have a case."""
    cpus: float = 1.0
    gpus: float = 0.0


class _Connection:
    """The connection of this process. The last run that uses it closes it, unless the user's program made it.

    Only the thread of Ray reads and changes it.
    """

    runs = 0


class RayCluster:
    """A cluster as one run uses it."""

    def __init__(self, settings: RaySettings) -> None:
        self._settings = settings
        self.address = settings.address or os.environ.get("RAY_ADDRESS") or "local"
        self._ray: ModuleType | None = None
        self._is_counted = False
        self._lock = threading.Lock()
        self._is_connecting = False
        self._is_left = False

    @property
    def is_local(self) -> bool:
        """Whether it is started on this machine and ends with the run."""
        return self.address == "local"

    @property
    def need(self) -> str:
        """What a worker needs: `1 CPU`."""
        gpus = f" and {self._settings.gpus:g} GPU" if self._settings.gpus else ""
        return f"{self._settings.cpus:g} CPU{gpus}"

    def describe(self) -> str:
        """Return what a run would use, for `--dry-run`. Nothing is started and nobody is asked."""
        settings = self._settings
        if settings.workers is None:
            workers = f"as many workers of {self.need} as it holds, at most {settings.max_workers}"
        else:
            workers = f"{settings.workers} {'worker' if settings.workers == 1 else 'workers'} of {self.need}"
        if find_spec("ray") is None:
            raise MissingExtra("--executor ray", "ray")
        if not self.is_local:
            return f"Ray at {self.address}: {workers}. It is not asked before the run starts"
        # Ray may count fewer in a container, but never more. It finds GPUs only when it starts.
        cpus = os.cpu_count() or 1
        where = f"Ray, a cluster of this machine with {'1 CPU' if cpus == 1 else f'{cpus} CPUs'}"
        if (settings.workers or 1) * settings.cpus > cpus:
            return f"{where}: {workers}, which do not fit. The run would be refused"
        return f"{where}: {workers}"

    @property
    def ray(self) -> ModuleType:
        """The package, connected."""
        assert self._ray is not None
        return self._ray

    async def is_connected(self) -> bool:
        """Return whether this program is connected to a cluster already. The run then uses that one."""
        # Only Ray itself can have connected. Another run may be importing it now.
        return "ray" in sys.modules and await _THREAD.run(lambda: bool(import_module("ray").is_initialized()))

    async def connect(self) -> None:
        """Import Ray, and connect to the cluster or start one. Raises ExecutorRefused if that is not possible.

        Ray's start cannot be interrupted. If this coroutine is cancelled, call `leave`.
        """
        self._is_connecting = True
        await _THREAD.run(self._connect)

    def _connect(self) -> None:
        try:
            if not self._is_left:  # while the thread was busy with another run
                self._join()
        finally:
            with self._lock:
                self._is_connecting = False
                is_left = self._is_left
            if is_left:
                self._leave()

    def _join(self) -> None:
        os.environ.update(_QUIET)
        try:
            ray = import_module("ray")
        except ImportError:
            raise MissingExtra("--executor ray", "ray") from None
        if ray.is_initialized():
            connected = str(ray.get_runtime_context().gcs_address)
            if _is_elsewhere(self.address, connected):
                raise ExecutorRefused(
                    f"this program is connected to Ray at {connected}, and the run shall use {self.address}. Call "
                    "ray.shutdown() first, or leave out the address and RAY_ADDRESS"
                )
        else:
            _refuse_closed_port(self.address)
            try:
                ray.init(
                    address=self.address,
                    include_dashboard=False if self.is_local else None,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                )
            except Exception as error:  # noqa: BLE001 - Ray raises a bare Exception if its start takes too long
                where = "on this machine" if self.is_local else f"at {self.address}"
                raise ExecutorRefused(f"Ray cannot be used {where}: {error}") from None
            _Connection.runs = 0
            self._is_counted = True
        # A connection that the user's program made is not ours to close.
        self._is_counted = self._is_counted or _Connection.runs > 0
        _Connection.runs += self._is_counted
        self._ray = ray

    async def leave(self) -> None:
        """Close the connection, unless another run of this process uses it. A local cluster ends with it.

        If Ray is still starting, its thread closes the connection afterwards: a command does not wait for that, and
        the processes of Ray end with it.
        """
        with self._lock:
            self._is_left = True
            is_connecting = self._is_connecting
        if is_connecting:
            self._leave_thread()
            return
        try:
            await _THREAD.run(self._leave)
        except asyncio.CancelledError:
            self._leave_thread()
            raise

    def _leave(self) -> None:
        if self._is_counted:
            self._is_counted = False
            _Connection.runs -= 1
            if _Connection.runs == 0:
                self.ray.shutdown()

    def _leave_thread(self) -> None:
        leave_threads.set()
        # After Ray was imported, so that this comes before Ray's own end.
        atexit.register(_THREAD.wait, _MAX_START_SECONDS)

    async def call(self, function: Callable[[], T]) -> T:
        """Call a function in the thread of Ray, for requests that take long."""
        return await _THREAD.run(function)

    def actor_class(self) -> Any:
        """Return the class of the workers for Ray. It starts lost ones again, where there is room."""
        return self.ray.remote(WorkerActor).options(
            num_cpus=self._settings.cpus,
            num_gpus=self._settings.gpus,
            max_restarts=-1,
            max_concurrency=16,
            scheduling_strategy="SPREAD",
        )

    def capacity(self) -> dict[str, int]:
        """Return how many workers each node holds, by the node's name."""
        room: dict[str, int] = {}
        for node in self.ray.nodes():
            if not node["Alive"]:
                continue
            needs = (("CPU", self._settings.cpus), ("GPU", self._settings.gpus))
            fits = [int(node["Resources"].get(name, 0.0) / need) for name, need in needs if need]
            room[f"{node['NodeManagerHostname']}:{node['NodeID'][:6]}"] = min(fits, default=0)
        return room

    def worker_count(self) -> int:
        """Return how many workers to start. Raises ExecutorRefused if the cluster cannot hold them."""
        capacity = self.capacity()
        total = sum(capacity.values())
        wanted = self._settings.workers
        nodes = ", ".join(f"{node}: {workers}" for node, workers in capacity.items())
        if total == 0:
            raise ExecutorRefused(
                f"the cluster holds no worker of {self.need} (room on its nodes: {nodes or 'it has none'}). "
                "Ask for less with --worker-cpus and --worker-gpus"
            )
        if wanted is not None and wanted > total:
            raise ExecutorRefused(
                f"--workers {wanted} do not fit: the cluster holds {total} workers of {self.need} ({nodes}). "
                f"Pass --workers {total}, or ask for less with --worker-cpus and --worker-gpus"
            )
        return wanted or min(total, self._settings.max_workers)

    def free_room(self) -> str:
        """Return a sentence about what a worker needs and what is free now."""
        free = [f"{value:g} {name}" for name, value in self.ray.available_resources().items() if name in ("CPU", "GPU")]
        return f"Each needs {self.need}, and the cluster has {', '.join(free) or 'nothing'} free"


def _host_and_port(address: str) -> tuple[str, int] | None:
    """Return the parts of HOST:PORT, or None for other addresses, such as `auto`."""
    host, _, port = address.rpartition(":")
    return (host.strip("[]"), int(port)) if host and port.isdecimal() and "/" not in host else None


def _is_elsewhere(address: str, connected: str) -> bool:
    """Return whether HOST:PORT is another cluster than the connected one.

    It is if the port is another one. Hosts are compared only if both are IP addresses: a name, and the loopback of
    this machine, may be the same machine.
    """
    wanted, present = _host_and_port(address), _host_and_port(connected)
    if wanted is None or present is None:
        return False
    if wanted[1] != present[1]:
        return True
    try:
        hosts = [ip_address(host) for host, _ in (wanted, present)]
    except ValueError:
        return False
    return hosts[0] != hosts[1] and not any(host.is_loopback or host.is_unspecified for host in hosts)


def _refuse_closed_port(address: str) -> None:
    """Raise ExecutorRefused if nothing listens at HOST:PORT. Ray itself would try for minutes."""
    place = _host_and_port(address)
    if place is None:
        return
    try:
        socket.create_connection(place, _PROBE_SECONDS).close()
    except OSError as error:
        raise ExecutorRefused(
            f"no Ray cluster answers at {address}: {error}. `ray start --head` has printed the address; its port "
            "is 6379 unless another was chosen"
        ) from None
