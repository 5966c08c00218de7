// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// rightOf says which right each operation on a peer's memory needs.
var rightOf = map[verbs.SendOp]verbs.Access{verbs.OpWrite: verbs.RemoteWrite, verbs.OpWriteImm: verbs.RemoteWrite,
	verbs.OpRead: verbs.RemoteRead, verbs.OpCompareSwap: verbs.RemoteAtomic, verbs.OpFetchAdd: verbs.RemoteAtomic,
	verbs.OpAtomicWrite: verbs.RemoteWrite, verbs.OpFlush: verbs.FlushGlobal}

// rightsOrder is rightOf's keys: iWARP has the first ones.
var rightsOrder = []verbs.SendOp{verbs.OpWrite, verbs.OpWriteImm, verbs.OpRead, verbs.OpCompareSwap, verbs.OpFetchAdd,
	verbs.OpAtomicWrite, verbs.OpFlush}

const rightsArea = 64

// runRights has queue pairs and regions that allow some operations, and peers that request any: operations that both
// allow are done, all others are refused, leave memory as it is, and end the connection.
func runRights(w *world) error {
	rounds := 1 + w.rand.IntN(12)
	w.tell(", %d requests", rounds)
	var pds [2]*verbs.PD
	for i := range pds {
		var err error
		if pds[i], err = w.devs[i].AllocPD(); err != nil {
			return err
		}
	}
	ctx, cancel := patient(0)
	defer cancel()
	for i := range rounds {
		r := &rightsRound{w: w}
		err := r.open(pds)
		if err == nil {
			err = r.play(ctx)
		}
		if err = w.judge(err); err != nil {
			return fmt.Errorf("request %d, %v, queue pair %v, region %v: %w", i, r.op, r.allowed, r.region, err)
		}
		if err := errors.Join(r.close()...); err != nil {
			return err
		}
	}
	return nil
}

// rightsRound is one request on a connection of its own.
type rightsRound struct {
	w               *world
	op              verbs.SendOp
	allowed, region verbs.Access // by the responder's queue pair, by its memory

	cqs           [2]*verbs.CQ
	qps           [2]*verbs.QP
	local, target *verbs.MR
}

// someRights returns some of all, and more often all but one or just one.
func (w *world) someRights(all []verbs.Access) (some verbs.Access) {
	except, just := all[w.rand.IntN(len(all))], w.rand.IntN(3) == 0
	switch w.rand.IntN(3) {
	case 0:
		for _, a := range all {
			if a != except {
				some |= a
			}
		}
	case 1:
		for _, a := range all {
			some |= a
		}
		if just {
			some = except
		}
	case 2:
		for _, a := range all {
			if w.rand.IntN(2) == 0 {
				some |= a
			}
		}
	}
	return some
}

func (r *rightsRound) open(pds [2]*verbs.PD) (err error) {
	w := r.w
	ops, all := rightsOrder, []verbs.Access{verbs.RemoteWrite, verbs.RemoteRead, verbs.RemoteAtomic, verbs.FlushGlobal}
	if w.iwarp {
		ops, all = ops[:5], all[:3]
	}
	r.op = ops[w.rand.IntN(len(ops))]
	r.allowed, r.region = w.someRights(all), w.someRights(all)
	var eps [2]verbs.Endpoint
	for i, pd := range pds {
		if r.cqs[i], err = w.devs[i].CreateCQ(8, w.cqOptions()); err != nil {
			return err
		}
		if r.qps[i], err = pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: r.cqs[i], RecvCQ: r.cqs[i]}); err != nil {
			return err
		}
		if eps[i], err = r.qps[i].Endpoint(0); err != nil {
			return err
		}
	}
	if r.local, err = pds[0].RegMR(make([]byte, rightsArea), verbs.LocalWrite); err != nil {
		return err
	}
	if r.target, err = pds[1].RegMR(make([]byte, rightsArea), r.region|verbs.LocalWrite); err != nil {
		return err
	}
	for i, qp := range r.qps {
		opt := w.patience()
		if opt.Access = verbs.LocalWrite; i == 1 {
			opt.Access |= r.allowed
		}
		if err := qp.Connect(eps[i], eps[1-i], opt); err != nil {
			return err
		}
	}
	return nil
}

