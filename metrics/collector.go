// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"slices"
	"strconv"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Options tune a Collector.
type Options struct {
	// QueuePairs is how many queue pairs of a device have series of their own, with the label qpn: the ones with the
	// lowest numbers. Each has about 20 series. ramjet_qps_omitted says how many have none. With 0 no queue pair has.
	QueuePairs int
}

// Collector is a [prometheus.Collector] of devices. It describes no metrics in advance, as devices differ in their
// counters. Its methods may be called by several goroutines.
type Collector struct {
	opt Options

	mu      sync.Mutex
	devices []device
}

// device is a device with the label by which it is told apart.
type device struct {
	*verbs.Device
	label string
}

// New makes a collector of devices, without series of single queue pairs.
func New(devices ...*verbs.Device) *Collector { return NewWith(Options{}, devices...) }

// NewWith is New with options.
func NewWith(opt Options, devices ...*verbs.Device) *Collector {
	c := &Collector{opt: opt}
	for _, d := range devices {
		c.Add(d)
	}
	return c
}

// Add adds a device, unless it is there. Its label is its name, such as roce:192.0.2.7. If another
// device of the collector has that name, which the kinds permit whose devices can share an address,
// "#2" and so on is behind it.
func (c *Collector) Add(d *verbs.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if slices.ContainsFunc(c.devices, func(o device) bool { return o.Device == d }) {
		return
	}
	name := d.Name()
	label := name
	for n := 2; slices.ContainsFunc(c.devices, func(o device) bool { return o.label == label }); n++ {
		label = name + "#" + strconv.Itoa(n)
	}
	c.devices = append(c.devices, device{d, label})
}

// Remove removes a device, which a program does before it closes it: its series end.
func (c *Collector) Remove(d *verbs.Device) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.devices = slices.DeleteFunc(c.devices, func(o device) bool { return o.Device == d })
}

// Describe describes nothing, which makes the collector an unchecked one, in Prometheus's terms.
func (c *Collector) Describe(chan<- *prometheus.Desc) {}

// Collect measures the devices.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	devices := slices.Clone(c.devices)
	c.mu.Unlock()
	for _, d := range devices {
		s := scrape{device: d, ch: ch}
		s.collect(c.opt)
	}
}

// scrape is one look at a device.
type scrape struct {
	device
	ch chan<- prometheus.Metric
}

func (s *scrape) collect(opt Options) {
	attr := s.Query()
	s.gauge("info", "a device: its value is 1", 1, label{"kind", attr.Kind}, label{"firmware_version", attr.Firmware})
	for port := 1; port <= attr.Ports; port++ {
		s.port(port)
	}
	counted, err := s.Metrics()
	if err == nil {
		s.counters(counted, attr.Ports)
	}
	qps, qpErr := s.QPStats()
	if qpErr == nil {
		s.queuePairs(qps, opt.QueuePairs)
	}
	if measured, err := s.Latencies(); err == nil {
		s.latencies(measured)
	}
	good := 0.0
	if err == nil && qpErr == nil {
		good = 1
	}
	s.gauge("scrape_success", "whether the device told its counters and queue pairs: not if it counts nothing", good)
}

// port has the series of a port that node_exporter has of the kernel's ports.
func (s *scrape) port(n int) {
	a, err := s.Port(n)
	if err != nil {
		return
	}
	port := label{"port", strconv.Itoa(n)}
	s.gauge("state_id", "state of the port (0: no change, 1: down, 2: init, 3: armed, 4: active)", float64(a.State),
		port)
	if p := a.Subnet.PhysState; p != 0 {
		s.gauge("physical_state_id", "physical state of the port (1: sleep, 2: polling, 3: disabled, 4: training, 5: link up, 6: recovery, 7: test)", float64(p), port)
	}
	if a.SpeedMbps > 0 {
		s.gauge("rate_bytes_per_second", "speed of the port's link", float64(a.SpeedMbps)*1e6/8, port)
	}
}

// counters has the device's counters.
func (s *scrape) counters(list []metric.Metric, ports int) {
	port := label{"port", ""} // of all of them
	if ports == 1 {
		port.value = "1"
	}
	for i := range list {
		m := &list[i]
		if m.Kind == metric.Gauge {
			s.metric(m)
		} else {
			s.metric(m, port)
		}
	}
}
