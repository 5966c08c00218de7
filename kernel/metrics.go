// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// Metrics returns the numbers of this program's objects, and the counters of the device's ports that sysfs has. Those
// are of all programs together.
func (d *device) Metrics() ([]verbs.Metric, error) {
	return append(d.objectMetrics(), portMetrics(filepath.Join("/sys/class/infiniband", d.name, "ports"), d.attr.Ports)...), nil
}

func (d *device) objectMetrics() (list []verbs.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.observed
	for _, o := range []struct {
		name, help string
		n          int
	}{
		{"pds", "protection domains", r.pds}, {"mrs", "memory regions", r.mrs.Len()}, {"mws", "memory windows", r.mws.Len()},
		{"cqs", "completion queues", r.cqs.Len()}, {"srqs", "shared receive queues", r.srqs.Len()}, {"qps", "queue pairs", r.qps.Len()},
		{"ahs", "address handles", r.ahs.Len()}, {"xrcds", "XRC domains", r.xrcds},
	} {
		list = append(list, verbs.Metric{Name: o.name, Kind: verbs.MetricGauge, Unit: verbs.UnitObjects, Help: o.help, Value: uint64(o.n)})
	}
	return list
}

func portMetrics(root string, ports int) (found []verbs.Metric) {
	for port := 1; port <= ports; port++ {
		labels := []verbs.MetricLabel{{Name: "port", Value: strconv.Itoa(port)}}
		for _, dir := range []string{"counters", "hw_counters"} {
			files, _ := os.ReadDir(filepath.Join(root, strconv.Itoa(port), dir))
			for _, f := range files {
				text, err := os.ReadFile(filepath.Join(root, strconv.Itoa(port), dir, f.Name()))
				if err != nil || f.Name() == "lifespan" { // how old values may be
					continue
				}
				v, err := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
				if err != nil {
					continue
				}
				m := verbs.Metric{Name: f.Name(), Unit: unitOf(f.Name()), Help: "the kernel's counter " + dir + "/" + f.Name(), Labels: labels, Value: v}
				if wordCounters[m.Name] {
					m.Value *= 4
				}
				found = append(found, m)
			}
		}
	}
	slices.SortStableFunc(found, func(a, b verbs.Metric) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// wordCounters count words of four bytes (IBTA 16.1.3.5).
var wordCounters = map[string]bool{"port_rcv_data": true, "port_xmit_data": true}

func unitOf(name string) verbs.MetricUnit {
	switch {
	case wordCounters[name], strings.Contains(name, "bytes"):
		return verbs.UnitBytes
	case strings.Contains(name, "packets"), strings.Contains(name, "pkts"):
		return verbs.UnitPackets
	}
	return verbs.UnitEvents
}
