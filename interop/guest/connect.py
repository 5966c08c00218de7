# SPDX-License-Identifier: Apache-2.0
"""One connection with private data, over librdmacm. Prints the events that come, with their data.

    connect.py [--iwarp] listen ADDRESS PORT accept|reject HEX
    connect.py [--iwarp] connect ADDRESS PORT HEX

There is no queue pair behind the number that it gives, but for iWARP, whose connections are those
of queue pairs. Nothing is sent over the connection. A client ends it at once, a server waits for
that; with iWARP it ends it itself, as siw takes a client that is gone before its server is ready
for a bug in the kernel.
"""

import sys

import pyverbs.cm_enums as ce
import pyverbs.enums as e
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from pyverbs.qp import QPCap, QPInitAttr

QPN = 0x4711


def param(data):
    p = ConnParam(qp_num=QPN, data_len=len(data))
    p.set_private_data(data)
    return p


def give_qp(cmid):
    if IWARP:
        cmid.create_qp(QPInitAttr(qp_type=e.IBV_QPT_RC, cap=QPCap(1, 1, 1, 1, 0)))


def event(channel, names=(), what=lambda e: None):
    """Prints the next event, hands it to what before it is acknowledged, and returns its name."""
    e = CMEvent(channel)
    name = e.event_str().removeprefix("RDMA_CM_EVENT_")
    print(name, e.private_data.hex() if name in DATA else "", flush=True)
    made = what(e)
    e.close()
    if names and name not in names:
        sys.exit(f"event {name}, want one of {names}")
    return name, made


IWARP = "--iwarp" in sys.argv
ANSWER = "ESTABLISHED" if IWARP else "CONNECT_RESPONSE"
DATA = ("CONNECT_REQUEST", ANSWER, "REJECTED")  # have the peer's


def listen(address, port, answer, data):
    channel = CMEventChannel()
    listener = CMID(creator=channel, port_space=ce.RDMA_PS_TCP)
    listener.bind_addr(AddrInfo(src=address, src_service=port, port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE))
    listener.listen(1)
    _, child = event(channel, ["CONNECT_REQUEST"], lambda e: CMID(creator=e, listen_id=listener))
    if answer == "reject":
        child.reject(bytes.fromhex(data))
        return
    give_qp(child)
    child.accept(param(bytes.fromhex(data)))
    event(channel, ["ESTABLISHED"])
    if IWARP:
        child.disconnect()
        event(channel, ["DISCONNECTED"])
        return
    event(channel, ["DISCONNECTED"])
    child.disconnect()


def connect(address, port, data):
    channel = CMEventChannel()
    client = CMID(creator=channel, port_space=ce.RDMA_PS_TCP)
    client.resolve_addr(AddrInfo(dst=address, dst_service=port, port_space=ce.RDMA_PS_TCP))
    event(channel, ["ADDR_RESOLVED"])
    client.resolve_route()
    event(channel, ["ROUTE_RESOLVED"])
    give_qp(client)
    client.connect(param(bytes.fromhex(data)))
    name, _ = event(channel, [ANSWER, "REJECTED"])
    if name == "REJECTED":
        return
    if not IWARP:
        client.establish()
    client.disconnect()
    event(channel, ["DISCONNECTED"])


words = [word for word in sys.argv[1:] if word != "--iwarp"]
{"listen": listen, "connect": connect}[words[0]](*words[1:])
