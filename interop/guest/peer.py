# SPDX-License-Identifier: Apache-2.0
"""The guest's end of the interop bench: obeys commands, one JSON object a line, over TCP.

Each connection gets a process of its own, with its own device context and its own
objects; whatever it leaves behind goes away when the connection closes. The commands are
the public methods of rdma.Verbs and machine.Machine; README.md describes the protocol.
"""

import errno
import json
import os
import signal
import socket
import traceback

from pyverbs.pyverbs_error import PyverbsRDMAError

import machine
import rdma

PORT = 7471
LINE_LIMIT = 8 << 20  # bytes of one request
COMMAND_LIMIT = 90  # seconds a command may take beyond the timeout_ms that it asks for


class CommandTimeout(Exception):
    pass


def on_alarm(_signal, _frame):
    raise CommandTimeout("the command took too long")


def error_of(exc):
    """The JSON form of an exception: its text, and its errno where it has one."""
    if isinstance(exc, PyverbsRDMAError):
        code = exc.error_code
    elif isinstance(exc, CommandTimeout):
        code = errno.ETIMEDOUT
    else:
        code = getattr(exc, "errno", None)
    answer = {"error": f"{type(exc).__name__}: {exc}"}
    if code:
        answer["errno"] = errno.errorcode.get(abs(code), str(code))
    return answer


def commands_of(*objects):
    return {
        name: getattr(obj, name)
        for obj in objects
        for name in dir(obj)
        if not name.startswith("_") and callable(getattr(obj, name))
    }


def serve(conn, host, verbs):
    """Runs one connection's commands until it closes."""
    commands = commands_of(host, verbs)
    signal.signal(signal.SIGALRM, on_alarm)
    lines = conn.makefile("rb")
    try:
        while line := lines.readline(LINE_LIMIT):
            answer = {}
            try:
                request = json.loads(line)
                answer["id"] = request.pop("id", 0)
                run = commands[request.pop("cmd")]
                signal.setitimer(signal.ITIMER_REAL, COMMAND_LIMIT + request.get("timeout_ms", 0) / 1000)
                answer |= run(**request) or {}
            except Exception as exc:  # every failure is an answer
                if not isinstance(exc, (PyverbsRDMAError, OSError)):
                    traceback.print_exc()
                answer |= error_of(exc)
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            conn.sendall(json.dumps(answer).encode() + b"\n")
    finally:
        host._close()


def main():
    listener = socket.create_server(("::", PORT), family=socket.AF_INET6, dualstack_ipv6=True)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("peer: ready", flush=True)
    while True:
        conn, _ = listener.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listener.close()
            host, verbs = machine.Machine(), rdma.Verbs()
            try:
                serve(conn, host, verbs)
            except ConnectionError:
                pass
            except Exception:
                traceback.print_exc()
            os._exit(0)  # the kernel releases the objects, in an order that works
        conn.close()


main()
