// SPDX-License-Identifier: Apache-2.0

package link

import (
	"slices"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/base/clock"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// share sends on service levels 0 to 3 for a while from an adapter with these tables, and returns the
// packets that came of each. Packets have 1024 bytes.
func share(t *testing.T, set func(*node.Lanes), levels ...uint8) (got [4]uint64, order []uint8) {
	f := newFabric(t, Config{Paced: true})
	_, as := f.star(2, 10)
	set(&as[0].State().Lanes)
	var senders []*sender
	for _, sl := range levels {
		senders = append(senders, &sender{from: as[0], dlid: 2, sl: sl, size: 1000})
	}
	f.net.Record(func(_ clock.Time, from *Port, frame []byte) {
		if from == as[0] && len(frame) > ib.FlowControlLen {
			order = append(order, frame[0]>>4)
		}
	})
	s := newSink(as[1])
	f.drive(f.now+ms, senders, []*sink{s}, as)
	for sl := range got {
		got[sl] = s.got(1, uint8(sl))
	}
	return got, order
}

func near(got, want, percent uint64) bool {
	return got*100 >= want*(100-percent) && got*100 <= want*(100+percent)
}

// TestWeights: lanes of one table share by their weights (section 7.6.9), and the others use the share that
// one does not use.
func TestWeights(t *testing.T) {
	set := func(l *node.Lanes) {
		l.High, l.Low = nil, []node.ArbEntry{{VL: 0, Weight: 192}, {VL: 1, Weight: 64}, {VL: 2, Weight: 0},
			{VL: 1, Weight: 64}, {VL: 2, Weight: 64}}
	}
	got, _ := share(t, set, 0, 1, 2)
	all := got[0] + got[1] + got[2]
	if !near(got[0], all*3/6, 3) || !near(got[1], all*2/6, 3) || !near(got[2], all/6, 3) {
		t.Errorf("weights 192, 128, 64: %d, %d, %d packets", got[0], got[1], got[2])
	}
	alone, _ := share(t, set, 2)
	if !near(alone[2], all, 3) {
		t.Errorf("alone: %d packets, want %d", alone[2], all)
	}
	none, _ := share(t, set, 3, 1)
	if none[3] != 0 || !near(none[1], all, 3) {
		t.Errorf("a lane that is in no table: %d packets, the other %d", none[3], none[1])
	}
}

// TestHighLimit: the high table goes first, but after VLHighLimit × 4 KiB the low one has a turn.
func TestHighLimit(t *testing.T) {
	for _, c := range []struct {
		limit uint8
		ratio uint64 // packets of the high lane for one of the low one
	}{{0, 1}, {1, 4}, {10, 40}} {
		got, order := share(t, func(l *node.Lanes) {
			l.HighLimit = c.limit
			l.High, l.Low = []node.ArbEntry{{VL: 1, Weight: 16}}, []node.ArbEntry{{VL: 0, Weight: 16}}
		}, 0, 1)
		if !near(got[1], got[0]*c.ratio, 5) {
			t.Errorf("limit %d: %d high, %d low, want %d for one", c.limit, got[1], got[0], c.ratio)
		}
		if c.limit == 1 && !slices.Equal(order[100:110], order[105:115]) {
			t.Errorf("order is %v", order[100:115])
		}
	}
	got, _ := share(t, func(l *node.Lanes) {
		l.HighLimit = 255
		l.High, l.Low = []node.ArbEntry{{VL: 1, Weight: 1}}, []node.ArbEntry{{VL: 0, Weight: 255}}
	}, 0, 1)
	if got[0] > 1 || got[1] < 1000 {
		t.Errorf("without limit: %d high, %d low", got[1], got[0])
	}
}
