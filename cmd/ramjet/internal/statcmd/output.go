// SPDX-License-Identifier: Apache-2.0

package statcmd

import (
	"bytes"
	"cmp"
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/observe"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// summaryQPs is how many queue pairs of a device the summary has.
const summaryQPs = 10

// statOutput is the text of a view.
type statOutput struct {
	b     bytes.Buffer
	width int // columns of the terminal; 0: it is none
	color bool
}

// statWords are the words that have a color.
var statWords = []struct {
	word  *regexp.Regexp
	color string
}{
	{regexp.MustCompile(`()\b(ERR|SQE|OVERFLOW|cannot be read)\b`), cli.ColorRed},
	{regexp.MustCompile(`(\bstate\s+)(DOWN|NOP|INIT|ARMED|DEFER)\b`), cli.ColorYellow},
	{regexp.MustCompile(`(\bstate\s+)(ACTIVE)\b`), cli.ColorGreen},
	{regexp.MustCompile(`(?m)^()((?:link|dev) \S+)`), cli.ColorBold},
}

// styled returns the text as the terminal shall have it: lines that are too long are folded, and words have colors.
func (o *statOutput) styled() []byte {
	text := o.b.String()
	if o.width > 0 {
		var b strings.Builder
		for line := range strings.Lines(text) {
			if words := strings.TrimLeft(line, " "); utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > o.width &&
				!strings.HasPrefix(line, "\x1b") {
				line = cli.Folded(words, line[:len(line)-len(words)], o.width)
			}
			b.WriteString(line)
		}
		text = b.String()
	}
	if o.color {
		for _, w := range statWords {
			text = w.word.ReplaceAllString(text, "${1}"+w.color+"${2}"+cli.ColorOff)
		}
	}
	return []byte(text)
}

// statDevice is a device and its process.
type statDevice struct {
	*observe.Device
	process *statsocket.Process
}

// process writes a view of a process.
func (o *statOutput) process(p *statsocket.Process, v View) {
	if p.Err != nil {
		fmt.Fprintf(&o.b, "pid %d%s cannot be read: %v\n", p.PID, CommOf(p.Command), p.Err)
		return
	}
	for i := range p.State.Devices {
		v.write(o, &statDevice{&p.State.Devices[i], p})
	}
}

// CommOf returns a process's name, to follow its id.
func CommOf(command string) string {
	if command == "" {
		return ""
	}
	return " comm " + command
}

// whose says whose device it is, in the words of rdma resource.
func (d *statDevice) whose() string {
	return fmt.Sprintf("pid %d%s", d.process.PID, CommOf(d.process.Command))
}

// link writes the ports.
func (o *statOutput) link(d *statDevice) {
	for i := range d.Ports {
		p := &d.Ports[i]
		fmt.Fprintf(&o.b, "link %s/%d", d.Name, p.Num)
		if p.LID != 0 {
			fmt.Fprintf(&o.b, " lid %d", p.LID)
		}
		fmt.Fprintf(&o.b, " state %s", PortState(p.State))
		if s := physicalState(p.Physical); s != "" && s != linkUp {
			fmt.Fprintf(&o.b, " physical_state %s", s)
		}
		if p.NetDev != "" {
			fmt.Fprintf(&o.b, " netdev %s", p.NetDev)
		}
		fmt.Fprintf(&o.b, " %s\n", d.whose())
	}
}

// PortState returns the state in the words of rdma link.
func PortState(s verbs.PortState) string { return strings.TrimPrefix(s.String(), "PORT_") }

// linkUp is the usual physical state, which lines for people leave out.
const linkUp = "LINK_UP"

// physicalState returns a port's physical state in the words of rdma link (IBTA PortPhysicalState); empty: it is
// not known.
func physicalState(s uint8) string {
	names := [...]string{1: "SLEEP", 2: "POLLING", 3: "DISABLED", 4: "PORT_CONFIGURATION_TRAINING", 5: linkUp,
		6: "LINK_ERROR_RECOVER", 7: "PHY_TEST"}
	if int(s) < len(names) {
		return names[s]
	}
	return ""
}

// resource writes the numbers of objects.
func (o *statOutput) resource(d *statDevice) {
	fmt.Fprintf(&o.b, "%s: pd %d cq %d qp %d cm_id %d mr %d mw %d srq %d ah %d %s\n", d.Name, d.metric("pds"),
		len(d.CQs), len(d.QPs),
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
	fmt.Fprintf(&o.b, "  pd %d cq %d qp %d cm_id %d mr %d, %d completions waiting\n", d.metric("pds"), len(d.CQs),
		len(d.QPs), len(d.Conns), len(d.MRs), d.waiting())
	o.injected(d)
	shown := d.busiest()
	more := len(shown) - summaryQPs
	o.queuePairs(d, shown[:min(len(shown), summaryQPs)])
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

// busiest returns the queue pairs in order, from the most data moved to the least.
func (d *statDevice) busiest() []driver.QPInfo {
	list := slices.Clone(d.QPs)
	slices.SortStableFunc(list, func(a, b driver.QPInfo) int {
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

// table writes rows of columns that tabs separate, the first row being their names. An empty table is left out. A table
// that is wider than the terminal is cut into several, which all have the first column.
func (o *statOutput) table(names string, rows int, row func(i int) string) {
	if rows == 0 {
		return
	}
	lines := [][]string{strings.Split(names, "\t")}
	for i := range rows {
		lines = append(lines, strings.Split(row(i), "\t"))
	}
	sizes := make([]int, len(lines[0]))
	for _, l := range lines {
		for i, cell := range l {
			sizes[i] = max(sizes[i], utf8.RuneCountInString(cell))
		}
	}
	const indent = 2
	for from := 1; from == 1 || from < len(sizes); {
		to, wide := from, indent+sizes[0]
		for to < len(sizes) && (o.width == 0 || to == from || wide+1+sizes[to] <= o.width) {
			wide += 1 + sizes[to]
			to++
		}
		w := tabwriter.NewWriter(&o.b, 0, 0, 1, ' ', 0)
		for _, l := range lines {
			fmt.Fprintf(w, "  %s\n", strings.Join(append(l[:1:1], l[from:to]...), "\t"))
		}
		w.Flush() // to memory
		from = max(to, from+1)
	}
}

func (o *statOutput) qps(d *statDevice) {
	o.heading(d)
	o.injected(d)
	o.queuePairs(d, d.QPs)
	fmt.Fprintln(&o.b)
}

// injected writes which requested faults have struck a device.
func (o *statOutput) injected(d *statDevice) {
	if text := d.InjectedText(0); text != "" {
		fmt.Fprintf(&o.b, "  injected faults: %s\n", text)
	}
}

func (o *statOutput) queuePairs(d *statDevice, list []driver.QPInfo) {
	o.table("LQPN\tTYPE\tSTATE\tRQPN\tPEER\tSQ\tRQ\tINFLIGHT\tWINDOW\tRTT", len(list), func(i int) string {
		q := &list[i]
		return fmt.Sprintf("%d\t%v\t%v\t%s\t%s\t%d\t%d\t%s\t%s\t%s", q.QPN, q.Type, q.State, QpnText(q.DestQPN),
			Peer(q), q.SendQueue, q.RecvQueue, units.Short(q.InFlight), WindowText(q.Window), RttText(q.RTT))
	})
	var paced []*driver.QPInfo
	for i := range list {
		if q := &list[i]; q.Rate != 0 || q.TargetDelay != 0 || q.Marked+q.SentCNPs+q.RecvCNPs != 0 {
			paced = append(paced, q)
		}
	}
	o.table("LQPN\tCC\tRATE\tALPHA\tTARGET\tMARKED\tTX_CNP\tRX_CNP", len(paced), func(i int) string {
		q := paced[i]
		return fmt.Sprintf("%d\t%s\t%s\t%s\t%s\t%d\t%d\t%d", q.QPN, q.Congestion, PacedText(q.Rate), AlphaText(q.Alpha),
			RttText(q.TargetDelay), q.Marked, q.SentCNPs, q.RecvCNPs)
	})
	for i := range list {
		if q := &list[i]; q.Failed != "" {
			fmt.Fprintf(&o.b, "  %d: %s\n", q.QPN, q.Failed)
		}
		if text := d.InjectedText(list[i].QPN); text != "" {
			fmt.Fprintf(&o.b, "  %d: injected faults: %s\n", list[i].QPN, text)
		}
	}
}

// PacedText returns a rate in bits per second.
func PacedText(bits int64) string {
	if bits == 0 {
		return "-"
	}
	return units.Short(bits) + "b/s"
}

func AlphaText(alpha float64) string {
	if alpha == 0 {
		return "-"
	}
	return fmt.Sprintf("%.3f", alpha)
}

// Peer returns the address of a queue pair's peer.
func Peer(q *driver.QPInfo) string {
	if q.DestGID == (verbs.GID{}) && q.DestLID == 0 {
		return "-"
	}
	return cli.PeerOf(&q.QPStats)
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

// accessText returns the rights of a key, in letters: read, write, atomic. Local reading is always allowed.
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
		return fmt.Sprintf("%s\t%s\t%s\t%s\t%s\t%s", QpnText(c.QPN), typ, c.PortSpace, c.State, addrText(c.Local),
			addrText(c.Peer))
	})
	fmt.Fprintln(&o.b)
}

func addrText(a netip.AddrPort) string {
	if !a.IsValid() {
		return "-"
	}
	return a.String()
}

// statistic writes the counters, without zeros of devices.
func (o *statOutput) statistic(d *statDevice) {
	o.heading(d)
	o.table("LQPN\tTX_MSG\tTX_BYTE\tRX_MSG\tRX_BYTE\tRETR\tTIMEO\tLATE\tSEQ\tRESP\tRNR\tDUP\tTX_RNR", len(d.QPs),
		func(i int) string {
			q := &d.QPs[i]
			row := fmt.Sprint(q.QPN)
			for _, n := range []uint64{q.SentMessages, q.SentBytes, q.RecvMessages, q.RecvBytes, q.Retransmitted,
				q.Timeouts, q.LateAcks, q.SequenceErrors, q.LostResponses, q.RNRs, q.Duplicates, q.SentRNRs} {
				row += "\t" + units.Short(n)
			}
			return row
		})
	for i := range d.Metrics {
		if m := &d.Metrics[i]; !m.Gauge && m.Value != 0 {
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

// QpnText returns a queue pair number; a dash: it is not known.
func QpnText(n verbs.QPN) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// WindowText returns how much may be in flight; a dash: the transport below decides.
func WindowText(n int) string {
	if n == 0 {
		return "-"
	}
	return units.Short(n)
}

// RttText returns a round trip; a dash: it was not measured.
func RttText(d time.Duration) string {
	if d <= 0 {
		return "-"
	}
	return units.Tight(units.Duration(d))
}
