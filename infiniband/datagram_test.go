// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"bytes"
	"testing"
)

// FuzzDatagram decodes datagrams. Well-formed ones encode to the same bytes.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	for _, d := range []datagram{
		{kind: datagramHello, from: 7, challenge: [challengeLen]byte{1, 2}, width: 2, speed: 32, port: 3, to: "leaf-1",
			own: "leaf-2[4]"},
		{kind: datagramChallenge, token: 1, challenge: [challengeLen]byte{3}},
		{kind: datagramWelcome, token: 1, from: 8, width: 2, speed: 64},
		{kind: datagramRefused, token: 1, why: "no"},
		{kind: datagramAlive, token: 1, epoch: 2, seen: 3},
		{kind: datagramFrame, token: 1, epoch: 2, frame: []byte{1, 2, 3, 4, 5, 6}},
		{kind: datagramBye, token: 1, pulled: true},
	} {
		f.Add(d.append(nil))
	}
	f.Add([]byte("RC"))
	f.Fuzz(func(t *testing.T, b []byte) {
		var d datagram
		version, ok := d.decode(b)
		if !ok {
			return
		}
		if version != cableVersion {
			t.Errorf("version %d is understood", version)
		}
		if again := d.append(nil); !bytes.Equal(again, b) {
			t.Errorf("%x is %+v, and that %x", b, d, again)
		}
	})
}

// A datagram that is cut short, or goes on, is none.
func TestDatagramLength(t *testing.T) {
	for k := datagramHello; k <= datagramBye; k++ {
		b := (&datagram{kind: k, to: "a", own: "b", why: "c"}).append(nil)
		var d datagram
		if _, ok := d.decode(b); !ok || d.kind != k {
			t.Errorf("kind %d is not understood", k)
		}
		for n := range b {
			if _, ok := d.decode(b[:n]); ok {
				t.Errorf("kind %d: %d bytes of %d are enough", k, n, len(b))
			}
		}
		if _, ok := d.decode(append(b, 0)); ok && k != datagramFrame {
			t.Errorf("kind %d: a byte more is not noticed", k)
		}
	}
}

// Text of a peer is shown to people without control sequences for terminals.
func TestPrintable(t *testing.T) {
	if got := printable("leaf-2[4] ü\x1b]0;x\a\n\xff"); got != "leaf-2[4] ü\ufffd]0;x\ufffd\ufffd\ufffd" {
		t.Errorf("%q", got)
	}
}
