// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// fact is how a device answers something that programs can see. All kinds answer alike, unless Differences has a row.
type fact struct {
	name  string
	find  func(*T) string
	want  string
	needs []Ability
}

// allFacts has the facts of all files, in the order of the page.
func allFacts() []fact {
	return slices.Concat(facts, unreliableFacts, windowFacts, flushFacts, modifyFacts, callFacts, limitFacts)
}

// factTests has a test for each fact.
func factTests() (list []test) {
	for _, f := range allFacts() {
		list = append(list, test{name: "Fact/" + f.name, needs: append([]Ability{Alike}, f.needs...), run: func(t *T) {
			want := f.want
			if d := differenceOf(t.kind(), f.name); d != nil {
				want = d.Instead
			}
			if got := f.find(t); got != want {
				t.Errorf("the device answers %q, want %q, as the others do: make it equal, or say in Differences what forbids it", got, want)
			}
		}})
	}
	return list
}

const (
	accessError  = "remote access error, peer in ERR"
	requestError = "remote invalid request error, peer in ERR"
	invalidated  = "remote access error, receive: remote invalid request error, peer in ERR"
	protection   = "local protection error"
)

var facts = []fact{
	{name: "Key/Write", find: refusal(verbs.OpWrite, wrongKey), want: accessError},
	{name: "Key/WriteImm", find: refusal(verbs.OpWriteImm, wrongKey), want: accessError,
		needs: []Ability{WriteWithImm}},
	{name: "Key/Read", find: refusal(verbs.OpRead, wrongKey), want: accessError},
	{name: "Key/CompareSwap", find: refusal(verbs.OpCompareSwap, wrongKey), want: accessError,
		needs: []Ability{Atomics}},
	{name: "Key/FetchAdd", find: refusal(verbs.OpFetchAdd, wrongKey), want: accessError, needs: []Ability{Atomics}},
	{name: "Key/AtomicWrite", find: refusal(verbs.OpAtomicWrite, wrongKey), want: accessError,
		needs: []Ability{AtomicFlush}},
	{name: "Key/Flush", find: refusal(verbs.OpFlush, wrongKey), want: accessError, needs: []Ability{AtomicFlush}},
	{name: "Bounds/Write", find: refusal(verbs.OpWrite, outside), want: accessError},
	{name: "Bounds/Read", find: refusal(verbs.OpRead, outside), want: accessError},
	{name: "Bounds/FetchAdd", find: refusal(verbs.OpFetchAdd, outside), want: accessError, needs: []Ability{Atomics}},
	{name: "Owner/Write", find: refusal(verbs.OpWrite, otherOwner), want: accessError},
	{name: "Owner/Read", find: refusal(verbs.OpRead, otherOwner), want: accessError},
	{name: "Closed/Write", find: refusal(verbs.OpWrite, deregistered), want: accessError},
	{name: "Closed/Read", find: refusal(verbs.OpRead, deregistered), want: accessError},
	{name: "Right/Write", find: refusal(verbs.OpWrite, noRightTo(verbs.LocalWrite|verbs.RemoteRead)),
		want: accessError},
	{name: "Right/Read", find: refusal(verbs.OpRead, noRightTo(verbs.LocalWrite|verbs.RemoteWrite)), want: accessError},
	{name: "Right/FetchAdd", find: refusal(verbs.OpFetchAdd, noRightTo(verbs.LocalWrite|verbs.RemoteWrite)),
		want: accessError, needs: []Ability{Atomics}},
	{name: "QPRight/Write", find: refusalOf(verbs.OpWrite, verbs.RemoteRead), want: requestError},
	{name: "QPRight/Read", find: refusalOf(verbs.OpRead, verbs.RemoteWrite), want: requestError},
	{name: "QPRight/FetchAdd", find: refusalOf(verbs.OpFetchAdd, verbs.RemoteWrite), want: requestError,
		needs: []Ability{Atomics}},
	{name: "Align/FetchAdd", find: refusal(verbs.OpFetchAdd, misaligned), want: requestError,
		needs: []Ability{Atomics}},
	{name: "Align/AtomicWrite", find: refusal(verbs.OpAtomicWrite, misaligned), want: requestError,
		needs: []Ability{AtomicFlush}},
	{name: "KeyBeforeAlign/FetchAdd", find: refusal(verbs.OpFetchAdd, misaligned, wrongKey), want: accessError,
		needs: []Ability{Atomics}},
	{name: "Key/EmptyRead", find: emptyRead, want: "success, peer in RTS"},
	{name: "LocalKey/Write", find: refusal(verbs.OpWrite, wrongLocalKey), want: protection},
	{name: "LocalKey/Read", find: refusal(verbs.OpRead, wrongLocalKey), want: protection},
	{name: "LocalKey/Send", find: refusal(verbs.OpSend, wrongLocalKey), want: protection},
	{name: "Receive/TooShort", find: receive(verbs.OpSend, 4, nil),
		want: "remote invalid request error, receive: local length error, peer in ERR"},
	{name: "Receive/BadKey", find: receive(verbs.OpSend, 64, func(e *verbs.SGE) { e.LKey ^= 0x10000 }),
		want: "remote operation error, receive: local protection error, peer in ERR"},
	{name: "Receive/None", find: noReceive, want: "RNR retry counter exceeded"},
	{name: "PrivateData/Request", find: requestData(10), want: "56 bytes", needs: []Ability{Connections}},
	{name: "PrivateData/LongRequest", find: requestData(57), want: "refused", needs: []Ability{Connections}},
	{name: "PrivateData/Reject", find: rejectData(10), want: "148 bytes", needs: []Ability{Connections}},
	{name: "PrivateData/LongReject", find: rejectData(149), want: "refused", needs: []Ability{Connections}},
	{name: "SendInv/NoKey", find: sendInv(func(_ *end) verbs.Key { return 0x12345678 }), want: invalidated},
	{name: "SendInv/KeyOfRegion", find: sendInv(func(b *end) verbs.Key { return b.mr.RKey() }), want: invalidated},
}

