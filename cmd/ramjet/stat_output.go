// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// summaryQPs is how many queue pairs of a device the summary has.
const summaryQPs = 10

// statOutput is the text of a view.
type statOutput struct{ b bytes.Buffer }

// statDevice is a device and its process.
type statDevice struct {
	*observe.Device
	process *statsocket.Process
}

// process writes a view of a process.
func (o *statOutput) process(p *statsocket.Process, v statView) {
	if p.Err != nil {
		fmt.Fprintf(&o.b, "pid %d%s cannot be read: %v\n", p.PID, commOf(p.Command), p.Err)
		return
	}
	for i := range p.State.Devices {
		v.write(o, &statDevice{&p.State.Devices[i], p})
	}
}

// commOf returns a process's name, to follow its id.
func commOf(command string) string {
	if command == "" {
		return ""
	}
	return " comm " + command
}

// whose says whose device it is, in the words of rdma resource.
func (d *statDevice) whose() string {
	return fmt.Sprintf("pid %d%s", d.process.PID, commOf(d.process.Command))
}

// link writes the ports.
func (o *statOutput) link(d *statDevice) {
	for i := range d.Ports {
		p := &d.Ports[i]
		fmt.Fprintf(&o.b, "link %s/%d", d.Name, p.Num)
		if p.LID != 0 {
			fmt.Fprintf(&o.b, " lid %d", p.LID)
		}
		fmt.Fprintf(&o.b, " state %s", portState(p.State))
		if s := physicalState(p.Physical); s != "" && s != linkUp {
			fmt.Fprintf(&o.b, " physical_state %s", s)
		}
		if p.NetDev != "" {
			fmt.Fprintf(&o.b, " netdev %s", p.NetDev)
		}
		fmt.Fprintf(&o.b, " %s\n", d.whose())
	}
}

// portState returns the state in the words of rdma link.
func portState(s verbs.PortState) string { return strings.TrimPrefix(s.String(), "PORT_") }

// linkUp is the usual physical state, which lines for people leave out.
const linkUp = "LINK_UP"

// physicalState returns a port's physical state in the words of rdma link (IBTA PortPhysicalState); empty: it is
// not known.
func physicalState(s uint8) string {
	names := [...]string{1: "SLEEP", 2: "POLLING", 3: "DISABLED", 4: "PORT_CONFIGURATION_TRAINING", 5: linkUp, 6: "LINK_ERROR_RECOVER", 7: "PHY_TEST"}
	if int(s) < len(names) {
		return names[s]
	}
	return ""
}

// resource writes the numbers of objects.
func (o *statOutput) resource(d *statDevice) {
	fmt.Fprintf(&o.b, "%s: pd %d cq %d qp %d cm_id %d mr %d mw %d srq %d ah %d %s\n", d.Name, d.metric("pds"), len(d.CQs), len(d.QPs),
		len(d.Conns), len(d.MRs), d.metric("mws"), d.metric("srqs"), d.metric("ahs"), d.whose())
}

// metric returns the value of a metric; 0: it is 0, or there is none.
func (d *statDevice) metric(name string) uint64 {
	for i := range d.Metrics {
		if d.Metrics[i].Name == name {
			return d.Metrics[i].Value
		}
	}
	return 0
}

func (o *statOutput) summary(d *statDevice) {
	o.link(d)
	fmt.Fprintf(&o.b, "  pd %d cq %d qp %d cm_id %d mr %d, %d completions waiting\n", d.metric("pds"), len(d.CQs), len(d.QPs), len(d.Conns), len(d.MRs), d.waiting())
	shown := d.busiest()
	more := len(shown) - summaryQPs
	o.queuePairs(shown[:min(len(shown), summaryQPs)])
	if more > 0 {
		fmt.Fprintf(&o.b, "  and %d others: ramjet stat qp %d\n", more, d.process.PID)
	}
	fmt.Fprintln(&o.b)
}

// waiting returns how many completions have not been polled.
func (d *statDevice) waiting() (n int) {
	for i := range d.CQs {
		n += d.CQs[i].Waiting
	}
	return n
}

// busiest returns the queue pairs, those that moved most first.
func (d *statDevice) busiest() []verbs.QPInfo {
	list := slices.Clone(d.QPs)
	slices.SortStableFunc(list, func(a, b verbs.QPInfo) int {
		return cmp.Or(cmp.Compare(b.SentBytes+b.RecvBytes, a.SentBytes+a.RecvBytes), cmp.Compare(a.QPN, b.QPN))
	})
	return list
}

// heading names the subject of the tables below it, as rdma resource does: a link, or a device with several.
func (o *statOutput) heading(d *statDevice) {
	if len(d.Ports) > 1 {
		fmt.Fprintf(&o.b, "dev %s %s\n", d.Name, d.whose())
		return
	}
	fmt.Fprintf(&o.b, "link %s/1 %s\n", d.Name, d.whose())
}

// table writes rows of columns that tabs separate, the first row being their names. An empty table is left out.
func (o *statOutput) table(names string, rows int, row func(i int) string) {
	if rows == 0 {
		return
	}
	w := tabwriter.NewWriter(&o.b, 0, 0, 1, ' ', 0)
	fmt.Fprintf(w, "  %s\n", names)
	for i := range rows {
		fmt.Fprintf(w, "  %s\n", row(i))
	}
	w.Flush() // to memory
}

func (o *statOutput) qps(d *statDevice) {
	o.heading(d)
	o.queuePairs(d.QPs)
	fmt.Fprintln(&o.b)
}

