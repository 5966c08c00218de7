// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// Process is the state of a process.
type Process struct {
	PID     int    // as the process sees itself
	Command string // its name
	Devices []Device
}

// Device is the state of a device.
type Device struct {
	Name      string
	Kind      string
	Transport string
	Firmware  string // the version of Ramjet
	NodeGUID  uint64
	Ports     []Port
	Metrics   []Metric
	Latencies []verbs.Latency // of the operations that it has samples of
	QPs       []driver.QPInfo
	CQs       []driver.CQInfo
	MRs       []driver.MRInfo
	MWs       []driver.MWInfo
	SRQs      []driver.SRQInfo
	AHs       []driver.AHInfo
	Conns     []driver.ConnInfo
	Injected  []faults.Count // how often requested faults have struck
	NoConns   bool           // the connection manager was busy
}

// Port is the state of a port.
type Port struct {
	Num       int
	State     verbs.PortState
	Link      string // the link layer
	NetDev    string
	GID       verbs.GID // the first
	LID       uint16
	ActiveMTU int // bytes of payload
	SpeedMbps int64
	Physical  uint8 // verbs.SubnetPort.PhysState; 0: not known
}

// Metric is a metric.Metric.
type Metric struct {
	Name   string // for lists that know no labels: metric.Metric.FlatName
	Gauge  bool
	Unit   string
	Value  uint64
	Base   string // its name; empty: an older process wrote it, as it did the help
	Help   string
	Labels []metric.Label
}

// maxLabels is how many labels of a metric are taken.
const maxLabels = 8

// recordType is the kind of object that a record describes.
type recordType byte

const (
	endRecord recordType = iota + 1
	processRecord
	deviceRecord
	portRecord
	metricRecord
	qpRecord
	cqRecord
	mrRecord
	connRecord
	busyRecord
	mwRecord
	srqRecord
	ahRecord
	requestRecord
	packetsRecord
	packetRecord
	latencyRecord
	injectedRecord
)

func (p *Process) code(c *codec) {
	num(c, &p.PID)
	c.text(&p.Command)
}

func (d *Device) code(c *codec) {
	c.text(&d.Name)
	c.text(&d.Kind)
	c.text(&d.Transport)
	c.text(&d.Firmware)
	num(c, &d.NodeGUID)
}

func (p *Port) code(c *codec) {
	num(c, &p.Num)
	num(c, &p.State)
	c.text(&p.Link)
	c.text(&p.NetDev)
	c.gid(&p.GID)
	num(c, &p.LID)
	num(c, &p.ActiveMTU)
	num(c, &p.SpeedMbps)
	num(c, &p.Physical)
}

func (m *Metric) code(c *codec) {
	c.text(&m.Name)
	c.flag(&m.Gauge)
	c.text(&m.Unit)
	num(c, &m.Value)
	c.text(&m.Base)
	c.text(&m.Help)
	n := len(m.Labels)
	num(c, &n)
	if c.reading {
		m.Labels = nil
		if n > maxLabels {
			n, c.err = 0, errField
		}
		for range n {
			m.Labels = append(m.Labels, metric.Label{})
		}
	}
	for i := range n {
		c.text(&m.Labels[i].Name)
		c.text(&m.Labels[i].Value)
	}
}

// Verbs returns the metric as the device told it.
func (m *Metric) Verbs() metric.Metric {
	v := metric.Metric{Name: m.Base, Unit: metric.Unit(m.Unit), Help: m.Help, Labels: m.Labels, Value: m.Value}
	if m.Gauge {
		v.Kind = metric.Gauge
	}
	if v.Name == "" {
		v.Name = m.Name
	}
	return v
}

// maxLatencies is how many histograms of a device are taken: as many as there are operations.
const maxLatencies = int(verbs.WCRecv)

func codeLatency(h *verbs.Latency, c *codec) {
	num(c, &h.Op)
	num(c, &h.Count)
	num(c, &h.Sum)
	for i := range h.Buckets {
		num(c, &h.Buckets[i])
	}
}

