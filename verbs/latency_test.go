// SPDX-License-Identifier: Apache-2.0

package verbs

import (
	"errors"
	"testing"
)

// unmeasured is a device that measures nothing.
type unmeasured struct{ deviceDriver }

func (unmeasured) Latencies() ([]Latency, error) { return nil, ErrNotSupported }

func TestLatenciesUnsupported(t *testing.T) {
	d := &Device{drv: unmeasured{}}
	if _, err := d.Latencies(); !errors.Is(err, ErrNotSupported) {
		t.Error(err)
	}
}
