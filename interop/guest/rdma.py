# SPDX-License-Identifier: Apache-2.0
"""Commands on the guest's RDMA device: memory, queue pairs, work requests, completions.

Flags, opcodes and states go by their names in libibverbs without the prefix:
"REMOTE_WRITE" is IBV_ACCESS_REMOTE_WRITE, "WR_FLUSH_ERR" is IBV_WC_WR_FLUSH_ERR.
"""

import ctypes
import hashlib
import ipaddress
import os
import random
import socket
import time

import pyverbs.enums as e
import pyverbs.cm_enums as ce
from pyverbs.addr import AH, AHAttr, GID, GlobalRoute
from pyverbs.cmid import CMID, AddrInfo, CMEvent, CMEventChannel, ConnParam
from pyverbs.cq import CQ
from pyverbs.device import Context
from pyverbs.mr import MR, MW, MWBind, MWBindInfo
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPEx, QPInitAttr, QPInitAttrEx
from pyverbs.srq import SRQ, SrqAttr, SrqInitAttr
from pyverbs.wr import RecvWR, SendWR, SGE

PORT = 1
GIDS = 8  # entries of the GID table that are looked at
MTU = {256: 1, 512: 2, 1024: 3, 2048: 4, 4096: 5}
OPERATIONS = {
    "RC": "RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM SEND_WITH_INV RDMA_READ "
    "ATOMIC_CMP_AND_SWP ATOMIC_FETCH_AND_ADD LOCAL_INV BIND_MW FLUSH ATOMIC_WRITE",
    "UC": "RDMA_WRITE RDMA_WRITE_WITH_IMM SEND SEND_WITH_IMM",
    "UD": "SEND SEND_WITH_IMM",
}
BLOCK = 1 << 16
BASE = b"".join(bytes((i * 7 + row * 13) & 0xFF for i in range(256)) for row in range(256))