func codeQP(q *driver.QPInfo, c *codec) {
	num(c, &q.QPN)
	num(c, &q.Type)
	num(c, &q.State)
	num(c, &q.DestQPN)
	c.gid(&q.DestGID)
	num(c, &q.DestLID)
	for _, n := range counts(&q.QPCounts) {
		num(c, n)
	}
	num(c, &q.SendQueue)
	num(c, &q.RecvQueue)
	num(c, &q.InFlight)
	num(c, &q.Window)
	num(c, &q.RTT)
	num(c, &q.RTTVar)
	num(c, &q.PD)
	num(c, &q.SendCQ)
	num(c, &q.RecvCQ)
	c.text(&q.Failed)
	num(c, &q.SRQ)
	num(c, &q.LateAcks)
	num(c, &q.Marked)
	num(c, &q.SentCNPs)
	num(c, &q.RecvCNPs)
	c.text(&q.Congestion)
	num(c, &q.Rate)
	alpha := int64(q.Alpha * alphaParts)
	num(c, &alpha)
	q.Alpha = float64(alpha) / alphaParts
	num(c, &q.TargetDelay)
	num(c, &q.RetryCount)
	num(c, &q.RNRRetry)
}

// alphaParts are the parts in which alpha is written.
const alphaParts = 1_000_000

// counts returns the counts in the order in which they are written.
func counts(q *metric.QPCounts) [14]*uint64 {
	return [...]*uint64{&q.SentMessages, &q.SentBytes, &q.SentPackets, &q.RecvMessages, &q.RecvBytes, &q.RecvPackets,
		&q.Timeouts, &q.SequenceErrors, &q.LostResponses, &q.RNRs, &q.Retransmitted, &q.Duplicates, &q.OutOfSequence,
		&q.SentRNRs}
}

func codeCQ(q *driver.CQInfo, c *codec) {
	num(c, &q.Num)
	num(c, &q.Capacity)
	num(c, &q.Waiting)
	c.flag(&q.Armed)
	c.flag(&q.Overflow)
}

func codeMR(m *driver.MRInfo, c *codec) {
	num(c, &m.Key)
	num(c, &m.PD)
	num(c, &m.Addr)
	num(c, &m.Len)
	num(c, &m.Access)
}

func codeMW(m *driver.MWInfo, c *codec) {
	num(c, &m.Key)
	num(c, &m.PD)
	num(c, &m.Type)
	num(c, &m.Region)
	num(c, &m.Addr)
	num(c, &m.Len)
	num(c, &m.Access)
}

func codeSRQ(s *driver.SRQInfo, c *codec) {
	num(c, &s.Num)
	num(c, &s.PD)
	num(c, &s.XRC)
	num(c, &s.Capacity)
	num(c, &s.Limit)
}

func codeAH(a *driver.AHInfo, c *codec) {
	num(c, &a.PD)
	c.gid(&a.DGID)
	num(c, &a.DLID)
	num(c, &a.SL)
	num(c, &a.Port)
}

func codeConn(i *driver.ConnInfo, c *codec) {
	c.text(&i.State)
	c.text(&i.PortSpace)
	c.flag(&i.Listening)
	num(c, &i.QPN)
	num(c, &i.QPType)
	c.addr(&i.Local)
	c.addr(&i.Peer)
	c.text(&i.Failed)
}

func codeInjected(n *faults.Count, c *codec) {
	num(c, &n.QPN)
	c.text(&n.Kind)
	num(c, &n.Struck)
}

// InjectedInto returns how often faults have struck a queue pair, by kind; 0: the device, with all queue pairs.
func (d *Device) InjectedInto(n verbs.QPN) (list []faults.Count) {
	for _, c := range d.Injected {
		if c.QPN == uint32(n) {
			list = append(list, c)
		}
	}
	return list
}

// InjectedText returns that in words, such as "17 loss, 2 delay"; empty: none have.
func (d *Device) InjectedText(n verbs.QPN) string {
	var words []string
	for _, c := range d.InjectedInto(n) {
		words = append(words, fmt.Sprintf("%d %s", c.Struck, c.Kind))
	}
	return strings.Join(words, ", ")
}
