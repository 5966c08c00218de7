// SPDX-License-Identifier: Apache-2.0

package mappings

import (
	"errors"
	"strings"
	"testing"
)

// TestBudget takes the whole budget: the error names the system's limit, and mappings given back can be taken again.
func TestBudget(t *testing.T) {
	if limit() > 1<<24 {
		t.Skip("the system has no limit to speak of")
	}
	taken := 0
	defer func() {
		for range taken {
			Give()
		}
	}()
	err := Take()
	for ; err == nil; err = Take() {
		taken++
	}
	if int64(taken) != limit() || !errors.Is(err, ErrFull) || !strings.Contains(err.Error(), "vm.max_map_count") {
		t.Errorf("%d of %d: %v", taken, limit(), err)
	}
	Give()
	if err := Take(); err != nil {
		t.Errorf("one was given back: %v", err)
	}
}
