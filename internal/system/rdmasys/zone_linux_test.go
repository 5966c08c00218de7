// SPDX-License-Identifier: Apache-2.0

package rdmasys

import "testing"

func TestZoneIndex(t *testing.T) {
	if i, err := zoneIndex("12"); i != 12 || err != nil {
		t.Errorf("12: %d, %v", i, err)
	}
	for _, z := range []string{"12abc", "-1", "0", "no such"} {
		if i, err := zoneIndex(z); err == nil {
			t.Errorf("%q: %d", z, i)
		}
	}
}
