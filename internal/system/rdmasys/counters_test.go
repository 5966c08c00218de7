// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"testing"
	"testing/fstest"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// port is the directory of the tests' port.
const port = class + "/mlx5_0/ports/1/"

func files(all map[string]string) fstest.MapFS {
	root := fstest.MapFS{}
	for name, text := range all {
		root[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return root
}

// Counters are the counters of sysfs, data in bytes; files without a number are left out.
func TestPortMetrics(t *testing.T) {
	if got := PortMetrics(files(nil), "mlx5_0", 1); got != nil {
		t.Errorf("without counters: %v", got)
	}
	got := PortMetrics(files(map[string]string{port + "counters/port_rcv_data": "5\n",
		port + "hw_counters/sent_pkts": "7\n", port + "hw_counters/lifespan": "10\n",
		port + "counters/broken": "N/A\n"}), "mlx5_0", 1)
	if len(got) != 2 || got[0].Name != "port_rcv_data" || got[0].Value != 20 || got[0].Unit != metric.UnitBytes ||
		got[1].Value != 7 || got[1].Unit != metric.UnitPackets {
		t.Errorf("%+v", got)
	}
}

func TestReadCounters(t *testing.T) {
	src := &Source{Root: files(map[string]string{port + "state": "4: ACTIVE\n", port + "phys_state": "5: LinkUp\n",
		port + "rate":            "100 Gb/sec (4X EDR)\n",
		class + "/mlx5_0/fw_ver": "16.35\n", port + "counters/port_xmit_data": "2"})}
	got := src.ReadCounters()
	if len(got) != 1 || got[0].Device != "mlx5_0" || got[0].Firmware != "16.35" || got[0].Port != 1 ||
		got[0].State != int(verbs.PortActive) || got[0].Physical != 5 || got[0].Rate != 12.5e9 ||
		len(got[0].Metrics) != 1 {
		t.Errorf("%+v", got)
	}
}

// FuzzCounters reads files with any contents.
func FuzzCounters(f *testing.F) {
	for _, text := range []string{"", "4", "4: ACTIVE", "100 Gb/sec", "NaN Gb/sec", "-1: x", "18446744073709551616"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		src := &Source{Root: files(map[string]string{port + "state": text, port + "phys_state": text,
			port + "rate": text, port + "counters/port_xmit_data": text})}
		for _, p := range src.ReadCounters() {
			if p.State < 0 || p.Physical < 0 || !(p.Rate >= 0) {
				t.Errorf("%+v", p)
			}
		}
	})
}