// requestData requests a connection with n bytes of private data, and returns how many the other side gets.
func requestData(n int) func(*T) string {
	return func(t *T) string {
		got, _ := t.privateData(n, 0)
		return got
	}
}

// rejectData rejects a request with n bytes of private data, and returns how many the other side gets.
func rejectData(n int) func(*T) string {
	return func(t *T) string {
		_, got := t.privateData(0, n)
		return got
	}
}

func (t *T) privateData(request, reject int) (requested, rejected string) {
	a, b := t.devices()
	l := value(cm.Listen(context.Background(), b, ":0"))(t)
	defer l.Close()
	dialed := make(chan error, 1)
	go func() {
		_, err := cm.Dial(t.within(), a, l.Addr().String(), cm.WithPrivateData(make([]byte, request)))
		dialed <- err
		l.Close()
	}()
	r, err := l.Next(t.within())
	if err == nil {
		requested = fmt.Sprintf("%d bytes", len(r.Param().PrivateData))
		err = r.Reject(make([]byte, reject))
	}
	if err != nil {
		return "refused", "refused"
	}
	var why *cm.RejectError
	if err := <-dialed; !errors.As(err, &why) {
		t.Fatal(err)
	}
	return requested, fmt.Sprintf("%d bytes", len(why.PrivateData))
}

// attempt is a request that is to be refused.
type attempt struct {
	a, b *end
	wr   verbs.SendWR
}

func wrongKey(_ *T, x *attempt)      { x.wr.Remote.Key ^= 0x10000 }
func outside(_ *T, x *attempt)       { x.wr.Remote.Addr += 1 << 16 }
func misaligned(_ *T, x *attempt)    { x.wr.Remote.Addr += 4 }
func wrongLocalKey(_ *T, x *attempt) { x.wr.SGL[0].LKey ^= 0x10000 }
func otherOwner(t *T, x *attempt)    { x.wr.Remote = t.newEnd(x.b.dev, setup{}).at(0) }

