"""A network of loopback only, so that no program of the comparison can reach anything else."""

from __future__ import annotations

import ctypes
import fcntl
import os
import socket
import struct
from pathlib import Path

_NEW_USER, _NEW_NETWORK = 0x10000000, 0x40000000
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def leave_network() -> str:
    """Move this process and its children into a network namespace with loopback only; say whether it worked.

    A user namespace comes first for anybody but root. Containers may forbid both.
    """
    uid, gid = os.getuid(), os.getgid()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(_NEW_NETWORK if uid == 0 else _NEW_USER | _NEW_NETWORK):
        return f"not enforced: no network namespace here ({os.strerror(ctypes.get_errno())})"
    if uid:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
    with socket.socket() as control:
        request = struct.pack("16sh14x", b"lo", 0)
        (flags,) = struct.unpack_from("h", fcntl.ioctl(control, _GET_FLAGS, request), 16)
        fcntl.ioctl(control, _SET_FLAGS, struct.pack("16sh14x", b"lo", flags | _UP))
    return "loopback only, by a network namespace"
