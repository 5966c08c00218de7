// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"reflect"
	"testing"
)

// Each method sets its operation's fields, keeps ID and Flags, and leaves nothing of the request before.
func TestSendWRMethods(t *testing.T) {
	at, a, b := Remote{Addr: 8, Key: 9}, SGE{Addr: 1, Length: 2, LKey: 3}, SGE{Addr: 4, Length: 5, LKey: 6}
	both, one, none := []SGE{a, b}, []SGE{a}, []SGE{}
	ah, bind := &AH{}, &MWBindInfo{Addr: 7}
	for _, c := range []struct {
		fill func(*SendWR) *SendWR
		want SendWR
	}{
		{func(wr *SendWR) *SendWR { return wr.Send(a, b) }, SendWR{Op: OpSend, SGL: both}},
		{func(wr *SendWR) *SendWR { return wr.SendImm(5, a) }, SendWR{Op: OpSendImm, SGL: one, Imm: 5}},
		{func(wr *SendWR) *SendWR { return wr.SendInv(5, a) }, SendWR{Op: OpSendInv, SGL: one, InvKey: 5}},
		{func(wr *SendWR) *SendWR { return wr.Write(at, a, b) }, SendWR{Op: OpWrite, SGL: both, Remote: at}},
		{func(wr *SendWR) *SendWR { return wr.WriteImm(at, 5, a) },
			SendWR{Op: OpWriteImm, SGL: one, Remote: at, Imm: 5}},
		{func(wr *SendWR) *SendWR { return wr.Read(at, a) }, SendWR{Op: OpRead, SGL: one, Remote: at}},
		{func(wr *SendWR) *SendWR { return wr.CompareSwap(at, 5, 6, a) },
			SendWR{Op: OpCompareSwap, SGL: one, Remote: at, Compare: 5, Swap: 6}},
		{func(wr *SendWR) *SendWR { return wr.FetchAdd(at, 5, a) },
			SendWR{Op: OpFetchAdd, SGL: one, Remote: at, Add: 5}},
		{func(wr *SendWR) *SendWR { return wr.AtomicWrite(at, a) }, SendWR{Op: OpAtomicWrite, SGL: one, Remote: at}},
		{func(wr *SendWR) *SendWR { return wr.Flush(at, 5, FlushToPersistent) },
			SendWR{Op: OpFlush, SGL: none, Remote: at, FlushLen: 5, FlushLevel: FlushToPersistent}},
		{func(wr *SendWR) *SendWR { return wr.FlushRegion(9, FlushToGlobal) },
			SendWR{Op: OpFlush, SGL: none, Remote: Remote{Key: 9}, FlushScope: FlushRegion, FlushLevel: FlushToGlobal}},
		{func(wr *SendWR) *SendWR { return wr.LocalInv(5) }, SendWR{Op: OpLocalInv, SGL: none, InvKey: 5}},
		{func(wr *SendWR) *SendWR { return wr.BindMW(bind) }, SendWR{Op: OpBindMW, SGL: none, Bind: bind}},
		{func(wr *SendWR) *SendWR { return wr.Send(a).To(ah, 5, 6) },
			SendWR{Op: OpSend, SGL: one, AH: ah, RemoteQPN: 5, RemoteQKey: 6}},
		{func(wr *SendWR) *SendWR { return wr.Send(a).ToSRQ(5) }, SendWR{Op: OpSend, SGL: one, SRQN: 5}},
	} {
		c.want.ID, c.want.Flags = 77, Signaled|Fence
		wr := full()
		if got := c.fill(wr); got != wr || !reflect.DeepEqual(*got, c.want) {
			t.Errorf("%v:\n%+v\n%+v", c.want.Op, *got, c.want)
		}
	}
}

// full returns a work request of which no field is zero.
func full() *SendWR {
	return &SendWR{ID: 77, Op: OpBindMW, Flags: Signaled | Fence, SGL: make([]SGE, 1, 4), Inline: []byte{1}, Imm: 1,
		InvKey: 1, Remote: Remote{Addr: 1, Key: 1}, Compare: 1, Swap: 1, Add: 1, AH: &AH{}, RemoteQPN: 1, RemoteQKey: 1,
		SRQN: 1,
		Bind: &MWBindInfo{}, FlushLen: 1, FlushLevel: 1, FlushScope: 1}
}

func TestFullSendWR(t *testing.T) {
	v := reflect.ValueOf(*full())
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("%s is zero", v.Type().Field(i).Name)
		}
	}
}

// A request that is used again allocates nothing.
func TestSendWRMethodsAllocate(t *testing.T) {
	wr := full()
	if n := testing.AllocsPerRun(100, func() {
		wr.Write(Remote{Addr: 8, Key: 9}, SGE{Length: 1}, SGE{Length: 2})
		wr.FetchAdd(Remote{Addr: 8, Key: 9}, 1, SGE{Length: 8})
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
