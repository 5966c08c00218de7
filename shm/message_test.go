// SPDX-License-Identifier: Apache-2.0

package shm

import (
	"bytes"
	"net/netip"
	"testing"
)

// FuzzMessage decodes any bytes, and decodes the messages that it encodes again.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, l := range []message{
		{kind: messageHello, slot: 7, from: netip.MustParseAddrPort("127.0.0.1:4711"), probe: 1 << 40, value: 99},
		{kind: messageFrame, frame: []byte("frame")}, {kind: messageDirectory}, {kind: messageSegment, segment: 5},
		{kind: messageDrop, segment: 6},
		{kind: messageHeld}, {kind: messageRefused, limit: limitMappings},
	} {
		f.Add(l.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var l message
		if !l.decode(b) {
			return
		}
		if got := l.append(nil); !bytes.Equal(got, b) && l.kind != messageHello {
			t.Errorf("%x became %x", b, got)
		}
		var again message
		if !again.decode(l.append(nil)) || again.kind != l.kind || again.slot != l.slot || again.from != l.from ||
			again.segment != l.segment || again.limit != l.limit ||
			again.probe != l.probe || again.value != l.value || !bytes.Equal(again.frame, l.frame) {
			t.Errorf("%+v became %+v", l, again)
		}
	})
}