func deregistered(t *T, x *attempt) {
	mr := value(x.b.pd.RegMR(make([]byte, 64), everything))(t)
	x.wr.Remote = mr.Remote()
	t.ok(mr.Close())
}

func noRightTo(access verbs.Access) func(*T, *attempt) {
	return func(t *T, x *attempt) { x.wr.Remote = value(x.b.pd.RegMR(make([]byte, 64), access))(t).Remote() }
}

// refusal posts a request with an error, and returns the results on both sides.
func refusal(op verbs.SendOp, wrong ...func(*T, *attempt)) func(*T) string {
	return func(t *T) string { return t.refused(op, 0, wrong...) }
}

// refusalOf is refusal by a queue pair that allows no more than that.
func refusalOf(op verbs.SendOp, allows verbs.Access) func(*T) string {
	return func(t *T) string { return t.refused(op, allows) }
}

func (t *T) refused(op verbs.SendOp, allows verbs.Access, wrong ...func(*T, *attempt)) string {
	a, b := t.pair(setup{connect: verbs.ConnectOptions{Access: allows}})
	if op == verbs.OpSend || op == verbs.OpWriteImm {
		b.recv(1, 64, 64)
	}
	x := &attempt{a, b, verbs.SendWR{Op: op, SGL: a.sgl(0, 8), Remote: b.at(0)}}
	if op == verbs.OpFlush {
		x.wr.SGL, x.wr.FlushLevel, x.wr.FlushLen = nil, verbs.FlushToGlobal, 8
	}
	for _, f := range wrong {
		f(t, x)
	}
	a.post(x.wr)
	status := t.next(a.scq).Status
	a.state(verbs.StateError)
	if status == verbs.StatusLocalProtectionError {
		return status.String() // the peer need not know
	}
	return fmt.Sprintf("%v, peer in %v", status, b.qp.State())
}

// emptyRead reads no bytes by a key that does not exist: no memory is named, and no key is looked at.
func emptyRead(t *T) string {
	a, b := t.pair(setup{})
	remote := b.at(0)
	remote.Key ^= 0x10000
	a.post(verbs.SendWR{Op: verbs.OpRead, Remote: remote})
	status := t.next(a.scq).Status
	return fmt.Sprintf("%v, peer in %v", status, b.qp.State())
}

// receive sends 32 bytes to a receive that cannot take them.
func receive(op verbs.SendOp, room int, change func(*verbs.SGE)) func(*T) string {
	return func(t *T) string {
		a, b := t.pair(setup{})
		list := b.sgl(0, room)
		if change != nil {
			change(&list[0])
		}
		t.ok(b.qp.PostRecv(&verbs.RecvWR{SGL: list}))
		return taken(a, b, verbs.SendWR{Op: op, SGL: a.sgl(0, 32)})
	}
}

// sendInv sends with a key that the receiver cannot invalidate.
func sendInv(key func(b *end) verbs.Key) func(*T) string {
	return func(t *T) string {
		opt := verbs.ConnectOptions{Timeout: 17, RetryCount: 2}
		if t.medium() == packetMedium {
			opt.Timeout = 12 // the initiator gets no message: it may as well give up before the peer has the packet
		}
		a, b := t.pair(setup{connect: opt})
		b.recv(1, 0, 64)
		return taken(a, b, verbs.SendWR{Op: verbs.OpSendInv, InvKey: key(b), SGL: a.sgl(0, 32)})
	}
}

// taken sends a message that is refused at the receive.
func taken(a, b *end, wr verbs.SendWR) string {
	t := a.t
	a.post(wr)
	status, at := t.next(a.scq).Status, t.next(b.rcq).Status
	a.state(verbs.StateError)
	return fmt.Sprintf("%v, receive: %v, peer in %v", status, at, b.qp.State())
}

func noReceive(t *T) string {
	a, b := t.pair(setup{connect: verbs.ConnectOptions{RNRRetry: 1, MinRNRTimer: 1}})
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	status := t.next(a.scq).Status
	if status == verbs.StatusSuccess {
		t.none(b.rcq)
	}
	return status.String()
}
