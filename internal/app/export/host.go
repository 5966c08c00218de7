// SPDX-License-Identifier: Apache-2.0

package export

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Host holds the facts that were read from a host.
type Host struct {
	Processes []statsocket.Process
	Kernel    []rdmasys.PortCounters
	Partial   bool          // the time was over before all processes had been read
	Took      time.Duration // the reading
}

// Options bound the series.
type Options struct {
	QueuePairs int // that have series of their own, of each device: the lowest numbers
	Series     int // of all processes together; each may have an equal share
	Version    string
}

// write returns a host in Prometheus's text format.
func write(h *Host, o Options) []byte {
	r := &report{text: newText(), options: o}
	for i := range h.Kernel {
		kernelPort(r.text, &h.Kernel[i])
	}
	share := o.Series / max(1, len(h.Processes))
	for i := range h.Processes {
		r.process(&h.Processes[i], share, nil)
	}
	return r.end(h.Partial, h.Took)
}

// report is the text of processes, and the metrics of the reading.
type report struct {
	*text
	options                    Options
	processes, unread, omitted int // omitted: devices
}

// process writes a process, which has share series at most, with labels before its own.
func (r *report) process(of *statsocket.Process, share int, labels []label) {
	p := &process{Process: of, text: r.text, options: r.options}
	p.labels = append(slices.Clone(labels), label{"pid", strconv.Itoa(p.PID)}, label{"process", p.Command})
	r.processes++
	if p.Err != nil || p.State == nil {
		r.unread++
		p.gauge("scrape_success", scrapeHelp, whole(0))
		return
	}
	r.omitted += p.write(share)
}

// end returns the text. partial: the time was over before all processes had been read.
func (r *report) end(partial bool, took time.Duration) []byte {
	own := func(name, help, value string, labels ...label) {
		r.add("export_"+name, help, metric.Gauge, value, labels...)
	}
	own("info", "the exporter: its value is 1", "1", label{"version", r.options.Version})
	own("processes", "processes with open devices that were found", whole(r.processes))
	own("processes_unread", "processes that were found and could not be read: ramjet stat says why", whole(r.unread))
	own("devices_omitted", "devices without series, as their process has its share of them (--series)",
		whole(r.omitted))
	complete := 1
	if partial || r.unread+r.omitted > 0 {
		complete = 0
	}
	own("complete", "whether all processes were read in time, and all their devices are here", whole(complete))
	own("read_seconds", "how long the reading took", decimal(took.Seconds()))
	return r.bytes()
}

const latencyHelp = "from posting to completion with success, of samples: about one work request in 64"

const scrapeHelp = "whether the device told its counters and queue pairs: not if it counts nothing"

// kernelPort writes sysfs's counters of a port.
func kernelPort(t *text, p *rdmasys.PortCounters) {
	device := label{"device", "kernel:" + p.Device}
	port := label{"port", strconv.Itoa(p.Port)}
	t.add("info", infoHelp, metric.Gauge, "1", device, label{"kind", "kernel"}, label{"firmware_version", p.Firmware})
	portState(func(name, help, value string) { t.add(name, help, metric.Gauge, value, device, port) }, p.State,
		p.Physical, p.Rate)
	for i := range p.Metrics {
		m := &p.Metrics[i]
		name, help := m.Series()
		t.add(name, help, m.Kind, strconv.FormatUint(m.Value, 10), device, port)
	}
}

const infoHelp = "a device: its value is 1"

// portState exports the state of a port's link.
func portState(gauge func(name, help, value string), state, physical int, bytesPerSecond float64) {
	gauge("state_id", "state of the port (0: no change, 1: down, 2: init, 3: armed, 4: active)", whole(state))
	if physical != 0 {
		gauge("physical_state_id", "physical state of the port (1: sleep, 2: polling, 3: disabled, 4: training, 5: link up, 6: recovery, 7: test)", whole(physical))
	}
	if bytesPerSecond > 0 {
		gauge("rate_bytes_per_second", "speed of the port's link", decimal(bytesPerSecond))
	}
}

// process writes the series of a process.
type process struct {
	*statsocket.Process
	*text
	options Options
	labels  []label // of the series
}

func (p *process) gauge(name, help, value string, labels ...label) {
	p.add(name, help, metric.Gauge, value, slices.Concat(p.labels, labels)...)
}

// write writes the devices, until they have share series, and returns how many were left out.
func (p *process) write(share int) (omitted int) {
	base, begin := p.labels, p.size()
	names := map[string]int{}
	for i := range p.State.Devices {
		d := &p.State.Devices[i]
		if names[d.Name]++; p.size()-begin+p.expected(d) > share {
			omitted++
			continue
		}
		name := d.Name
		if n := names[d.Name]; n > 1 {
			name += "#" + strconv.Itoa(n)
		}
		p.labels = append(slices.Clone(base), label{"device", name})
		p.device(d)
	}
	return omitted
}

// expected returns how many series a device has at most.
func (p *process) expected(d *observe.Device) int {
	const others = 64 // of ports, queue pairs by state, connections by state
	return len(d.Metrics) + others + (metric.Buckets+2)*len(d.Latencies) + 3*len(d.Ports) +
		30*min(p.options.QueuePairs, len(d.QPs))
}

