// SPDX-License-Identifier: Apache-2.0

package nvme

import "testing"

// A flush knows the first association of the writes that it covers, and writes that it does not cover stay for the
// next.
func TestUnflushed(t *testing.T) {
	var u unflushed
	covers := func(last, oldest uint64) {
		t.Helper()
		if l, o := u.covers(); l != last || o != oldest {
			t.Errorf("covers %d writes, the first on association %d; not %d, %d", l, o, last, oldest)
		}
	}
	covers(0, 0)
	u.flushed(0)
	u.wrote(1)
	u.wrote(1)
	covers(2, 1)
	u.wrote(1) // while the flush of two is on its way
	u.flushed(2)
	covers(3, 1)
	u.wrote(2)
	u.wrote(2)
	covers(5, 1)
	u.flushed(3)
	covers(5, 2)
	u.wrote(1) // which was slow to say that it has completed
	covers(6, 1)
	u.flushed(5)
	covers(6, 1)
	u.flushed(6)
	covers(6, 0)
	u.flushed(2) // a flush that began before
	covers(6, 0)
	u.wrote(3)
	u.flushed(6)
	covers(7, 3)
}
