// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"reflect"
	"syscall"
	"unsafe"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// ForGo logs the calls of Go programs. It implements driver.CallLog.
type ForGo struct{ *Log }

// Wants reports whether a call of the data path is logged.
func (l ForGo) Wants(call string) bool { return l.filter.wants(call) }

// Begin notes a call of package verbs or cm that begins, and end its end. Arguments and results are values of package
// verbs, or of this one.
func (l ForGo) Begin(call string, args ...Arg) (end func(result any, err error, out ...Arg)) {
	p := l.Log.Begin(call, 0, func() []Arg { return convert(args) })
	if p == nil {
		p = l.Unseen()
	}
	ends := Destroys(call)
	if len(args) > 0 && ends {
		if o, ok := fromGo(args[0].Value).(Object); ok {
			p.Destroys(o)
		}
	}
	return func(result any, err error, out ...Arg) {
		r := &Result{}
		switch {
		case err != nil:
			r.Failed, r.Errno, r.Reason = true, errnoName(err), err.Error()
			r.Value = Symbol("-1")
		default:
			r.Value, r.Out = fromGo(result), convert(out)
			if o, ok := r.Value.(Object); ok && o.Key != 0 {
				r.Made = []Object{o}
				if qp, ok := result.(*verbs.QP); ok {
					r.QPN = uint32(qp.Num())
				}
			}
			if r.Value == nil {
				r.Value = Symbol("0")
			}
		}
		p.End(r)
	}
}

// Destroys reports whether a call destroys the object that it names first.
func Destroys(call string) bool {
	c := Find(call)
	return c != nil && c.Destroys()
}

// convert converts arguments. It keeps a queue pair's attributes that are in the mask.
func convert(args []Arg) []Arg {
	var mask verbs.QPMask
	for _, a := range args {
		if m, ok := a.Value.(verbs.QPMask); ok {
			mask = m
		}
	}
	out := make([]Arg, len(args))
	for i, a := range args {
		v := a.Value
		if attr, ok := v.(verbs.QPAttr); ok {
			v = qpAttrs(&attr, mask)
		}
		out[i] = Arg{a.Name, fromGo(v)}
	}
	return out
}

