// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel

import (
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Metrics returns the numbers of this program's objects, and the counters of the device's ports that sysfs has. These
// counters are of all programs together.
func (d *device) Metrics() ([]metric.Metric, error) {
	return append(d.objectMetrics(), portMetrics(os.DirFS("/"), d.name, d.attr.Ports)...), nil
}

func (d *device) objectMetrics() (list []metric.Metric) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := &d.observed
	for _, o := range []struct {
		name, help string
		n          int
	}{
		{"pds", "protection domains", r.pds}, {"mrs", "memory regions", r.mrs.Len()},
		{"mws", "memory windows", r.mws.Len()},
		{"cqs", "completion queues", r.cqs.Len()}, {"srqs", "shared receive queues", r.srqs.Len()},
		{"qps", "queue pairs", r.qps.Len()},
		{"ahs", "address handles", r.ahs.Len()}, {"xrcds", "XRC domains", r.xrcds},
	} {
		list = append(list, metric.Metric{Name: o.name, Kind: metric.Gauge, Unit: metric.UnitObjects, Help: o.help,
			Value: uint64(o.n)})
	}
	return list
}

// portMetrics returns the counters of the ports, with the number of the port as a label.
func portMetrics(root fs.FS, device string, ports int) (found []metric.Metric) {
	for port := 1; port <= ports; port++ {
		labels := []metric.Label{{Name: "port", Value: strconv.Itoa(port)}}
		for _, m := range rdmasys.PortMetrics(root, device, port) {
			m.Labels = labels
			found = append(found, m)
		}
	}
	slices.SortStableFunc(found, func(a, b metric.Metric) int { return strings.Compare(a.Name, b.Name) })
	return found
}
