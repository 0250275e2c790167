"""Runs inside a container, as its one service: starts programs on descriptors that come over a unix socket; standard library only.

`python -I spawner.py SOCKET`. Each packet is a JSON object: `{"id", "spawn", "env", "cwd", "fds"}` with the descriptors beside it, which get the numbers in
`fds`; `{"id", "signal", "others", "spare"}`; `{"id", "list"}`; `{"id", "kill"}`. Back come `{"id", "started"}` or `{"id", "failed"}`, `{"id", "others"}`, `{"id", "exit"}`.
When the socket closes, the owner is gone: this ends, and the container with it.
"""

import array
import contextlib
import json
import os
import resource
import select
import signal
import socket
import sys
from pathlib import Path
from typing import Any

MARK = "HANDLOOM_PROGRAM"
PACKET = 1 << 17
MOST_FDS = 16


class Spawner:
    def __init__(self, link: socket.socket) -> None:
        self._link = link
        self._main: dict[int, int] = {}  # program -> its process
        self._watched: dict[int, int] = {}  # pidfd -> program

    def serve(self) -> None:
        while True:
            ready, _, _ = select.select([self._link.fileno(), *self._watched], [], [])
            for pidfd in [fd for fd in ready if fd in self._watched]:
                self._buried(pidfd)
            if self._link.fileno() in ready and not self._asked():
                for program in list(self._main):
                    self._kill(program)
                return

    def _asked(self) -> bool:
        data, beside, _, _ = self._link.recvmsg(PACKET, socket.CMSG_SPACE(MOST_FDS * 4))
        if not data:
            return False
        fds = array.array("i")
        for level, kind, raw in beside:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                fds.frombytes(raw[: len(raw) - len(raw) % fds.itemsize])
        try:
            self._do(json.loads(data), list(fds))
        finally:
            for fd in fds:
                os.close(fd)
        return True

    def _do(self, request: dict[str, Any], fds: list[int]) -> None:
        program = request["id"]
        if "spawn" in request:
            self._spawn(program, request, fds)
        elif "list" in request:
            self._say(id=program, others=self._others(program))
        elif "kill" in request:
            self._kill(program)
        elif request["others"]:
            for pid in set(self._others(program)) - set(request["spare"]):
                send(pid, request["signal"])
        elif program in self._main:
            send(self._main[program], request["signal"])

    def _spawn(self, program: int, request: dict[str, Any], fds: list[int]) -> None:
        failed, failing = os.pipe()
        pid = os.fork()
        if pid == 0:
            try:
                high = max([*request["fds"], *fds, failing, self._link.fileno()]) + 1
                failing = move(failing, high)
                os.set_inheritable(failing, False)
                os.setsid()
                become(request, fds, self._link, high + 1, program)
            except BaseException as error:  # noqa: BLE001 - whatever it is, the owner must hear it
                os.write(failing, str(error).encode()[:500])
            finally:
                os._exit(127)
        os.close(failing)
        with open(failed, "rb") as reading:  # noqa: PTH123 - a descriptor
            complaint = reading.read()
        if complaint:
            os.waitpid(pid, 0)
            self._say(id=program, failed=complaint.decode(errors="replace"))
            return
        self._main[program] = pid
        self._watched[os.pidfd_open(pid)] = program
        self._say(id=program, started=pid)

    def _buried(self, pidfd: int) -> None:
        program = self._watched.pop(pidfd)
        os.close(pidfd)
        _, status = os.waitpid(self._main.pop(program), 0)
        self._kill(program)
        self._say(id=program, exit=os.waitstatus_to_exitcode(status))

    def _others(self, program: int) -> list[int]:
        return [pid for pid in marked(program) if pid != self._main.get(program)]

    def _kill(self, program: int) -> None:
        for _ in range(20):
            left = marked(program)
            for pid in left:
                send(pid, signal.SIGKILL)
            if not left:
                return

    def _say(self, **words: object) -> None:
        self._link.send(json.dumps(words).encode())


def become(request: dict[str, Any], fds: list[int], link: socket.socket, free: int, program: int) -> None:
    """In the child: put the descriptors where they are wanted, and become the program. From `free` on no number is in use."""
    wanted: list[int] = request["fds"]
    parked = [move(fd, free + place) for place, fd in enumerate(fds)]
    for number, fd in zip(wanted, parked, strict=True):
        os.dup2(fd, number, inheritable=True)
    for fd in parked:
        os.close(fd)
    if link.fileno() not in wanted:
        link.close()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for name, most in request["limits"].items():
        with contextlib.suppress(ValueError, OSError):  # stricter ones are set already
            resource.setrlimit(getattr(resource, name), (most, most))
    for number in (
        signal.SIGINT,
        signal.SIGPIPE,
        signal.SIGXFSZ,
    ):  # this interpreter ignores them, and programs must not
        signal.signal(number, signal.SIG_DFL)
    os.chdir(request["cwd"])
    environment = {"PATH": os.environ.get("PATH", os.defpath), **request["env"], MARK: str(program)}
    os.execvpe(request["spawn"][0], request["spawn"], environment)  # noqa: S606 - this program is there to become another


def move(fd: int, number: int) -> int:
    os.dup2(fd, number)
    os.close(fd)
    return number


def marked(program: int) -> list[int]:
    """Living processes of a program, wherever they went in the tree."""
    mark, found = f"{MARK}={program}".encode(), list[int]()
    for path in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if path.name.isdigit() and mark in (path / "environ").read_bytes().split(b"\0"):
                found.append(int(path.name))
    return found


def send(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    link.connect(sys.argv[1])
    Spawner(link).serve()


if __name__ == "__main__":
    main()
