// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// callFacts are calls that are refused, by the errno that C programs get.
var callFacts = []fact{
	{name: "Call/PostSend/RESET", find: call(postSendIn(verbs.StateReset)), want: "EINVAL"},
	{name: "Call/PostSend/INIT", find: call(postSendIn(verbs.StateInit)), want: "EINVAL"},
	{name: "Call/PostSend/RTR", find: call(postSendIn(verbs.StateRTR)), want: "EINVAL", needs: []Ability{Numbered}},
	{name: "Call/PostRecv/RESET", find: call(func(e *end) error { return e.qp.PostRecv(&verbs.RecvWR{}) }),
		want: "EINVAL"},
	{name: "Call/PostRecv/SRQ", find: call(postRecvOfSRQ), want: "EINVAL", needs: []Ability{SharedRecvs}},
	{name: "Call/PostRecv/Full", find: call(fillRecv), want: "ENOMEM"},
	{name: "Call/PostRecv/TooManySGEs", find: call(func(e *end) error {
		e.step(verbs.StateInit, e.ep)
		lim := e.qp.Query().Cap
		return e.qp.PostRecv(&verbs.RecvWR{SGL: make([]verbs.SGE, lim.MaxRecvSGE+1)})
	}), want: "EINVAL"},
	{name: "Call/PostSend/Closed", find: call(postClosed), want: "EINVAL"},
	{name: "Call/PostSend/Full", find: connectedCall(fillSend), want: "ENOMEM", needs: []Ability{Acknowledged}},
	{name: "Call/PostSend/NoSuchOp", find: connectedCall(posting(verbs.SendWR{Op: 99})), want: "EINVAL"},
	{name: "Call/PostSend/TooManySGEs", find: connectedCall(func(e *end) error {
		lim := e.qp.Query().Cap
		return e.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: make([]verbs.SGE, lim.MaxSendSGE+1)})
	}), want: "EINVAL"},
	{name: "Call/PostSend/InlineTooLong", find: connectedCall(func(e *end) error {
		lim := e.qp.Query().Cap
		return e.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, Inline: make([]byte, lim.MaxInline+1)})
	}), want: "EINVAL"},
	{name: "Call/PostSend/InlineRead", find: connectedCall(posting(verbs.SendWR{Op: verbs.OpRead, Inline: []byte{1}})),
		want: "EINVAL"},
	{name: "Call/PostSend/BindNothing", find: connectedCall(posting(verbs.SendWR{Op: verbs.OpBindMW})),
		want: "EINVAL", needs: []Ability{Windows}},
	{name: "Call/PostSend/UC/Read", find: unreliableCall(verbs.SendWR{Op: verbs.OpRead}),
		want: "EINVAL", needs: []Ability{Unreliable}},
	{name: "Call/PostSend/UC/FetchAdd", find: unreliableCall(verbs.SendWR{Op: verbs.OpFetchAdd}),
		want: "EINVAL", needs: []Ability{Unreliable}},
	{name: "Call/PostSend/UC/SendInv", find: unreliableCall(verbs.SendWR{Op: verbs.OpSendInv}),
		want: "EINVAL", needs: []Ability{Unreliable}},
	{name: "Call/PostSend/UD/Write", find: datagramCall(verbs.OpWrite), want: "EINVAL", needs: []Ability{Datagrams}},
	{name: "Call/PostSend/UD/Read", find: datagramCall(verbs.OpRead), want: "EINVAL", needs: []Ability{Datagrams}},
	{name: "Call/PostSend/UD/NoAH", find: datagramCall(verbs.OpSend), want: "EINVAL", needs: []Ability{Datagrams}},
	{name: "Call/CreateCQ/None", find: call(func(e *end) error { return second(e.dev.CreateCQ(0, nil)) }),
		want: "EINVAL"},
	{name: "Call/CreateCQ/TooMany",
		find: call(func(e *end) error { return second(e.dev.CreateCQ(e.dev.Query().MaxCQE+1, nil)) }),
		want: "EINVAL"},
	{name: "Call/ResizeCQ/TooMany", find: call(func(e *end) error { return e.scq.Resize(e.dev.Query().MaxCQE + 1) }),
		want: "EINVAL"},
	{name: "Call/CloseCQ/Busy", find: call(func(e *end) error { return e.scq.Close() }), want: "EBUSY"},
	{name: "Call/ClosePD/Busy", find: call(func(e *end) error { return e.pd.Close() }), want: "EBUSY"},
	{name: "Call/RegMR/Nothing", find: call(func(e *end) error { return second(e.pd.RegMR(nil, verbs.LocalWrite)) }),
		want: "done"},
	{name: "Call/RegMR/RemoteWriteAlone",
		find: call(func(e *end) error { return second(e.pd.RegMR(make([]byte, 8), verbs.RemoteWrite)) }),
		want: "EINVAL"},
	{name: "Call/RegMR/AtomicAlone",
		find: call(func(e *end) error { return second(e.pd.RegMR(make([]byte, 8), verbs.RemoteAtomic)) }),
		want: "EINVAL"},
	{name: "Call/RegMR/NoSuchRight",
		find: call(func(e *end) error { return second(e.pd.RegMR(make([]byte, 8), 1<<30)) }),
		want: "EINVAL"},
	{name: "Call/CreateQP/TooManyWRs", find: call(func(e *end) error {
		return second(e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq,
			Cap: verbs.QPCap{MaxSendWR: e.dev.Query().MaxQPWR + 1}}))
	}), want: "EINVAL"},
	{name: "Call/CreateQP/NoCQ",
		find: call(func(e *end) error { return second(e.pd.CreateQP(verbs.QPInit{Type: verbs.RC})) }),
		want: "EINVAL"},
	{name: "Call/CreateQP/NoSuchType", find: call(func(e *end) error {
		return second(e.pd.CreateQP(verbs.QPInit{Type: 77, SendCQ: e.scq, RecvCQ: e.rcq}))
	}), want: "EINVAL"},
	{name: "Call/CreateSRQ/TooManyWRs", find: call(func(e *end) error {
		return second(e.pd.CreateSRQ(verbs.SRQInit{MaxWR: e.dev.Query().MaxSRQWR + 1}))
	}), want: "EINVAL", needs: []Ability{SharedRecvs}},
	{name: "Call/AllocMW/NoSuchType", find: call(func(e *end) error { return second(e.pd.AllocMW(3)) }),
		want: "EINVAL", needs: []Ability{Windows}},
	{name: "Call/BindMW/Type2", find: connectedCall(func(e *end) error {
		mw := value(e.pd.AllocMW(verbs.MWType2))(e.t)
		return e.qp.BindMW(0, 0, verbs.MWBindInfo{MW: mw, MR: e.mr, Addr: e.mr.Addr(), Length: 8})
	}), want: "EINVAL", needs: []Ability{Windows}},
	{name: "Call/CloseMR/Bound", find: connectedCall(func(e *end) error {
		e.window(verbs.MWType2, windowAccess)
		return e.mr.Close()
	}), want: "EBUSY", needs: []Ability{Windows}},
	{name: "Call/CreateAH/Nobody", find: call(func(e *end) error { return second(e.pd.CreateAH(verbs.AHAttr{})) }),
		want: "EINVAL", needs: []Ability{Datagrams}},
	{name: "Call/CreateAH/NoSuchPort", find: call(func(e *end) error {
		to := way(e.ep)
		to.Port = 200
		return second(e.pd.CreateAH(to))
	}), want: "EINVAL", needs: []Ability{Datagrams}},
	{name: "Call/AttachMulticast/RC",
		find: call(func(e *end) error { return e.qp.AttachMulticast(verbs.GID{0: 0xff, 1: 0x12}, 0xc001) }),
		want: "EINVAL", needs: []Ability{Multicast}},
	{name: "Call/Port/NoSuch", find: call(func(e *end) error { return second(e.dev.Port(200)) }), want: "EINVAL"},
	{name: "Call/Endpoint/NoSuchGID", find: call(func(e *end) error { return second(e.qp.Endpoint(1000)) }),
		want: "ENOENT"},
	{name: "Call/ModifyQP/Capacities",
		find: call(func(e *end) error { return e.qp.Modify(verbs.QPAttr{}, verbs.MaskCap) }),
		want: "EOPNOTSUPP"},
	{name: "Call/ModifyQP/AlternatePath",
		find: call(func(e *end) error { return e.qp.Modify(verbs.QPAttr{}, verbs.MaskAltPath) }),
		want: "EINVAL"},
	{name: "Call/ModifyQP/RateLimit",
		find: call(func(e *end) error { return e.qp.Modify(verbs.QPAttr{}, verbs.MaskRateLimit) }),
		want: "EINVAL"},
}

