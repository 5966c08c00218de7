// SPDX-License-Identifier: Apache-2.0

package observe

import (
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Process is the state of a process.
type Process struct {
	PID     int // as the process sees itself
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
	QPs       []verbs.QPInfo
	CQs       []verbs.CQInfo
	MRs       []verbs.MRInfo
	MWs       []verbs.MWInfo
	SRQs      []verbs.SRQInfo
	AHs       []verbs.AHInfo
	Conns     []verbs.ConnInfo
	NoConns   bool // the connection manager was busy
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

// Metric is a verbs.Metric in the form of lists that know no labels.
type Metric struct {
	Name  string
	Gauge bool
	Unit  string
	Value uint64
}

// recordType says what a record is of.
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
)

func (p *Process) code(c *codec) {
	num(c, &p.PID)
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
}

func codeQP(q *verbs.QPInfo, c *codec) {
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
}

// counts returns the counts in the order in which they are written.
func counts(q *verbs.QPCounts) [14]*uint64 {
	return [...]*uint64{&q.SentMessages, &q.SentBytes, &q.SentPackets, &q.RecvMessages, &q.RecvBytes, &q.RecvPackets,
		&q.Timeouts, &q.SequenceErrors, &q.LostResponses, &q.RNRs, &q.Retransmitted, &q.Duplicates, &q.OutOfSequence, &q.SentRNRs}
}

func codeCQ(q *verbs.CQInfo, c *codec) {
	num(c, &q.Num)
	num(c, &q.Capacity)
	num(c, &q.Waiting)
	c.flag(&q.Armed)
	c.flag(&q.Overflow)
}

func codeMR(m *verbs.MRInfo, c *codec) {
	num(c, &m.Key)
	num(c, &m.PD)
	num(c, &m.Addr)
	num(c, &m.Len)
	num(c, &m.Access)
}

func codeMW(m *verbs.MWInfo, c *codec) {
	num(c, &m.Key)
	num(c, &m.PD)
	num(c, &m.Type)
	num(c, &m.Region)
	num(c, &m.Addr)
	num(c, &m.Len)
	num(c, &m.Access)
}

func codeSRQ(s *verbs.SRQInfo, c *codec) {
	num(c, &s.Num)
	num(c, &s.PD)
	num(c, &s.XRC)
	num(c, &s.Capacity)
	num(c, &s.Limit)
}

func codeAH(a *verbs.AHInfo, c *codec) {
	num(c, &a.PD)
	c.gid(&a.DGID)
	num(c, &a.DLID)
	num(c, &a.SL)
	num(c, &a.Port)
}

func codeConn(i *verbs.ConnInfo, c *codec) {
	c.text(&i.State)
	c.text(&i.PortSpace)
	c.flag(&i.Listening)
	num(c, &i.QPN)
	num(c, &i.QPType)
	c.addr(&i.Local)
	c.addr(&i.Peer)
}
