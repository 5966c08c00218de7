// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"math"

	"github.com/ramjet-rdma/ramjet/verbs"
)

var numberTests = []test{
	{name: "Numbers", run: testNumbers},
}

// testNumbers looks at the numbers that a peer has to name: the numbers that a stranger has seen do
// not say which are next.
func testNumbers(t *T) {
	const n = 256
	dev, _ := t.devices()
	pd := value(dev.AllocPD())(t)
	cq := value(dev.CreateCQ(1, nil))(t)
	var qpns, psns, keys []uint32
	for range n {
		qp := value(pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq}))(t)
		e := value(qp.Endpoint(0))(t)
		mr := value(pd.RegMR(make([]byte, 8), everything))(t)
		qpns, psns, keys = append(qpns, uint32(e.QPN)), append(psns, uint32(e.PSN)), append(keys, uint32(mr.RKey()))
	}
	unpredictable(t, "QPN", qpns, 24-max(4, t.f.SlotBits)) // the other bits may say which process has it
	unpredictable(t, "PSN", psns, 24)
	unpredictable(t, "key", keys, 32)
}

// unpredictable checks the lowest bits of numbers: each bit is set in about half of them, and
// changes in about half; few follow the one before closely. The bounds are six standard deviations.
func unpredictable(t *T, what string, numbers []uint32, bits int) {
	t.Helper()
	n := float64(len(numbers))
	slack := 6 * math.Sqrt(n) / 2
	for bit := range bits {
		set, changed := 0, 0
		for i, v := range numbers {
			set += int(v >> bit & 1)
			if i > 0 {
				changed += int((v ^ numbers[i-1]) >> bit & 1)
			}
		}
		if math.Abs(float64(set)-n/2) > slack || math.Abs(float64(changed)-n/2) > slack {
			t.Errorf("bit %d of the %ss is set in %d of %v, and changed %d times", bit, what, set, n, changed)
		}
	}
	near := 0
	for i := 1; i < len(numbers); i++ {
		d := (numbers[i] - numbers[i-1]) << (32 - bits)
		if top := d >> 22; top == 0 || top == 1<<10-1 {
			near++
		}
	}
	if near > 8 { // one of 512 by chance
		t.Errorf("%d of %v %ss are near the one before", near, n, what)
	}
}
