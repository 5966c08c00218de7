# SPDX-License-Identifier: Apache-2.0
"""Two queue pairs of a process: one writes into the other's memory, and the bytes are compared."""

import unittest

import pyverbs.enums as e
from pyverbs.addr import AHAttr, GlobalRoute
from pyverbs.cq import CQ
from pyverbs.device import Context, get_device_list
from pyverbs.mr import MR
from pyverbs.pd import PD
from pyverbs.qp import QP, QPAttr, QPCap, QPInitAttr
from pyverbs.wr import SGE, SendWR

SIZE = 64


class Write(unittest.TestCase):
    def test_write(self):
        name = get_device_list()[0].name.decode()
        with Context(name=name) as dev, PD(dev) as pd, CQ(dev, 4) as cq:
            access = e.IBV_ACCESS_LOCAL_WRITE | e.IBV_ACCESS_REMOTE_WRITE
            init = QPInitAttr(qp_type=e.IBV_QPT_RC, scq=cq, rcq=cq, cap=QPCap(max_send_wr=1, max_recv_wr=1))
            mrs = [MR(pd, SIZE, access) for _ in range(2)]
            qps = [QP(pd, init) for _ in range(2)]
            gid = dev.query_gid(port_num=1, index=0)
            for qp, peer in zip(qps, reversed(qps)):
                attr = QPAttr(port_num=1)
                attr.qp_access_flags = access
                attr.dest_qp_num = peer.qp_num
                attr.path_mtu = 3  # 1024 bytes
                attr.timeout, attr.retry_cnt, attr.rnr_retry, attr.min_rnr_timer = 14, 7, 7, 12
                attr.max_rd_atomic = attr.max_dest_rd_atomic = 1
                attr.ah_attr = AHAttr(port_num=1, is_global=1, gr=GlobalRoute(dgid=gid, sgid_index=0))
                qp.to_rts(attr)

            data = b"written by RDMA".ljust(SIZE, b"\0")
            mrs[0].write(data, SIZE)
            wr = SendWR(num_sge=1, sg=[SGE(mrs[0].buf, SIZE, mrs[0].lkey)], opcode=e.IBV_WR_RDMA_WRITE,
                        send_flags=e.IBV_SEND_SIGNALED)
            wr.set_wr_rdma(mrs[1].rkey, mrs[1].buf)
            qps[0].post_send(wr)
            n, wcs = 0, []
            while n == 0:
                n, wcs = cq.poll()
            self.assertEqual(wcs[0].status, e.IBV_WC_SUCCESS)
            self.assertEqual(mrs[1].read(SIZE, 0), data)


if __name__ == "__main__":
    unittest.main()