func second[V any](_ V, err error) error { return err }

// call makes a call with an end whose queue pair is in RESET.
func call(f func(*end) error) func(*T) string {
	return func(t *T) string {
		dev, _ := t.devices()
		e := t.newEnd(dev, setup{})
		e.addQP(verbs.QPInit{Cap: verbs.QPCap{MaxRecvWR: 4}})
		return errno(f(e))
	}
}

// connectedCall makes one with an end that is connected.
func connectedCall(f func(*end) error) func(*T) string {
	return func(t *T) string {
		a, _ := t.pair(setup{})
		return errno(f(a))
	}
}

func unreliableCall(wr verbs.SendWR) func(*T) string {
	return func(t *T) string {
		a, b := t.pair(setup{qp: verbs.QPInit{Type: verbs.UC}})
		wr.SGL, wr.Remote = a.sgl(0, 8), b.at(0)
		return errno(a.qp.PostSend(&wr))
	}
}

func datagramCall(op verbs.SendOp) func(*T) string {
	return func(t *T) string {
		a, b, ah := datagramPair(t)
		wr := a.datagram(ah, b, 8)
		if wr.Op = op; op == verbs.OpSend {
			wr.AH = nil
		}
		return errno(a.qp.PostSend(&wr))
	}
}

// errno names the errno of the C interface.
func errno(err error) string {
	var op *verbs.OpError
	switch {
	case err == nil:
		return "done"
	case !errors.As(err, &op):
		return err.Error()
	}
	if name, known := errnos[op.Errno()]; known {
		return name
	}
	return op.Errno().Error()
}