func (r *rightsRound) play(ctx context.Context) error {
	before, mine := make([]byte, rightsArea), make([]byte, rightsArea)
	stamp(before, 1, int(r.op))
	stamp(mine, 2, int(r.op))
	r.target.Do(func(b []byte) { copy(b, before) })
	r.local.Do(func(b []byte) { copy(b, mine) })
	if err := r.qps[1].PostRecv(&verbs.RecvWR{}); err != nil {
		return wrong{err}
	}
	word := binary.NativeEndian.Uint64(before)
	wr := verbs.SendWR{Op: r.op, Flags: verbs.Signaled, SGL: []verbs.SGE{r.local.SGE(0, 8)}, Remote: r.target.Remote(),
		Compare: word, Swap: 77, Add: 77, FlushLevel: verbs.FlushToGlobal}
	if r.op == verbs.OpFlush {
		wr.SGL, wr.FlushLen = nil, 8
	}
	if err := r.qps[0].PostSend(&wr); err != nil {
		return err
	}
	r.w.at(0, "waiting for "+r.op.String())
	var wc [1]verbs.WC
	if _, err := r.cqs[0].Wait(ctx, wc[:]); err != nil {
		return err
	}
	need := rightOf[r.op]
	if r.allowed&r.region&need == 0 {
		return r.refused(ctx, wc[0].Status, before, mine)
	}
	after, got := slices.Clone(before), slices.Clone(mine)
	switch r.op {
	case verbs.OpWrite, verbs.OpWriteImm, verbs.OpAtomicWrite:
		copy(after, mine[:8])
	case verbs.OpRead:
		copy(got, before[:8])
	case verbs.OpFetchAdd:
		copy(got, before[:8])
		binary.NativeEndian.PutUint64(after, word+77)
	case verbs.OpCompareSwap:
		copy(got, before[:8])
		binary.NativeEndian.PutUint64(after, 77)
	}
	if wc[0].Status != verbs.StatusSuccess {
		return wc[0].Status.Err()
	}
	if r.op == verbs.OpWriteImm { // its receive says when it has arrived
		if _, err := r.cqs[1].Wait(ctx, wc[:]); err != nil {
			return err
		}
		if wc[0].Status != verbs.StatusSuccess {
			return wc[0].Status.Err()
		}
	}
	for pause := time.Millisecond; r.w.iwarp && r.op == verbs.OpWrite && !r.holds(r.target, after); pause *= 2 {
		if ctx.Err() != nil { // a stream takes a WRITE before it arrives
			return ctx.Err()
		}
		r.w.net.Sleep(pause)
	}
	if !r.holds(r.target, after) || !r.holds(r.local, got) {
		return wrongf("it has succeeded, and memory is not as it has to be")
	}
	return nil
}

// refused checks that a request was refused as it has to be.
func (r *rightsRound) refused(ctx context.Context, status verbs.Status, before, mine []byte) error {
	want := []verbs.Status{verbs.StatusRemoteAccessError}
	need := rightOf[r.op]
	if r.allowed&need == 0 && !r.w.iwarp {
		want[0] = verbs.StatusRemoteInvalidRequestError
	}
	if r.w.iwarp && (r.op == verbs.OpWrite || r.op == verbs.OpWriteImm) {
		want = append(want, verbs.StatusSuccess, verbs.StatusWRFlushError) // the stream took it
	}
	if !r.w.calmly || r.w.net.Default.Loss+r.w.net.Default.Corrupt > 0 {
		want = append(want, verbs.StatusRetryExceeded) // the NAK may be lost, and there is no second one
	}
	for pause := time.Millisecond; r.qps[1].State() != verbs.StateError && !r.w.fatal; pause *= 2 {
		if ctx.Err() != nil {
			return wrongf("it has no right, and the connection stays")
		}
		r.w.net.Sleep(pause)
	}
	switch {
	case !r.holds(r.target, before):
		return wrongf("it has no right, and has changed memory")
	case !r.holds(r.local, mine):
		return wrongf("it has no right, and brought something")
	case !slices.Contains(want, status) && !r.w.fatal:
		return wrongf("it has no right, and completed with %v instead of %v", status, want)
	}
	return nil
}

func (r *rightsRound) holds(mr *verbs.MR, want []byte) (same bool) {
	mr.Do(func(b []byte) { same = diff(b, want) < 0 })
	return same
}

func (r *rightsRound) close() (errs []error) {
	for i := range r.qps {
		if r.qps[i] != nil {
			errs = append(errs, r.qps[i].Close(), r.cqs[i].Close())
		}
	}
	for _, mr := range []*verbs.MR{r.local, r.target} {
		if mr != nil {
			errs = append(errs, mr.Close())
		}
	}
	return errs
}