def pattern(seed, length):
    """Byte i is seed + 7 i + 13 ⌊i/2^8⌋ + 29 ⌊i/2^16⌋, modulo 256."""
    blocks = []
    for k in range((length + BLOCK - 1) // BLOCK):
        shift = (seed + 29 * k) & 0xFF
        blocks.append(BASE.translate(bytes((i + shift) & 0xFF for i in range(256))))
    return b"".join(blocks)[:length]


def flags(prefix, names):
    """The sum of libibverbs' constants of these names."""
    value = 0
    for name in names:
        value |= int(getattr(e, prefix + name))
    return value


def names_of(enum, prefix):
    return {int(member): member.name.removeprefix(prefix) for member in enum}


WC_STATUS = names_of(e.ibv_wc_status, "IBV_WC_")
WC_OPCODE = names_of(e.ibv_wc_opcode, "IBV_WC_")
QP_STATE = names_of(e.ibv_qp_state, "IBV_QPS_")


def expand(gid):
    """A GID or an IPv4 address in the form that pyverbs reads."""
    address = ipaddress.ip_address(gid)
    if address.version == 4:
        address = ipaddress.IPv6Address(f"::ffff:{address}")
    return ":".join(address.packed[i : i + 2].hex() for i in range(0, 16, 2))


class Queue:
    """A queue pair with the completion queue and the settings that belong to it."""

    def __init__(self, qp, kind, cq, gid_index, psn):
        self.qp, self.kind, self.cq, self.gid_index, self.psn = qp, kind, cq, gid_index, psn


class Verbs:
    def __init__(self):
        self._objects = {}
        self._ah = {}
        self.use(os.environ["DEV"])

    def _add(self, kind, obj):
        name = f"{kind}{len(self._objects) + 1}"
        self._objects[name] = obj
        return name

    def use(self, device):
        """Opens another device, for what is made from now on."""
        self._ctx = Context(name=device)
        self._pd = PD(self._ctx)

    def ping(self):
        return {}

    def info(self):
        attr = self._ctx.query_device()
        port = self._ctx.query_port(PORT)
        gids = [expand(str(self._ctx.query_gid(PORT, i))) for i in range(GIDS)]
        return {
            "kernel": os.uname().release,
            "gids": gids,
            "active_mtu": 128 << port.active_mtu,
            "max_sge": attr.max_sge,
            "max_qp_rd_atom": attr.max_qp_rd_atom,
        }

    def destroy(self, handle):
        obj = self._objects[handle]
        if isinstance(obj, Queue):
            obj.qp.close()
            obj.cq.close()
        else:
            obj.close()
        del self._objects[handle]

    # Memory.

    def mr_reg(self, size, access=("LOCAL_WRITE",)):
        mr = MR(self._pd, size, flags("IBV_ACCESS_", access))
        return {"mr": self._add("mr", mr), "addr": mr.buf, "lkey": mr.lkey, "rkey": mr.rkey}

    def _range(self, mr, off, len):
        region = self._objects[mr]
        if off < 0 or len < 0 or off + len > region.length:
            raise ValueError(f"{off}+{len} is outside of {mr}, which has {region.length} bytes")
        return region

    def mr_fill(self, mr, seed, off=0, len=0):
        self._range(mr, off, len).write(pattern(seed, len), len, off)

    def mr_check(self, mr, seed, off=0, len=0):
        """Where the range first differs from the pattern; -1: nowhere."""
        got, want = self._range(mr, off, len).read(len, off), pattern(seed, len)
        if got == want:
            return {"differs_at": -1}
        return {"differs_at": next(i for i in range(len) if got[i] != want[i])}

    def mr_hash(self, mr, off=0, len=0):
        return {"sha256": hashlib.sha256(self._range(mr, off, len).read(len, off)).hexdigest()}

    def mr_write(self, mr, hex, off=0):
        data = bytes.fromhex(hex)
        self._range(mr, off, len(data)).write(data, len(data), off)

    def mr_read(self, mr, off=0, len=0):
        return {"hex": self._range(mr, off, len).read(len, off).hex()}

    def mw_alloc(self, type):
        mw = MW(self._pd, type)
        return {"mw": self._add("mw", mw), "rkey": mw.rkey}

    # Queue pairs.

    def srq_create(self, max_wr=128, max_sge=16):
        srq = SRQ(self._pd, SrqInitAttr(SrqAttr(max_wr=max_wr, max_sge=max_sge)))
        return {"srq": self._add("srq", srq)}

    def _gid_index(self, address):
        gid = expand(address)
        for i in range(GIDS):
            if expand(str(self._ctx.query_gid(PORT, i))) == gid:
                return i
        raise ValueError(f"{address} is not among the device's GIDs")

    def qp_create(self, type, address, srq=None, access=(), qkey=0, psn=None, max_send_wr=128,
                  max_recv_wr=128, max_sge=16, max_inline=128):  # fmt: skip
        """Makes a queue pair in INIT, with a completion queue that both of its sides share."""
        gid_index = self._gid_index(address)
        cq = CQ(self._ctx, max_send_wr + 4 * max_recv_wr)
        init = QPInitAttrEx(
            qp_type=int(getattr(e, "IBV_QPT_" + type)),
            scq=cq,
            rcq=cq,
            srq=self._objects[srq] if srq else None,
            cap=QPCap(max_send_wr, 0 if srq else max_recv_wr, max_sge, 0 if srq else max_sge, max_inline),
            pd=self._pd,
            comp_mask=e.IBV_QP_INIT_ATTR_PD | e.IBV_QP_INIT_ATTR_SEND_OPS_FLAGS,
            send_ops_flags=flags("IBV_QP_EX_WITH_", OPERATIONS[type].split()),
        )
        qp = QPEx(self._ctx, init)
        attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=PORT)
        mask = e.IBV_QP_STATE | e.IBV_QP_PKEY_INDEX | e.IBV_QP_PORT
        if type == "UD":
            attr.qkey = qkey
            mask |= e.IBV_QP_QKEY
        else:
            attr.qp_access_flags = flags("IBV_ACCESS_", access)
            mask |= e.IBV_QP_ACCESS_FLAGS
        qp.modify(attr, mask)
        if psn is None:
            psn = random.getrandbits(24)
        name = self._add("qp", Queue(qp, type, cq, gid_index, psn))
        return {"qp": name, "qpn": qp.qp_num, "psn": psn, "gid": expand(address)}

    def qp_connect(self, qp, qpn=0, psn=0, gid=None, path_mtu=1024, timeout=17, retry_cnt=7, rnr_retry=7,
                   min_rnr_timer=12, max_rd_atomic=16, max_dest_rd_atomic=16):  # fmt: skip
        """Takes a queue pair through RTR to RTS; qpn, psn and gid are the remote's (none of them for UD)."""
        queue = self._objects[qp]
        attr = QPAttr(qp_state=e.IBV_QPS_RTR)
        mask = e.IBV_QP_STATE
        if queue.kind != "UD":
            attr.ah_attr = self._route(gid, queue.gid_index)
            attr.path_mtu, attr.dest_qp_num, attr.rq_psn = MTU[path_mtu], qpn, psn
            mask |= e.IBV_QP_AV | e.IBV_QP_PATH_MTU | e.IBV_QP_DEST_QPN | e.IBV_QP_RQ_PSN
        if queue.kind == "RC":
            attr.max_dest_rd_atomic, attr.min_rnr_timer = max_dest_rd_atomic, min_rnr_timer
            mask |= e.IBV_QP_MAX_DEST_RD_ATOMIC | e.IBV_QP_MIN_RNR_TIMER
        queue.qp.modify(attr, mask)

        attr = QPAttr(qp_state=e.IBV_QPS_RTS)
        attr.sq_psn = queue.psn
        mask = e.IBV_QP_STATE | e.IBV_QP_SQ_PSN
        if queue.kind == "RC":
            attr.timeout, attr.retry_cnt, attr.rnr_retry = timeout, retry_cnt, rnr_retry
            attr.max_rd_atomic = max_rd_atomic
            mask |= e.IBV_QP_TIMEOUT | e.IBV_QP_RETRY_CNT | e.IBV_QP_RNR_RETRY | e.IBV_QP_MAX_QP_RD_ATOMIC
        queue.qp.modify(attr, mask)

    # Connections of iWARP: a queue pair has a stream, which the connection manager makes.

    def iw_create(self, srq=None, access=("LOCAL_WRITE",), max_wr=128, max_sge=4, max_inline=64):
        """Makes a queue pair in INIT, with a completion queue that both of its sides share."""
        cq = CQ(self._ctx, 2 * max_wr)
        cap = QPCap(max_wr, 0 if srq else max_wr, max_sge, 0 if srq else max_sge, max_inline)
        qp = QP(self._pd, QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, srq=self._objects[srq] if srq else None, cap=cap))
        attr = QPAttr(qp_state=e.IBV_QPS_INIT, port_num=PORT)
        attr.qp_access_flags = flags("IBV_ACCESS_", access)
        qp.modify(attr, e.IBV_QP_STATE | e.IBV_QP_ACCESS_FLAGS)
        return {"qp": self._add("qp", Queue(qp, "iWARP", cq, 0, 0)), "qpn": qp.qp_num}

    def _event(self, *names):
        """Waits for the next event, which must be one of names, and returns it."""
        event = CMEvent(self._channel)
        name = event.event_str().removeprefix("RDMA_CM_EVENT_")
        if names and name not in names:
            event.close()
            raise OSError(f"event {name}, want one of {names}")
        return event

    def _param(self, qp, ird, ord):
        return ConnParam(resources=ird, depth=ord, qp_num=self._objects[qp].qp.qp_num)

    def iw_listen(self, address, port):
        self._channel = CMEventChannel()
        self._listener = CMID(creator=self._channel, port_space=ce.RDMA_PS_TCP)
        where = AddrInfo(src=address, src_service=str(port), port_space=ce.RDMA_PS_TCP, flags=ce.RAI_PASSIVE)
        self._listener.bind_addr(where)
        self._listener.listen(1)

    def iw_accept(self, qp, ird=16, ord=16):
        """Takes the next connection that a peer asks for, and returns when it is made."""
        event = self._event("CONNECT_REQUEST")
        self._id = CMID(creator=event, listen_id=self._listener)
        event.close()
        self._id.accept(self._param(qp, ird, ord))
        self._event("ESTABLISHED").close()

    def iw_connect(self, qp, address, port, ird=16, ord=16):
        """Asks for a connection."""
        self._channel = CMEventChannel()
        self._id = CMID(creator=self._channel, port_space=ce.RDMA_PS_TCP)
        self._id.resolve_addr(AddrInfo(dst=address, dst_service=str(port), port_space=ce.RDMA_PS_TCP))
        self._event("ADDR_RESOLVED").close()
        self._id.resolve_route()
        self._event("ROUTE_RESOLVED").close()
        self._id.connect(self._param(qp, ird, ord))

    def iw_event(self):
        """Waits for what comes next of a connection, and returns the event's name."""
        event = self._event()
        name = event.event_str().removeprefix("RDMA_CM_EVENT_")
        event.close()
        return {"event": name}

    def iw_disconnect(self):
        self._id.disconnect()

    def _route(self, gid, gid_index):
        route = GlobalRoute(dgid=GID(expand(gid)), sgid_index=gid_index, hop_limit=64)
        return AHAttr(is_global=1, port_num=PORT, gr=route)

    def qp_state(self, qp):
        attr, _ = self._objects[qp].qp.query(e.IBV_QP_STATE)
        return {"state": QP_STATE[int(attr.qp_state)]}

    def qp_modify(self, qp, state):
        """Moves a queue pair to a state that needs no other attribute: RESET, SQD, ERR."""
        self._objects[qp].qp.modify(QPAttr(qp_state=int(getattr(e, "IBV_QPS_" + state))), e.IBV_QP_STATE)

    # Work requests.

    def _sges(self, pieces):
        """Scatter/gather entries from [address, length, lkey] triples."""
        return [SGE(*piece) for piece in pieces]

    def post_recv(self, to, wrs):
        """Posts receives to a queue pair or a shared receive queue."""
        target = self._objects[to]
        target = target.qp if isinstance(target, Queue) else target
        for wr in wrs:
            sges = self._sges(wr.get("sge", ()))
            # pyverbs wants an entry, the verbs do not.
            recv = RecvWR(wr_id=wr.get("wr_id", 0), num_sge=max(len(sges), 1), sg=sges or [SGE(0, 0, 0)])
            recv.num_sge = len(sges)
            target.post_recv(recv)

    def post_send(self, qp, wrs):
        """Posts a list of work requests in one call; returns the rkey that the last bind made."""
        queue = self._objects[qp]
        rkey = 0
        if queue.kind == "iWARP":
            for wr in wrs:
                self._post(queue.qp, wr)
            return {"rkey": 0}
        queue.qp.wr_start()
        try:
            for wr in wrs:
                queue.qp.wr_id = wr.get("wr_id", 0)
                inline = ["INLINE"] if "inline" in wr and wr["op"] != "ATOMIC_WRITE" else []
                queue.qp.wr_flags = flags("IBV_SEND_", wr.get("flags", []) + inline)
                if wr["op"] == "BIND_MW":
                    rkey = self._bind(queue.qp, wr)
                else:
                    self._build(queue, wr)
        except BaseException:
            queue.qp.wr_abort()
            raise
        queue.qp.wr_complete()
        return {"rkey": rkey}

    def _post(self, qp, wr):
        """Posts a work request in the older way: siw's library knows no other."""
        sges = self._sges(wr.get("sge", ()))
        send = SendWR(
            wr_id=wr.get("wr_id", 0),
            num_sge=max(len(sges), 1),
            sg=sges or [SGE(0, 0, 0)],
            opcode=int(getattr(e, "IBV_WR_" + wr["op"])),
            send_flags=flags("IBV_SEND_", wr.get("flags", [])),
        )
        send.num_sge = len(sges)
        # The key that a send invalidates is read from here too.
        send.set_wr_rdma(wr.get("rkey", 0) or wr.get("invalidate_rkey", 0), wr.get("remote_addr", 0))
        qp.post_send(send)

    def _build(self, queue, wr):
        qp, op = queue.qp, wr["op"]
        addr, rkey = wr.get("remote_addr", 0), wr.get("rkey", 0)
        match op:
            case "SEND":
                qp.wr_send()
            case "SEND_WITH_IMM":
                qp.wr_send_imm(wr["imm"])
            case "SEND_WITH_INV":
                qp.wr_send_inv(wr["invalidate_rkey"])
            case "RDMA_WRITE":
                qp.wr_rdma_write(rkey, addr)
            case "RDMA_WRITE_WITH_IMM":
                qp.wr_rdma_write_imm(rkey, addr, wr["imm"])
            case "RDMA_READ":
                qp.wr_rdma_read(rkey, addr)
            case "ATOMIC_CMP_AND_SWP":
                qp.wr_atomic_cmp_swp(rkey, addr, wr["compare"], wr["swap"])
            case "ATOMIC_FETCH_AND_ADD":
                qp.wr_atomic_fetch_add(rkey, addr, wr["swap"])
            case "ATOMIC_WRITE":
                qp.wr_atomic_write(rkey, addr, bytes.fromhex(wr["inline"]))
            case "FLUSH":
                placement = flags("IBV_FLUSH_", wr["placement"])
                qp.wr_flush(rkey, addr, wr["length"], placement, int(getattr(e, "IBV_FLUSH_" + wr["selectivity"])))
            case "LOCAL_INV":
                qp.wr_local_inv(wr["invalidate_rkey"])
            case _:
                raise ValueError(f"no such operation: {op}")
        if queue.kind == "UD":
            qp.wr_set_ud_addr(self._handle(wr["gid"], queue.gid_index), wr["qpn"], wr["qkey"])
        if op == "ATOMIC_WRITE":
            return
        if "inline" in wr:
            data = bytes.fromhex(wr["inline"])
            buffer = ctypes.create_string_buffer(data, len(data))
            qp.wr_set_inline_data(ctypes.addressof(buffer), len(data))  # copies
        elif sges := self._sges(wr.get("sge", ())):
            qp.wr_set_sge_list(len(sges), sges)

    def _handle(self, gid, gid_index):
        if (gid, gid_index) not in self._ah:
            self._ah[gid, gid_index] = AH(self._pd, attr=self._route(gid, gid_index))
        return self._ah[gid, gid_index]

    def _bind(self, qp, wr):
        """Binds a type 2 window to part of a region, under its index and the next key octet."""
        window, region = self._objects[wr["mw"]], self._objects[wr["mr"]]
        access = flags("IBV_ACCESS_", wr["access"])
        info = MWBindInfo(region, region.buf + wr["off"], wr["length"], access)
        rkey = (window.rkey & ~0xFF) | ((window.rkey + 1) & 0xFF)
        qp.wr_bind_mw(window, rkey, info)
        return rkey

    def bind_mw1(self, qp, mw, mr, off, length, access, wr_id=0):
        """Binds a type 1 window, which is a call of its own; returns its new rkey."""
        window, region = self._objects[mw], self._objects[mr]
        info = MWBindInfo(region, region.buf + off, length, flags("IBV_ACCESS_", access))
        self._objects[qp].qp.bind_mw(window, MWBind(info, e.IBV_SEND_SIGNALED, wr_id))
        return {"rkey": window.rkey}

    def poll(self, qp, count=1, timeout_ms=5000):
        """Completions of a queue pair: waits until there are count of them, or the time is up."""
        cq = self._objects[qp].cq
        wcs = []
        deadline = time.monotonic() + timeout_ms / 1000
        while True:
            _, some = cq.poll(count - len(wcs))
            wcs += some
            if len(wcs) == count or time.monotonic() > deadline:
                return {"wcs": [self._wc(wc) for wc in wcs]}
            if not some:
                time.sleep(0.0005)

    def _wc(self, wc):
        out = {"wr_id": wc.wr_id, "status": WC_STATUS[int(wc.status)], "qpn": wc.qp_num}
        if wc.status != e.IBV_WC_SUCCESS:
            out["vendor_err"] = wc.vendor_err
            return out
        out |= {"opcode": WC_OPCODE[int(wc.opcode)], "byte_len": wc.byte_len, "src_qp": wc.src_qp}
        if wc.wc_flags & e.IBV_WC_WITH_IMM:
            out["imm"] = socket.ntohl(wc.imm_data)
        if wc.wc_flags & e.IBV_WC_WITH_INV:
            out["invalidated_rkey"] = wc.imm_data  # the two share a union
        out["grh"] = bool(wc.wc_flags & e.IBV_WC_GRH)
        return out
