"""How the command's process ends. A module of its own, because the command line imports it at every start."""

from __future__ import annotations

import threading

leave_threads = threading.Event()
"""Set if a thread is inside a library and cannot be ended, so that Python's own end would wait for it or crash. The
command then ends the process without it."""