// fromGo converts a value of package verbs.
func fromGo(v any) any {
	switch v := v.(type) {
	case *verbs.Device:
		return Symbol(v.Name())
	case verbs.Access:
		return Named("access", accessBits(v))
	case verbs.QPMask:
		return Named("qp_mask", uint64(v&(verbs.MaskRateLimit-1))|uint64(v&verbs.MaskRateLimit)<<4)
	case verbs.SRQMask:
		return Named("srq_mask", uint64(v))
	case verbs.ReregFlags:
		return Named("rereg", uint64(v))
	case verbs.QPState:
		return Named("qp_state", uint64(v))
	case verbs.QPType:
		return qpType(v)
	case verbs.MTU:
		return Named("mtu", uint64(v))
	case verbs.MWType:
		return Named("mw_type", uint64(v))
	case verbs.EventType:
		return Named("event_type", uint64(v))
	case verbs.Status:
		return Named("wc_status", uint64(v))
	case verbs.SendOp:
		return Symbol("IBV_WR_" + v.String())
	case verbs.WCOp:
		return Symbol("IBV_WC_" + v.String())
	case verbs.SendFlags:
		return sendFlags(v)
	case verbs.Key:
		return Hex(v)
	case verbs.QPN:
		return Hex(v)
	case verbs.QKey:
		return Hex(v)
	case uint64: // ids and addresses
		return Hex(v)
	case unsafe.Pointer:
		return Pointer(uint64(uintptr(v)))
	case verbs.AHAttr:
		return Fields{{"dlid", v.DLID}, {"sl", v.SL}, {"port_num", v.Port}, {"dgid", fromGo(v.DGID)},
			{"sgid_index", v.SGIDIndex}, {"hop_limit", v.HopLimit}, {"traffic_class", v.TrafficClass}}
	case verbs.SRQInit:
		return Fields{{"max_wr", v.MaxWR}, {"max_sge", v.MaxSGE}, {"xrcd", fromGo(v.XRCD)}, {"cq", fromGo(v.CQ)}}
	case verbs.SRQAttr:
		return Fields{{"max_wr", v.MaxWR}, {"max_sge", v.MaxSGE}, {"srq_limit", v.Limit}}
	case verbs.QPInit:
		return Fields{{"qp_type", qpType(v.Type)}, {"send_cq", fromGo(v.SendCQ)}, {"recv_cq", fromGo(v.RecvCQ)},
			{"srq", fromGo(v.SRQ)}, {"cap", capacity(v.Cap)}, {"sq_sig_all", v.SignalAll}}
	case verbs.PortAttr:
		return Fields{{"state", Named("port_state", uint64(v.State))}, {"active_mtu", fromGo(v.ActiveMTU)},
			{"lid", v.LID}}
	case verbs.Event:
		f := Fields{{"event_type", fromGo(v.Type)}}
		switch {
		case v.CQ != nil:
			return append(f, Arg{"cq", fromGo(v.CQ)})
		case v.QP != nil:
			return append(f, Arg{"qp", fromGo(v.QP)})
		case v.SRQ != nil:
			return append(f, Arg{"srq", fromGo(v.SRQ)})
		}
		return append(f, Arg{"port_num", v.Port})
	case []verbs.SGE:
		return listOf(v, func(s verbs.SGE) any {
			return Fields{{"addr", Hex(s.Addr)}, {"length", s.Length}, {"lkey", Hex(s.LKey)}}
		})
	case []verbs.WC:
		return listOf(v, func(wc verbs.WC) any {
			return Fields{{"wr_id", Hex(wc.ID)}, {"status", fromGo(wc.Status)}, {"opcode", fromGo(wc.Op)},
				{"byte_len", wc.ByteLen}, {"qp_num", Hex(wc.QPN)}}
		})
	case []any:
		return listOf(v, fromGo)
	case []Arg:
		return Fields(convert(v))
	case verbs.GID: // as C programs' logs have it
		return Symbol(netip.AddrFrom16(v).String())
	case netip.Addr:
		return Symbol(v.String())
	case netip.AddrPort:
		if !v.IsValid() {
			return nil
		}
		return Symbol(v.String())
	case Object, Symbol, Hex, Fields, List:
		return v
	}
	if kind, ok := kindOf(v); ok {
		return Object{kind, reflect.ValueOf(v).Pointer()}
	}
	return v
}

// kindOf returns the kind of an object of package verbs. The object may be nil.
func kindOf(v any) (string, bool) {
	switch v.(type) {
	case *verbs.PD:
		return "pd", true
	case *verbs.MR:
		return "mr", true
	case *verbs.MW:
		return "mw", true
	case *verbs.AH:
		return "ah", true
	case *verbs.CQ:
		return "cq", true
	case *verbs.CompChannel:
		return "channel", true
	case *verbs.SRQ:
		return "srq", true
	case *verbs.QP:
		return "qp", true
	case *verbs.XRCD:
		return "xrcd", true
	}
	return "", false
}

// MaxListed is how many elements of a list the log shows.
const MaxListed = 16

func listOf[T any](all []T, one func(T) any) List {
	out := List{}
	for i, e := range all {
		if i == MaxListed {
			return append(out, Symbol("…"))
		}
		out = append(out, one(e))
	}
	return out
}

// qpAttrs returns the attributes in a mask, by their names in C.
func qpAttrs(a *verbs.QPAttr, mask verbs.QPMask) Fields {
	f := Fields{}
	for _, one := range []struct {
		bit  verbs.QPMask
		name string
		v    any
	}{
		{verbs.MaskState, "qp_state", a.State},
		{verbs.MaskCurState, "cur_qp_state", a.CurState},
		{verbs.MaskSQDAsyncNotify, "en_sqd_async_notify", a.SQDAsyncNotify},
		{verbs.MaskAccess, "qp_access_flags", a.Access},
		{verbs.MaskPKeyIndex, "pkey_index", a.PKeyIndex},
		{verbs.MaskPort, "port_num", a.Port},
		{verbs.MaskQKey, "qkey", a.QKey},
		{verbs.MaskAH, "ah_attr", a.AH},
		{verbs.MaskPathMTU, "path_mtu", a.PathMTU},
		{verbs.MaskDestQPN, "dest_qp_num", a.DestQPN},
		{verbs.MaskRQPSN, "rq_psn", Hex(a.RQPSN)},
		{verbs.MaskSQPSN, "sq_psn", Hex(a.SQPSN)},
		{verbs.MaskTimeout, "timeout", a.Timeout},
		{verbs.MaskRetryCount, "retry_cnt", a.RetryCount},
		{verbs.MaskRNRRetry, "rnr_retry", a.RNRRetry},
		{verbs.MaskMinRNRTimer, "min_rnr_timer", a.MinRNRTimer},
		{verbs.MaskMaxRdAtomic, "max_rd_atomic", a.MaxRdAtomic},
		{verbs.MaskMaxDestRdAtomic, "max_dest_rd_atomic", a.MaxDestRdAtomic},
		{verbs.MaskMigState, "path_mig_state", Named("mig_state", uint64(a.MigState))},
		{verbs.MaskCap, "cap", capacity(a.Cap)},
		{verbs.MaskRateLimit, "rate_limit", a.RateLimit},
	} {
		if mask&one.bit != 0 {
			f = append(f, Arg{one.name, fromGo(one.v)})
		}
	}
	return f
}

