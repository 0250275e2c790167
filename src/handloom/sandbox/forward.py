"""Runs inside, before a program: carries connections to 127.0.0.1 out through a unix socket to the proxy; standard library only.

`python -I forward.py SOCKET PORT PROGRAM...`: a grandchild forwards, and this process becomes the program.
"""

import contextlib
import os
import select
import signal
import socket
import sys
import threading

PIECE = 65_536


def forward(listener: socket.socket, path: str) -> None:
    while True:
        with contextlib.suppress(OSError):
            near, _ = listener.accept()
            threading.Thread(target=carry, args=(near, path), daemon=True).start()


def carry(near: socket.socket, path: str) -> None:
    """Both ways until each side has said all."""
    with near, socket.socket(socket.AF_UNIX) as far, contextlib.suppress(OSError):
        far.connect(path)
        ways = {near: far, far: near}
        while ways:
            for side in select.select(list(ways), [], [])[0]:
                if data := side.recv(PIECE):
                    ways[side].sendall(data)
                else:
                    ways.pop(side).shutdown(socket.SHUT_WR)


def main() -> None:
    path, port, *program = sys.argv[1:]
    listener = socket.create_server(("127.0.0.1", int(port)), backlog=128)
    if os.fork() == 0:
        if os.fork() == 0:
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            null = os.open(os.devnull, os.O_RDWR)
            for number in range(3):
                os.dup2(null, number)
            for number in range(3, 1024):
                if number != listener.fileno():
                    with contextlib.suppress(OSError):
                        os.close(number)
            forward(listener, path)
        os._exit(0)
    os.wait()
    for number in (signal.SIGPIPE, signal.SIGXFSZ):  # this interpreter ignores them, and the program must not
        signal.signal(number, signal.SIG_DFL)
    os.execvp(program[0], program)  # noqa: S606 - this program is there to become the other


if __name__ == "__main__":
    main()
