"""Tasks that a test runs in a process of their own: well behaved, and not at all."""

from __future__ import annotations

import asyncio
import ctypes
import json
import logging
import multiprocessing
import os
import re
import signal
import subprocess
import sys
import threading

import duly

app = duly.App("memory:")


@app.task(kind="process")
def add(one: int, two: int) -> int:
    return one + two


@app.task(kind="process")
def who(run: duly.Run) -> list[object]:
    variables = {name: os.environ[name] for name in os.environ if name.startswith("DULY_")}
    return [str(run.id), run.attempt, run.fence, os.getpid() == os.getpgid(0), variables]


@app.task(kind="process")
def talk(run: duly.Run) -> object:
    logging.getLogger("anybody").warning("logged %s", 1)
    print("printed")  # noqa: T201 - what it is for
    print("complained", file=sys.stderr)  # noqa: T201 - as above
    run.progress(3, total=4, note="nearly")
    before = run.resume_from()
    run.checkpoint({"page": 7})
    return [before, run.resume_from()]


@app.task(kind="process")
def settles(run: duly.Run) -> list[str]:
    run.expect(["a", "b"])
    for account in run.remaining(["a", "b"]):
        run.once(account, str.upper, account)
        run.done(account)
    return run.remaining(["a", "b"])


@app.task(kind="process")
def fail() -> None:
    raise ValueError("as it must")


@app.task(kind="process")
def leave() -> None:
    sys.exit(3)


@app.task(kind="process")
def leave_at_once() -> None:
    os._exit(4)


@app.task(kind="process")
def abort() -> None:
    os.abort()


@app.task(kind="process")
def segfault() -> None:
    ctypes.string_at(0)


@app.task(kind="process", memory="1GB")
def eat_memory() -> int:
    return len([bytearray(1 << 26) for _ in range(1000)])


@app.task(kind="process")
def patient(run: duly.Run) -> str:
    """Look now and then whether it should stop, as good code does."""
    pause = threading.Event()
    run.progress(1)
    while not run.cancelled:
        pause.wait(0.01)
    return "stopped"


@app.task(kind="process")
async def asynchronous(run: duly.Run) -> str:
    run.progress(1)
    await asyncio.Event().wait()
    return "never"


@app.task(kind="process")
def stubborn(run: duly.Run) -> None:
    """Ignore every signal that can be ignored, with a child that does the same."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["/bin/sleep", "1000"])
    run.progress(child.pid)
    threading.Event().wait()


@app.task(kind="process")
def endless_in_c(run: duly.Run) -> None:
    """Hold the interpreter's lock for years, in one call of the library."""
    run.progress(1)
    re.match(r"(a|a)*$", "a" * 60 + "b")


@app.task(kind="process")
def lingering() -> str:
    """Return, and keep the process alive by a thread."""
    threading.Thread(target=threading.Event().wait).start()
    return "done"


@app.task(kind="process")
def daemonised(run: duly.Run) -> str:
    """Leave somebody behind in another session, who holds our output open."""
    left = subprocess.Popen(["/bin/sleep", "30"], start_new_session=True)
    run.progress(left.pid)
    return "done"


@app.task(kind="process")
def long_winded() -> str:
    """Log what is longer than any word may be, once it is written as JSON."""
    logging.getLogger("anybody").warning("%s", "é" * 5_000_000)
    return "done"


@app.task(kind="process")
def forking() -> str:
    """Have a pool of forked processes, one of them busy; leaving the pool terminates them."""
    with multiprocessing.get_context("fork").Pool(1, initializer=threading.Event().wait):
        return "done"


@app.task(kind="process")
def terminating_forks() -> list[int]:
    """Terminate forked processes at once, many times; return by which signals they ended."""
    ended = set()
    for _ in range(20):
        forked = os.fork()
        if forked == 0:
            signal.alarm(20)
            threading.Event().wait()
        os.kill(forked, signal.SIGTERM)
        ended.add(os.waitstatus_to_exitcode(os.waitpid(forked, 0)[1]))
    return sorted(ended)


@app.task(kind="process")
def speaking_in_a_fork(run: duly.Run) -> str:
    """Speak in a process of its own that is forked; only the task itself is heard."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        run.log("forked")
        try:
            run.checkpoint(1)
        except duly.StoreError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.wait()
    run.log("own")
    return os.read(reading, 1000).decode()


@app.task(kind="process")
async def cancelled_and_returning(run: duly.Run) -> str:
    run.progress(1)
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        return "tidied up"
    return "never"


@app.task(kind="process")
def nested() -> None:
    """Say what is no word, over the pipe that only the program around it should use."""
    os.write(int(sys.argv[2]), b"[" * 100_000 + b"\n")
    threading.Event().wait()


@app.task(kind="process")
def secretive(run: duly.Run, size: int) -> str:
    return json.dumps("x" * size)


@app.task(kind="process")
def babble(token: duly.Secret, before: int) -> None:
    """Say a secret where a line and an error are cut."""
    text = "x" * before + token.reveal()
    logging.getLogger("anybody").warning("%s", text)
    raise ValueError(text + "y" * 20_000)
