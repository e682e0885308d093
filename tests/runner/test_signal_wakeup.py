"""A signal interrupts the main thread although its system call was not interrupted."""

from __future__ import annotations

import subprocess
import sys

from support.commands import TIMEOUT, environment

TWICE = """if True:
    import signal, threading, time
    from assay.runner.signal_wakeup import SignalWakeup

    class Heard(Exception):
        pass

    def handler(number, frame):
        raise Heard

    def send():
        # To this thread, so that the system call of the main thread goes on.
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)

    signal.signal(signal.SIGTERM, handler)
    for _ in range(2):
        with SignalWakeup():
            threading.Timer(0.2, send).start()
            try:
                time.sleep(100_000)
            except Heard:
                print("heard")
        print(signal.set_wakeup_fd(-1), signal.getsignal(signal.SIGURG) == signal.SIG_DFL)
    while threading.active_count() > 1:
        time.sleep(0.01)
    print("its threads have ended")
"""


def test_a_signal_that_another_thread_receives_interrupts_the_main_thread() -> None:
    """Also a second time, and nothing is left behind."""
    done = subprocess.run(
        [sys.executable, "-c", TWICE],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    wanted = "heard\n-1 True\n" * 2 + "its threads have ended\n"
    assert (done.returncode, done.stdout, done.stderr) == (0, wanted, "")


ELSEWHERE = """if True:
    import signal, threading
    from assay.runner.signal_wakeup import SignalWakeup

    def enter():
        with SignalWakeup():
            print(signal.getsignal(signal.SIGURG) == signal.SIG_DFL)

    thread = threading.Thread(target=enter)
    thread.start()
    thread.join()
    signal.signal(signal.SIGURG, signal.SIG_IGN)
    with SignalWakeup():
        print(signal.getsignal(signal.SIGURG) == signal.SIG_IGN, signal.set_wakeup_fd(-1))
"""


def test_it_does_nothing_in_other_threads_and_where_other_code_uses_its_signal() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE],
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\nTrue -1\n", "")
