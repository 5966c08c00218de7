// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Counters are those of sysfs, data in bytes.
func TestMetrics(t *testing.T) {
	dir := t.TempDir()
	if got := portMetrics(dir, 1); got != nil {
		t.Errorf("without counters: %v", got)
	}
	for name, text := range map[string]string{"1/counters/port_rcv_data": "5\n", "1/hw_counters/sent_pkts": "7\n", "1/hw_counters/lifespan": "10\n", "1/counters/broken": "N/A\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got := portMetrics(dir, 1)
	if len(got) != 2 || got[0].Name != "port_rcv_data" || got[0].Value != 20 || got[0].Unit != verbs.UnitBytes || got[1].Value != 7 || got[1].Unit != verbs.UnitPackets {
		t.Errorf("%+v", got)
	}
}
