"""Reserves room on the disk before a run sends its first request.

    reserve = DiskReserve(folder)       # raises StopRun if the disk is full
    reserve.give_up(error)       # at the first write that fails: frees the reserve, so that the lines in flight fit
    reserve.close()

Requests are paid for, so a run on a full disk must not send any. The reserve is a file without a name: nothing of it
stays if the process is killed.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path

from assay.core.errors import FULL_DISK, DiskFull, StopRun, write_advice

# Enough for the replies of hundreds of calls in flight, and for summary.json.
RESERVED_BYTES = 1 << 20


class DiskReserve:
    """Room on the disk of a run folder. `stop` is None until a write failed; then it is why the run must stop."""

    def __init__(self, folder: Path, output: Path | None = None) -> None:
        """Reserve the room. Also try the disk of `output`, the folder of the result files, if it is another one."""
        self.stop: DiskFull | None = None
        self._fd = _reserve(folder)
        if output is not None and output.is_dir() and output.stat().st_dev != folder.stat().st_dev:
            try:
                os.close(_reserve(output))
            except StopRun:
                self.close()
                raise

    def give_up(self, path: Path, error: OSError) -> bool:
        """Free the room after a write to `path` failed. Returns whether it may succeed now."""
        if self._fd < 0 or error.errno not in FULL_DISK:
            return False
        self.stop = DiskFull(
            f"cannot write {path}: {error.strerror}. All replies so far are saved, also those that were in flight, in "
            "room that was kept for them. Make room and run the same command again"
        )
        self.close()
        return True

    def close(self) -> None:
        """Free the room. A second call does nothing."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _reserve(folder: Path) -> int:
    """Return the descriptor of an unnamed file that occupies the room. Raises StopRun if there is none."""
    fd = -1
    try:
        # A fixed name: if a kill comes before the removal, the next start removes the file.
        path = folder / ".room"
        path.unlink(missing_ok=True)
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        path.unlink(missing_ok=True)
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(fd, 0, RESERVED_BYTES)
        else:  # macOS
            with open(fd, "wb", closefd=False) as file:
                file.write(bytes(RESERVED_BYTES))
            os.fsync(fd)
    except OSError as error:
        # Where a limit of this process or the file system forbids the reserve, the run can do without it.
        if error.errno not in FULL_DISK | {errno.EROFS, errno.EACCES, errno.EIO}:
            return fd
        if fd >= 0:
            os.close(fd)
        problem, needs = "cannot write", ""
        if error.errno in FULL_DISK:
            problem = "there is no room for the run"
            needs = f" A run needs {RESERVED_BYTES >> 20} MB at least."
        raise StopRun(
            f"{problem} in {folder}: {error.strerror}.{needs} No request was sent. "
            f"{write_advice(error)} and run the same command again"
        ) from error
    return fd
