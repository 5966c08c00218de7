// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/ibta"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// FuzzConversation changes packets of a conversation on their way: each four bytes of
// changes skip so many packets and change one byte at an offset of the next. Whatever
// arrives, nothing panics, no byte beside a region and none that only may be read is
// written to, work completes in order and once, and nothing is left behind.
func FuzzConversation(f *testing.F) {
	for i := range byte(4) {
		f.Add(uint64(i), i, []byte{0, 0, 0x1f, 0, 3, 11, 1, 0})       // opcode, PSN
		f.Add(uint64(i), i, []byte{1, 5, 0xff, 0, 2, 12, 0x60, 0})    // destination, syndrome
		f.Add(uint64(i), i, []byte{0, 16, 0x80, 0, 0, 25, 0xff, 0})   // address, length
		f.Add(uint64(i), i, []byte{5, 1, 0x30, 1, 5, 20, 0xff, 0xff}) // pad, key
	}
	f.Fuzz(func(t *testing.T, seed uint64, typ byte, changes []byte) {
		types := []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCIni}
		n := New(seed)
		s := RandomSetup(n, types[typ%4])
		s.Broken, s.Steps, s.Pairs = true, 4+s.Steps%16, 1+s.Pairs%2
		s.MaxLen = min(s.MaxLen, 8*s.Params.MTU.Bytes())
		s.Params.RNRRetry, s.Params.RetryCount = 3, 2
		c, err := NewConversation(n, s)
		if err != nil {
			t.Fatal(err)
		}
		n.Mutate = func(p []byte) {
			if len(changes) < 4 {
				return
			}
			if changes[0] > 0 {
				changes[0]--
				return
			}
			p[(int(changes[1])|int(changes[3])<<8)%len(p)] ^= changes[2]
			changes = changes[4:]
		}
		changes = append([]byte(nil), changes...)
		if err := c.Run(ibta.Time(2 * time.Second)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
