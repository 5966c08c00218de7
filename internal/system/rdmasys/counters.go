// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// maxCounters is how many counters of a port are taken. Drivers have about a hundred.
const maxCounters = 512

// PortCounters are the counters of a kernel device's port in sysfs.
type PortCounters struct {
	Device   string
	Firmware string
	Port     int
	State    int     // verbs.PortState; 0: not known
	Physical int     // verbs.SubnetPort.PhysState; 0: not known
	Rate     float64 // bytes per second; 0: not known
	Metrics  []metric.Metric
}

// ReadCounters reads the ports of the kernel's devices, and nothing else.
func (src *Source) ReadCounters() (found []PortCounters) {
	r := reader{root: src.Root}
	for _, name := range r.list(class, maxDevices) {
		firmware := r.text(path.Join(class, name, "fw_ver"))
		for _, n := range r.numbers(path.Join(class, name, "ports"), maxPorts) {
			at := path.Join(class, name, "ports", strconv.Itoa(n))
			found = append(found, PortCounters{Device: name, Firmware: firmware, Port: n,
				State:    numberOf(r.text(path.Join(at, "state"))),
				Physical: numberOf(r.text(path.Join(at, "phys_state"))),
				Rate:     bytesPerSecond(r.text(path.Join(at, "rate"))), Metrics: PortMetrics(src.Root, name, n)})
		}
	}
	return found
}

// PortMetrics returns the counters of a port that sysfs has below root, of all programs together, by name.
func PortMetrics(root fs.FS, device string, port int) (found []metric.Metric) {
	r := reader{root: root}
	for _, dir := range []string{"counters", "hw_counters"} {
		at := path.Join(class, device, "ports", strconv.Itoa(port), dir)
		for _, name := range r.list(at, maxCounters) {
			if name == "lifespan" { // how old values may be
				continue
			}
			v, err := strconv.ParseUint(r.text(path.Join(at, name)), 10, 64)
			if err != nil {
				continue
			}
			if wordCounters[name] {
				v *= 4
			}
			found = append(found, metric.Metric{Name: name, Unit: counterUnit(name),
				Help: "the kernel's counter " + dir + "/" + name, Value: v})
		}
	}
	slices.SortStableFunc(found, func(a, b metric.Metric) int { return strings.Compare(a.Name, b.Name) })
	return found
}

// wordCounters count words of four bytes (IBTA 16.1.3.5).
var wordCounters = map[string]bool{"port_rcv_data": true, "port_xmit_data": true}

func counterUnit(name string) metric.Unit {
	switch {
	case wordCounters[name], strings.Contains(name, "bytes"):
		return metric.UnitBytes
	case strings.Contains(name, "packets"), strings.Contains(name, "pkts"):
		return metric.UnitPackets
	}
	return metric.UnitEvents
}

// numberOf returns 4 of "4: ACTIVE"; 0 of a text without a number.
func numberOf(text string) int {
	number, _, _ := strings.Cut(text, ":")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || n > 255 {
		return 0
	}
	return n
}

// bytesPerSecond returns the rate of "100 Gb/sec (4X EDR)"; 0 of other texts.
func bytesPerSecond(text string) float64 {
	number, _, ok := strings.Cut(text, " Gb/sec")
	rate, err := strconv.ParseFloat(number, 64)
	if !ok || err != nil || !(rate > 0 && rate < 1e6) {
		return 0
	}
	return rate * 1e9 / 8
}