func (p *process) device(d *observe.Device) {
	p.gauge("info", infoHelp, "1", label{"kind", d.Kind}, label{"firmware_version", d.Firmware},
		label{"uid", strconv.Itoa(p.UID)})
	p.gauge("scrape_success", scrapeHelp, "1")
	port := "" // of all of them
	if len(d.Ports) == 1 {
		port = strconv.Itoa(d.Ports[0].Num)
	}
	for i := range d.Ports {
		a := &d.Ports[i]
		n := label{"port", strconv.Itoa(a.Num)}
		portState(func(name, help, value string) { p.gauge(name, help, value, n) }, int(a.State), int(a.Physical),
			float64(a.SpeedMbps)*1e6/8)
	}
	for i := range d.Metrics {
		m := d.Metrics[i].Verbs()
		if slices.ContainsFunc(m.Labels, func(l metric.Label) bool { return l.Name == "port" }) {
			continue // the kernel's, which are written once for all processes
		}
		if m.Kind == metric.Counter {
			p.metric(&m, label{"port", port})
		} else {
			p.metric(&m)
		}
	}
	for i := range d.Latencies {
		h := &d.Latencies[i]
		p.histogram(latencies, latencyHelp, h, slices.Concat(p.labels, []label{{"op", h.Op.String()}})...)
	}
	p.queuePairs(d.QPs)
	p.queues(d)
}

// metric writes a metric. Its own labels stand behind the given labels, and do not replace them.
func (p *process) metric(m *metric.Metric, labels ...label) {
	for _, l := range m.Labels {
		labels = append(labels, label{l.Name, l.Value})
	}
	name, help := m.Series()
	value := strconv.FormatUint(m.Value, 10)
	if m.Unit == metric.UnitNanos {
		value = decimal(float64(m.Value) / 1e9)
	}
	p.add(name, help, m.Kind, value, slices.Concat(p.labels, labels)...)
}

// queuePairs tells of the queue pairs together, and of the first of them one by one.
func (p *process) queuePairs(all []driver.QPInfo) {
	type group struct {
		kind  verbs.QPType
		state verbs.QPState
	}
	count := map[group]int{}
	var sends, receives, flight int
	var trips []time.Duration
	for i := range all {
		q := &all[i]
		count[group{q.Type, q.State}]++
		sends, receives, flight = sends+q.SendQueue, receives+q.RecvQueue, flight+q.InFlight
		if q.RTT > 0 {
			trips = append(trips, q.RTT)
		}
	}
	groups := slices.SortedFunc(maps.Keys(count),
		func(a, b group) int { return cmp.Or(cmp.Compare(a.kind, b.kind), cmp.Compare(a.state, b.state)) })
	for _, g := range groups[:min(len(groups), maxGroups)] {
		p.gauge("qp_states", "queue pairs, by type and state", whole(count[g]), label{"type", g.kind.String()},
			label{"state", g.state.String()})
	}
	p.gauge("qps_send_queue", "send work requests of all queue pairs that have not completed", whole(sends))
	p.gauge("qps_recv_queue", "receives of all queue pairs that are posted; those of a shared queue count for each",
		whole(receives))
	p.gauge("qps_in_flight_bytes", "bytes of all queue pairs that are not acknowledged", whole(flight))
	if len(trips) > 0 {
		slices.Sort(trips)
		const help = "of the smoothed round trips of the queue pairs that measure one"
		p.gauge("qps_rtt_median_seconds", "the median "+help, decimal(trips[len(trips)/2].Seconds()))
		p.gauge("qps_rtt_max_seconds", "the longest "+help, decimal(trips[len(trips)-1].Seconds()))
	}
	if p.options.QueuePairs == 0 {
		return
	}
	named := slices.SortedFunc(slices.Values(all), func(a, b driver.QPInfo) int { return cmp.Compare(a.QPN, b.QPN) })
	named = named[:min(p.options.QueuePairs, len(named))]
	for i := range named {
		list := named[i].Metrics()
		for j := range list {
			p.metric(&list[j])
		}
	}
	p.gauge("qps_omitted", "queue pairs without series of their own, beyond the limit", whole(len(all)-len(named)))
}

// maxGroups bounds the series of one name that differ by a process's names of states. All types and states of queue
// pairs are fewer, and so are the states of connections.
const maxGroups = 28

// queues writes the figures of completion queues and connections that stat shows.
func (p *process) queues(d *observe.Device) {
	waiting, overflowed := 0, 0
	for i := range d.CQs {
		waiting += d.CQs[i].Waiting
		if d.CQs[i].Overflow {
			overflowed++
		}
	}
	p.gauge("cqs_waiting", "completions of all completion queues that have not been polled", whole(waiting))
	p.gauge("cqs_overflowed", "completion queues that have overflowed", whole(overflowed))
	count := map[string]int{}
	for i := range d.Conns {
		count[d.Conns[i].State]++
	}
	states := slices.Sorted(maps.Keys(count))
	for _, s := range states[:min(len(states), maxGroups)] {
		p.gauge("cm_ids", "connections and listeners of the connection manager, by state", whole(count[s]),
			label{"state", s})
	}
}
