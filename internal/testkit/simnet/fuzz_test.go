// SPDX-License-Identifier: Apache-2.0

package simnet_test

import (
	"errors"
	"slices"
	"testing"
	"testing/cryptotest"
	"testing/synctest"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/simnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// FuzzConversation changes packets of a conversation on their way: each four bytes of
// changes skip so many packets and change one byte at an offset of the next. Nothing
// panics, no byte beside a region, or of a read-only one, is written to, work completes
// in order and once, and nothing is left behind.
func FuzzConversation(f *testing.F) {
	f.Add(uint64(0), byte(0), []byte{})
	f.Add(uint64(0), byte(0), []byte{0})
	for i := range byte(4) {
		f.Add(uint64(i), i, []byte{0, 0, 0x1f, 0, 3, 11, 1, 0})       // opcode, PSN
		f.Add(uint64(i), i, []byte{1, 5, 0xff, 0, 2, 12, 0x60, 0})    // destination, syndrome
		f.Add(uint64(i), i, []byte{0, 16, 0x80, 0, 0, 25, 0xff, 0})   // address, length
		f.Add(uint64(i), i, []byte{5, 1, 0x30, 1, 5, 20, 0xff, 0xff}) // pad, key
	}
	types := []verbs.QPType{verbs.RC, verbs.UC, verbs.UD, verbs.XRCIni}
	f.Fuzz(func(t *testing.T, seed uint64, typ byte, changes []byte) {
		steady(t)
		cryptotest.SetGlobalRandom(t, seed)
		synctest.Test(t, func(t *testing.T) {
			if err := mutated(seed, types[typ%4], changes); err != nil {
				t.Fatal(err)
			}
		})
	})
}

// mutated has a conversation whose packets are changed.
func mutated(seed uint64, typ verbs.QPType, changes []byte) (err error) {
	w := &world{net: simnet.New(seed, nil), doing: make([]string, 2)}
	defer w.net.Close()
	w.rand = w.net.Rand
	w.net.Default = w.newPath()
	for range 2 {
		h := w.net.NewHost()
		w.hosts, w.devs = append(w.hosts, h), append(w.devs, h.OpenRoCE())
	}
	s := newSetup(w.rand, typ)
	s.broken, s.steps, s.pairs = true, 4+s.steps%16, 1+s.pairs%2
	s.maxLen = min(s.maxLen, 8*s.connect.MTU.Bytes())
	s.connect.RNRRetry, s.connect.RetryCount = 3, 2
	changes = slices.Clone(changes)
	w.net.Mutate = func(p []byte) {
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
	c, err := newConversation(w, s)
	if err == nil {
		err = c.run(2 * time.Second)
	}
	for _, d := range w.devs {
		err = errors.Join(err, d.Close())
	}
	return err
}
