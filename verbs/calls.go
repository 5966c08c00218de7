// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"slices"
	"unsafe"
)

// logs reports whether a call of the data path is logged.
func (d *Device) logs(call string) bool { return d.calls != nil && d.calls.Wants(call) }

// begin notes a call that begins, in the log of the device's calls if there is one. end notes its end.
func (d *Device) begin(call string, args ...callArg) (end func(result any, err error, out ...callArg)) {
	if d.calls == nil {
		return func(any, error, ...callArg) {}
	}
	return d.calls.Begin(call, args...)
}

// logClose logs a call that has no argument but an object, and no result but an error.
func (d *Device) logClose(call, kind string, object any, destroy func() error) error {
	if d.calls == nil {
		return destroy()
	}
	end := d.calls.Begin(call, callArg{kind, object})
	err := destroy()
	end(nil, err)
	return err
}

// logRegistration logs a call that registers memory.
func (pd *PD) logRegistration(call string, args []callArg, register func() (*MR, error)) (*MR, error) {
	end := pd.dev.calls.Begin(call, append([]callArg{{"pd", pd}}, args...)...)
	mr, err := register()
	if err != nil {
		end(nil, err)
		return nil, err
	}
	end(mr, nil, callArg{"lkey", mr.LKey()}, callArg{"rkey", mr.RKey()})
	return mr, nil
}

// whose returns the device of a new queue pair and the device's addresses, by which the queue pair's packets are found
// in a capture.
func (d *Device) whose() []callArg {
	out, gids := []callArg{{"device", d}}, []any{}
	for port := 1; port <= d.drv.QueryDevice().Ports; port++ {
		all, _ := d.drv.GIDs(port) // on an error the log has the rows that were read
		for _, g := range all {
			gids = append(gids, g.GID)
		}
		if a, err := d.drv.QueryPort(port); err == nil && a.LID != 0 {
			out = append(out, callArg{"lid", a.LID})
		}
	}
	return append(out, callArg{"gids", gids})
}

// address returns where memory begins.
func address(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// sendArgs copies work requests to values that stay valid: the program's own may be on its stack.
func sendArgs(wrs []SendWR) []any {
	out := make([]any, len(wrs))
	for i := range wrs {
		wr := &wrs[i]
		one := []callArg{{"wr_id", wr.ID}, {"opcode", wr.Op}, {"send_flags", wr.Flags}}
		if wr.Inline != nil {
			one = append(one, callArg{"inline_data", len(wr.Inline)})
		} else {
			one = append(one, callArg{"sg_list", slices.Clone(wr.SGL)})
		}
		if wr.Remote != (Remote{}) {
			one = append(one, callArg{"remote_addr", wr.Remote.Addr}, callArg{"rkey", wr.Remote.Key})
		}
		if wr.AH != nil {
			one = append(one, callArg{"ah", wr.AH}, callArg{"remote_qpn", wr.RemoteQPN},
				callArg{"remote_qkey", wr.RemoteQKey})
		}
		out[i] = one
	}
	return out
}

// recvArgs does so for receives.
func recvArgs(wrs []RecvWR) []any {
	out := make([]any, len(wrs))
	for i := range wrs {
		out[i] = []callArg{{"wr_id", wrs[i].ID}, {"sg_list", slices.Clone(wrs[i].SGL)}}
	}
	return out
}

// postSend posts work requests of a device whose calls are logged or checked. They may be on the caller's stack, so
// nothing keeps them.
func (qp *QP) postSend(call string, wrs []SendWR, all bool) (n int, err error) {
	var end func(result any, err error, out ...callArg)
	if qp.dev.logs(call) {
		end = qp.dev.calls.Begin(call, callArg{"qp", qp}, callArg{"wr", sendArgs(wrs)})
	}
	switch c := qp.dev.checks; {
	case c != nil:
		n, err = c.PostSend(qp, wrs, all)
	case all:
		if err = qp.drv.PostSendAll(wrs); err == nil {
			n = len(wrs)
		}
	default:
		n, err = qp.drv.PostSend(wrs)
	}
	err = postSendError(err)
	if end != nil {
		end(nil, err)
	}
	return n, err
}

// postRecv does so with receives.
func (qp *QP) postRecv(wrs []RecvWR) (n int, err error) {
	var end func(result any, err error, out ...callArg)
	if qp.dev.logs("ibv_post_recv") {
		end = qp.dev.calls.Begin("ibv_post_recv", callArg{"qp", qp}, callArg{"wr", recvArgs(wrs)})
	}
	if c := qp.dev.checks; c != nil {
		n, err = c.PostRecv(qp, nil, wrs)
	} else {
		n, err = qp.drv.PostRecv(wrs)
	}
	err = wrap("post_recv", err)
	if end != nil {
		end(nil, err)
	}
	return n, err
}

// postRecv does so with receives of a shared receive queue.
func (s *SRQ) postRecv(wrs []RecvWR) (n int, err error) {
	var end func(result any, err error, out ...callArg)
	if s.dev.logs("ibv_post_srq_recv") {
		end = s.dev.calls.Begin("ibv_post_srq_recv", callArg{"srq", s}, callArg{"wr", recvArgs(wrs)})
	}
	if c := s.dev.checks; c != nil {
		n, err = c.PostRecv(nil, s, wrs)
	} else {
		n, err = s.drv.PostRecv(wrs)
	}
	err = wrap("post_srq_recv", err)
	if end != nil {
		end(nil, err)
	}
	return n, err
}

// polled has the completions checked and logged that a poll has found, if any.
func (cq *CQ) polled(wcs []WC) {
	if c := cq.dev.checks; c != nil {
		c.Polled(cq, wcs)
	}
	if len(wcs) > 0 && cq.dev.logs("ibv_poll_cq") {
		end := cq.dev.calls.Begin("ibv_poll_cq", callArg{"cq", cq})
		end(len(wcs), nil, callArg{"wc", slices.Clone(wcs)})
	}
}
