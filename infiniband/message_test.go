// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"bytes"
	"testing"
)

// FuzzMessage reads and decodes messages, as a program or a fabric may send them.
func FuzzMessage(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(appendMessage(appendMessage(nil, kindHello, &hello{Version: protocolVersion, Adapter: "host-1"}), kindRequest,
		&request{ID: 1, Op: opClaim}))
	f.Add([]byte{4, 0, 0, 0, byte(kindPacket), 1, 0, 0xaa})
	f.Add([]byte{0, 0, 0, 0, 1})
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Add([]byte{1, 0, 0, 3, 1}) // a long message that ends early
	f.Fuzz(func(t *testing.T, b []byte) {
		r := newReader(bytes.NewReader(b), maxMessage)
		for taken := 0; ; {
			k, m, err := r.next()
			if err != nil {
				return
			}
			if taken += messageHeader + len(m); taken > len(b) {
				t.Fatalf("%d bytes of messages out of %d", taken, len(b))
			}
			switch k {
			case kindPacket:
				if _, _, p, err := decodePacket(m); err == nil && len(p) != len(m)-2 {
					t.Fatalf("a packet of %d bytes out of %d", len(p), len(m))
				}
			case kindHello:
				decode(m, new(hello))
			case kindRequest:
				decode(m, new(request))
			case kindWelcome:
				decode(m, new(welcome))
			default:
				decode(m, new(changed))
			}
		}
	})
}
