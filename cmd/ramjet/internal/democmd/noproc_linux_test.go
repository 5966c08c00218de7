// SPDX-License-Identifier: Apache-2.0

package democmd

import (
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/demo"
)

// A load that the system does not tell is not taken for none.
func TestDemoLoadNotKnown(t *testing.T) {
	none := 0.0
	r := &demo.Report{Speed: []demo.Speed{{Over: "roce", RoundTrip: 8 * time.Microsecond}}}
	if s := speedText(r, false); !strings.Contains(s, "is not known,\n   as /proc/stat cannot be read") {
		t.Errorf("%s", s)
	}
	r.Others = &none
	if s := speedText(r, false); strings.Contains(s, "How busy") {
		t.Errorf("%s", s)
	}
}