var errnos = map[syscall.Errno]string{
	syscall.EBUSY: "EBUSY", syscall.EFAULT: "EFAULT", syscall.EINVAL: "EINVAL", syscall.ENOENT: "ENOENT",
	syscall.ENOMEM: "ENOMEM", syscall.EOPNOTSUPP: "EOPNOTSUPP", syscall.EPERM: "EPERM",
}

func posting(wr verbs.SendWR) func(*end) error {
	return func(e *end) error { return e.qp.PostSend(&wr) }
}

func postSendIn(s verbs.QPState) func(*end) error {
	return func(e *end) error { return e.inState(verbs.RC, s, nil).PostSend(&verbs.SendWR{Op: verbs.OpSend}) }
}

func postRecvOfSRQ(e *end) error {
	srq := value(e.pd.CreateSRQ(verbs.SRQInit{MaxWR: 4, MaxSGE: 1}))(e.t)
	e.addQP(verbs.QPInit{SRQ: srq})
	e.step(verbs.StateInit, e.ep)
	return e.qp.PostRecv(&verbs.RecvWR{})
}

func fillRecv(e *end) error {
	e.step(verbs.StateInit, e.ep)
	lim := e.qp.Query().Cap
	return second(e.qp.PostRecvList(make([]verbs.RecvWR, lim.MaxRecvWR+1)))
}

func postClosed(e *end) error {
	e.t.ok(e.qp.Close())
	return e.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend})
}

// fillSend posts one more than the send queue takes. The queue pair drains, so that none of them ends meanwhile.
func fillSend(e *end) error {
	e.t.ok(e.qp.Modify(verbs.QPAttr{State: verbs.StateSQD}, verbs.MaskState))
	lim := e.qp.Query().Cap
	sends := make([]verbs.SendWR, lim.MaxSendWR+1)
	for i := range sends {
		sends[i].Op = verbs.OpSend
	}
	return second(e.qp.PostSendList(sends))
}