func (o *statOutput) queuePairs(list []verbs.QPInfo) {
	o.table("LQPN\tTYPE\tSTATE\tRQPN\tPEER\tSQ\tRQ\tINFLIGHT\tWINDOW\tRTT", len(list), func(i int) string {
		q := &list[i]
		return fmt.Sprintf("%d\t%v\t%v\t%s\t%s\t%d\t%d\t%s\t%s\t%s", q.QPN, q.Type, q.State, qpnText(q.DestQPN), statPeer(q), q.SendQueue, q.RecvQueue,
			units.Short(q.InFlight), windowText(q.Window), rttText(q.RTT))
	})
	for i := range list {
		if q := &list[i]; q.Failed != "" {
			fmt.Fprintf(&o.b, "  %d: %s\n", q.QPN, q.Failed)
		}
	}
}

// statPeer returns the address of a queue pair's peer.
func statPeer(q *verbs.QPInfo) string {
	if q.DestGID == (verbs.GID{}) && q.DestLID == 0 {
		return "-"
	}
	return peerOf(&q.QPStats)
}

func (o *statOutput) cqs(d *statDevice) {
	o.heading(d)
	o.table("CQN\tCQE\tWAITING\tARMED\tSTATE", len(d.CQs), func(i int) string {
		c := &d.CQs[i]
		armed, state := "no", "OK"
		if c.Armed {
			armed = "yes"
		}
		if c.Overflow {
			state = "OVERFLOW"
		}
		return fmt.Sprintf("%d\t%d\t%d\t%s\t%s", c.Num, c.Capacity, c.Waiting, armed, state)
	})
	fmt.Fprintln(&o.b)
}

func (o *statOutput) mrs(d *statDevice) {
	o.heading(d)
	o.table("KEY\tPD\tADDR\tBYTES\tACCESS", len(d.MRs), func(i int) string {
		m := &d.MRs[i]
		return fmt.Sprintf("0x%08x\t%d\t0x%x\t%d\t%s", uint32(m.Key), m.PD, m.Addr, m.Len, accessText(m.Access))
	})
	fmt.Fprintln(&o.b)
}

// accessText returns what a key allows, in letters: read, write, atomic. Local reading is always allowed.
func accessText(a verbs.Access) string {
	text, remote := "local r", ""
	if a&verbs.LocalWrite != 0 {
		text += "w"
	}
	for _, r := range []struct {
		access verbs.Access
		letter string
	}{{verbs.RemoteRead, "r"}, {verbs.RemoteWrite, "w"}, {verbs.RemoteAtomic, "a"}} {
		if a&r.access != 0 {
			remote += r.letter
		}
	}
	if remote != "" {
		text += " remote " + remote
	}
	if others := a &^ (verbs.LocalWrite | verbs.RemoteRead | verbs.RemoteWrite | verbs.RemoteAtomic); others != 0 {
		text += " " + strings.ToLower(strings.ReplaceAll(others.String(), "|", " "))
	}
	return text
}

func (o *statOutput) conns(d *statDevice) {
	o.heading(d)
	if d.NoConns {
		fmt.Fprintln(&o.b, "  the connection manager is at work, and could not be asked for the rest")
	}
	o.table("LQPN\tTYPE\tPS\tSTATE\tLOCAL\tPEER", len(d.Conns), func(i int) string {
		c := &d.Conns[i]
		typ := "-"
		if c.QPType != 0 {
			typ = c.QPType.String()
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", qpnText(c.QPN), typ, c.PortSpace, c.State, addrText(c.Local), addrText(c.Peer))
	})
	fmt.Fprintln(&o.b)
}

func addrText(a netip.AddrPort) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

// statistic writes what was counted, without what is zero for devices.
func (o *statOutput) statistic(d *statDevice) {
	o.heading(d)
	o.table("LQPN\tTX_MSG\tTX_BYTE\tRX_MSG\tRX_BYTE\tRETR\tTIMEO\tLATE\tSEQ\tRESP\tRNR\tDUP\tTX_RNR", len(d.QPs), func(i int) string {
		q := &d.QPs[i]
		row := fmt.Sprint(q.QPN)
		for _, n := range []uint64{q.SentMessages, q.SentBytes, q.RecvMessages, q.RecvBytes, q.Retransmitted, q.Timeouts, q.LateAcks,
			q.SequenceErrors, q.LostResponses, q.RNRs, q.Duplicates, q.SentRNRs} {
			row += "\t" + units.Short(n)
		}
		return row
	})
	for i := range d.Metrics {
		if m := &d.Metrics[i]; !m.Gauge {
			fmt.Fprintf(&o.b, "  %-34s %14d %s\n", m.Name, m.Value, m.Unit)
		}
	}
	fmt.Fprintln(&o.b)
}

// kernel writes the ports of the kernel's devices.
func (o *statOutput) kernel(links []kernelLink) {
	for _, l := range links {
		fmt.Fprintf(&o.b, "link %s/%d state %s physical_state %s", l.Device, l.Port, l.State, l.Physical)
		if l.NetDev != "" {
			fmt.Fprintf(&o.b, " netdev %s", l.NetDev)
		}
		fmt.Fprintln(&o.b, " (the kernel's)")
	}
}

// qpnText returns a queue pair number; a dash: it is not known.
func qpnText(n verbs.QPN) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// windowText returns how much may be in flight; a dash: the transport below decides.
func windowText(n int) string {
	if n == 0 {
		return "-"
	}
	return units.Short(n)
}

// rttText returns a round trip; a dash: it was not measured.
func rttText(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return units.Tight(units.Duration(d))
}
