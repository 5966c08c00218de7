// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzLetter decodes anything, and finds what it encodes again.
func FuzzLetter(f *testing.F) {
	for _, l := range []letter{
		{kind: letterHello, slot: 7, from: netip.MustParseAddrPort("127.0.0.1:4711"), probe: 1 << 40, value: 99},
		{kind: letterFrame, frame: []byte("frame")}, {kind: letterDirectory}, {kind: letterSegment, segment: 5}, {kind: letterDrop, segment: 6},
	} {
		f.Add(l.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l letter
		if !l.decode(b) {
			return
		}
		if got := l.append(nil); !bytes.Equal(got, b) && l.kind != letterHello {
			t.Errorf("%x became %x", b, got)
		}
		var again letter
		if !again.decode(l.append(nil)) || again.kind != l.kind || again.slot != l.slot || again.from != l.from || again.segment != l.segment ||
			again.probe != l.probe || again.value != l.value || !bytes.Equal(again.frame, l.frame) {
			t.Errorf("%+v became %+v", l, again)
		}
	})
}