func capacity(c verbs.QPCap) Fields {
	return Fields{{"max_send_wr", c.MaxSendWR}, {"max_recv_wr", c.MaxRecvWR}, {"max_send_sge", c.MaxSendSGE},
		{"max_recv_sge", c.MaxRecvSGE}, {"max_inline_data", c.MaxInline}}
}

func qpType(t verbs.QPType) Symbol {
	switch t {
	case verbs.RC, verbs.UC, verbs.UD:
		return Symbol("IBV_QPT_" + t.String())
	case verbs.XRCIni:
		return "IBV_QPT_XRC_SEND"
	case verbs.XRCTgt:
		return "IBV_QPT_XRC_RECV"
	}
	return Symbol(fmt.Sprint(int(t)))
}

// accessBits returns access rights as the bits of enum ibv_access_flags.
func accessBits(a verbs.Access) uint64 {
	v := uint64(a & (verbs.RelaxedOrdering - 1))
	for _, f := range []struct {
		bit verbs.Access
		c   uint64
	}{{verbs.FlushGlobal, 1 << 8}, {verbs.FlushPersistent, 1 << 9}, {verbs.RelaxedOrdering, 1 << 20}} {
		if a&f.bit != 0 {
			v |= f.c
		}
	}
	return v
}

func sendFlags(f verbs.SendFlags) Symbol {
	var v uint64
	for i, bit := range []verbs.SendFlags{verbs.Fence, verbs.Signaled, verbs.Solicited} {
		if f&bit != 0 {
			v |= 1 << i
		}
	}
	return Named("send_flags", v)
}

// errnoName returns the name of the errno that C would report for an error.
func errnoName(err error) string {
	var op *verbs.OpError
	var errno syscall.Errno
	switch {
	case errors.As(err, &op):
		errno = op.Errno()
	case errors.Is(err, context.DeadlineExceeded):
		errno = syscall.ETIMEDOUT
	case errors.Is(err, context.Canceled):
		errno = syscall.ECANCELED
	case !errors.As(err, &errno):
		return "EINVAL"
	}
	if name, ok := errnoNames[errno]; ok {
		return name
	}
	return fmt.Sprintf("errno %d", int(errno))
}

var errnoNames = map[syscall.Errno]string{
	syscall.EACCES: "EACCES", syscall.EADDRINUSE: "EADDRINUSE", syscall.EADDRNOTAVAIL: "EADDRNOTAVAIL",
	syscall.EAGAIN: "EAGAIN", syscall.EBUSY: "EBUSY", syscall.ECANCELED: "ECANCELED",
	syscall.ECONNREFUSED: "ECONNREFUSED",
	syscall.EFAULT:       "EFAULT", syscall.EINTR: "EINTR", syscall.EINVAL: "EINVAL", syscall.EIO: "EIO",
	syscall.EMFILE: "EMFILE", syscall.ENODEV: "ENODEV", syscall.ENOENT: "ENOENT", syscall.ENOMEM: "ENOMEM",
	syscall.ENOSPC: "ENOSPC", syscall.ENOTCONN: "ENOTCONN", syscall.EOPNOTSUPP: "EOPNOTSUPP",
	syscall.EPERM: "EPERM", syscall.ETIMEDOUT: "ETIMEDOUT",
}
