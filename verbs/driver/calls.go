// SPDX-License-Identifier: Apache-2.0

package driver

import (
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

var (
	logCalls = hook.LogCalls.(func(*verbs.Device, CallLog))
	callsOf  = hook.CallsOf.(func(*verbs.Device) CallLog)

	checkWith = hook.CheckWith.(func(*verbs.Device, CallLog, Checker))
)

// CallLog logs the calls of a device and its objects, by the names that they have in C.
type CallLog = interface {
	// Wants reports whether a call of the data path is logged. Others are always begun: they make and end objects.
	Wants(call string) bool
	// Begin notes a call with its arguments, and end its result, its error and the output that it has filled in.
	// Arguments are values of package verbs, pointers to its objects, or lists and structs of these: []any, []CallArg.
	Begin(call string, args ...CallArg) (end func(result any, err error, out ...CallArg))
}

// CallArg is an argument of a call by its name in C, or a field of a struct.
type CallArg = struct {
	Name  string
	Value any
}

// LogCalls has the calls of a device logged. The code that opens a device calls it, before the program has the device.
func LogCalls(d *verbs.Device, l CallLog) { logCalls(d, l) }

// Checker checks the work requests and the completions of a device. It may post others in the place of a program's,
// such as ones with other IDs or other memory, and changes their completions accordingly.
type Checker = interface {
	// PostSend posts work requests of a program at the driver, and returns how many it has posted. With all it posts
	// all of them or none.
	PostSend(qp *verbs.QP, wrs []verbs.SendWR, all bool) (int, error)
	// PostRecv posts receives of a queue pair or of a shared receive queue; the other is nil.
	PostRecv(qp *verbs.QP, srq *verbs.SRQ, wrs []verbs.RecvWR) (int, error)
	// Polled is given the completions of a poll before the program has them, and may change them. There may be none.
	Polled(cq *verbs.CQ, wcs []verbs.WC)
	// Name returns a failure, which may be nil, with the ID that the program has given to the work request.
	Name(f *verbs.Failure) *verbs.Failure
	// Look is called before a program waits until cond is true: of n bytes of a region from off on or, if n is the
	// region's length, of any bytes. It returns the condition to use in place of cond. seen is called once that was
	// true.
	Look(mr *verbs.MR, off, n int, cond func(b []byte) bool) (watched func(b []byte) bool, seen func())
}

// CheckWith has a device checked: its calls go to l, and its work requests and completions through c. The code that
// opens a device calls it, before the program has the device.
func CheckWith(d *verbs.Device, l CallLog, c Checker) { checkWith(d, l, c) }

// CallsOf returns the log of a device's calls, nil if there is none. It is for packages with calls of their own, as
// package cm has.
func CallsOf(d *verbs.Device) CallLog { return callsOf(d) }