// limitFacts are the limits that a device tells, which programs choose their sizes by.
var limitFacts = []fact{
	limit("MaxMRSize", func(a verbs.DeviceAttr) any { return a.MaxMRSize }, "9223372036854775807"),
	limit("MaxQP", func(a verbs.DeviceAttr) any { return a.MaxQP }, "65536"),
	limit("MaxQPWR", func(a verbs.DeviceAttr) any { return a.MaxQPWR }, "16384"),
	limit("MaxSGE", func(a verbs.DeviceAttr) any { return a.MaxSGE }, "32"),
	limit("MaxSGERead", func(a verbs.DeviceAttr) any { return a.MaxSGERead }, "32"),
	limit("MaxInline", func(a verbs.DeviceAttr) any { return a.MaxInline }, "4096"),
	limit("MaxCQ", func(a verbs.DeviceAttr) any { return a.MaxCQ }, "65536"),
	limit("MaxCQE", func(a verbs.DeviceAttr) any { return a.MaxCQE }, "4194304"),
	limit("MaxMR", func(a verbs.DeviceAttr) any { return a.MaxMR }, "65536"),
	limit("MaxMW", func(a verbs.DeviceAttr) any { return a.MaxMW }, "65536"),
	limit("MaxPD", func(a verbs.DeviceAttr) any { return a.MaxPD }, "65536"),
	limit("MaxAH", func(a verbs.DeviceAttr) any { return a.MaxAH }, "65536", Datagrams),
	limit("MaxSRQ", func(a verbs.DeviceAttr) any { return a.MaxSRQ }, "65536"),
	limit("MaxSRQWR", func(a verbs.DeviceAttr) any { return a.MaxSRQWR }, "65536"),
	limit("MaxSRQSGE", func(a verbs.DeviceAttr) any { return a.MaxSRQSGE }, "32"),
	limit("MaxXRCD", func(a verbs.DeviceAttr) any { return a.MaxXRCD }, "65536", XRC),
	limit("MaxQPRdAtomic", func(a verbs.DeviceAttr) any { return a.MaxQPRdAtomic }, "128"),
	limit("MaxQPInitRdAtomic", func(a verbs.DeviceAttr) any { return a.MaxQPInitRdAtomic }, "128"),
	limit("MaxMcastGroups", func(a verbs.DeviceAttr) any { return a.MaxMcastGroups }, "65536", Multicast),
	limit("MaxMcastQP", func(a verbs.DeviceAttr) any { return a.MaxMcastQP }, "65536", Multicast),
	limit("MaxPKeys", func(a verbs.DeviceAttr) any { return a.MaxPKeys }, "1"),
	limit("Atomic", func(a verbs.DeviceAttr) any { return a.Atomic }, "ATOMIC_GLOB"),
	limit("MaxMsgSize", func(a verbs.DeviceAttr) any { return a.MaxMsgSize }, "2147483648"),
	limit("Caps", func(a verbs.DeviceAttr) any { return strings.ReplaceAll((a.Caps &^ ofSystem).String(), "|", " ") },
		"SRQ XRC MEM_WINDOW_TYPE_1 MEM_WINDOW_TYPE_2B SEND_WITH_INV RC_RNR_NAK_GEN SRQ_RESIZE RESIZE_CQ FLUSH ATOMIC_WRITE TIMESTAMP ON_DEMAND UD_MULTICAST UC UD"),
	{name: "Limit/Port/MaxMsg", want: "2147483648", find: func(t *T) string {
		dev, _ := t.devices()
		return fmt.Sprint(value(dev.Port(1))(t).MaxMsg)
	}},
	{name: "Limit/Granted", find: granted, want: "sends 5, receives 6, SGEs 3 and 2, inline 9"},
}

// ofSystem are abilities that depend on the operating system.
const ofSystem = verbs.CapFlushPersistent

func limit(name string, of func(verbs.DeviceAttr) any, want string, needs ...Ability) fact {
	return fact{name: "Limit/" + name, want: want, needs: needs, find: func(t *T) string {
		dev, _ := t.devices()
		return fmt.Sprint(of(dev.Query()))
	}}
}

// granted asks for sizes that are not round.
func granted(t *T) string {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{Cap: verbs.QPCap{MaxSendWR: 5, MaxRecvWR: 6, MaxSendSGE: 3, MaxRecvSGE: 2, MaxInline: 9}})
	lim := e.qp.Query().Cap
	return fmt.Sprintf("sends %d, receives %d, SGEs %d and %d, inline %d", lim.MaxSendWR, lim.MaxRecvWR, lim.MaxSendSGE,
		lim.MaxRecvSGE, lim.MaxInline)
}
