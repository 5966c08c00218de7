// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"bytes"
	"reflect"
	"testing"
)

// Any capsule decodes if it is long enough, and the command encodes back.
func FuzzCommand(f *testing.F) {
	c := Command{Opcode: Read, Flags: FlagSGL, CID: 7, NSID: 1, SGL: Keyed(SGLKeyedInvalidate, 1<<40, 4096, 0xdeadbeef)}
	c.SetLBA(1<<33, 8)
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(c.Append(nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		var c Command
		if ok := c.Decode(b); ok != (len(b) >= CommandSize) {
			t.Fatalf("%d bytes: %t", len(b), ok)
		} else if ok && !bytes.Equal(c.Append(nil), b[:CommandSize]) {
			t.Fatalf("%+v encodes otherwise", c)
		}
		c.LBA()
		c.Connect()
		c.Property()
		c.LogPage()
		c.Auth()
		c.SGL.Keyed()
		c.SGL.InCapsule()
	})
}

// Any bytes of a peer decode into each structure, or are refused; what was decoded stays the same when it is encoded
// and decoded again.
func FuzzStructures(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, b := range [][]byte{
		(&Request{QID: 1, HostRecvs: 32, HostSends: 31}).Append(nil), (&Accept{Recvs: 32}).Append(nil),
		(&Reject{Status: RejectQID}).Append(nil), (&Completion{CID: 3, Status: LBAOutOfRange, DNR: true}).Append(nil),
		(&ConnectData{Controller: DynamicController, SubNQN: DiscoveryNQN,
			HostNQN: "nqn.2014-08.org.example:host"}).Append(nil),
		(&Controller{Serial: "1", SubNQN: "nqn.x"}).Append(nil), (&Namespace{Blocks: 100, BlockSize: 4096}).Append(nil),
		(&DiscoveryHead{Records: 3}).Append(nil), (&DiscoveryEntry{SubNQN: "nqn.x", Service: "4420"}).Append(nil),
		(&Range{Blocks: 1, Start: 2}).Append(nil), AppendActive(nil, []uint32{1, 5}),
		AppendANA(nil, 7, []ANAGroup{{ID: 1, State: ANAOptimized, Namespaces: []uint32{1, 2}},
			{ID: 2, State: ANAChange}}),
	} {
		f.Add(b)
		f.Add(b[:len(b)-1])
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		again(t, b, func(v *Request, b []byte) []byte { return v.Append(b) }, (*Request).Decode)
		again(t, b, func(v *Accept, b []byte) []byte { return v.Append(b) }, (*Accept).Decode)
		again(t, b, func(v *Reject, b []byte) []byte { return v.Append(b) }, (*Reject).Decode)
		again(t, b, func(v *Completion, b []byte) []byte { return v.Append(b) }, (*Completion).Decode)
		again(t, b, func(v *ConnectData, b []byte) []byte { return v.Append(b) }, (*ConnectData).Decode)
		again(t, b, func(v *Controller, b []byte) []byte { return v.Append(b) }, (*Controller).Decode)
		again(t, b, func(v *Namespace, b []byte) []byte { return v.Append(b) }, (*Namespace).Decode)
		again(t, b, func(v *DiscoveryHead, b []byte) []byte { return v.Append(b) }, (*DiscoveryHead).Decode)
		again(t, b, func(v *DiscoveryEntry, b []byte) []byte { return v.Append(b) }, (*DiscoveryEntry).Decode)
		again(t, b, func(v *Range, b []byte) []byte { return v.Append(b) }, (*Range).Decode)
		DecodeActive(b)
		if change, groups, ok := DecodeANA(b); ok {
			c, g, ok := DecodeANA(AppendANA(nil, change, groups))
			if !ok || c != change || !reflect.DeepEqual(g, groups) {
				t.Errorf("%+v, and again %+v", groups, g)
			}
		}
	})
}

func again[T comparable](t *testing.T, b []byte, add func(*T, []byte) []byte, decode func(*T, []byte) bool) {
	t.Helper()
	var v, w T
	if decode(&v, b) && (!decode(&w, add(&v, nil)) || v != w) {
		t.Errorf("%+v, and again %+v", v, w)
	}
}

// A namespace has fewer than 2^63 bytes, so that its size is an int64.
func TestNamespaceSize(t *testing.T) {
	for blocks, want := range map[uint64]bool{1<<54 - 1: true, 1 << 54: false, 1<<64 - 1: false} {
		var n Namespace
		if got := n.Decode((&Namespace{Blocks: blocks, BlockSize: 512}).Append(nil)); got != want {
			t.Errorf("%d blocks of 512 bytes: %t", blocks, got)
		}
	}
}
