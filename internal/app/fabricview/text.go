// SPDX-License-Identifier: Apache-2.0

package fabricview

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// Text is for a terminal of 80 columns.
const columns = 80

// WriteText writes the fabric as text: a line with numbers, then each switch with its ports, then the
// adapters, then the route if there is one.
func (v *View) WriteText(w io.Writer) error {
	x := v.index()
	b := []byte(v.Summary() + "\n" + x.scale())
	for i := range v.Nodes {
		if v.Nodes[i].Type == Switch {
			b = x.appendNode(append(b, '\n'), &v.Nodes[i])
		}
	}
	b = x.appendAdapters(b)
	if v.Route != nil {
		b = x.appendRoute(append(b, '\n'), v.Route)
	}
	_, err := w.Write(b)
	return err
}

// WriteNode writes one node with its ports and their counters.
func (v *View) WriteNode(w io.Writer, name string) error {
	x := v.index()
	i, ok := x.nodes[name]
	if !ok {
		return fmt.Errorf("there is no node %q", name)
	}
	n := &v.Nodes[i]
	b := x.appendNode(nil, n)
	b = x.appendTraffic(b, n)
	b = x.appendCounters(append(b, '\n'), v.Nodes[i:i+1])
	_, err := w.Write(b)
	return err
}

// WriteRoute writes the route hop by hop.
func (v *View) WriteRoute(w io.Writer, r *Route) error {
	_, err := w.Write(v.index().appendRoute(nil, r))
	return err
}

// WriteCounters writes the counters of all ports that have counted anything; with a name, of that
// node's.
func (v *View) WriteCounters(w io.Writer, name string) error {
	x, nodes := v.index(), v.Nodes
	if name != "" {
		i, ok := x.nodes[name]
		if !ok {
			return fmt.Errorf("there is no node %q", name)
		}
		nodes = v.Nodes[i : i+1]
	}
	_, err := w.Write(x.appendCounters(nil, nodes))
	return err
}

// Summary returns one line with the numbers of nodes and links, and the states of the links.
func (v *View) Summary() string {
	types, states := make(map[NodeType]int), make(map[State]int)
	for i := range v.Nodes {
		types[v.Nodes[i].Type]++
	}
	x := v.index()
	for i := range v.Links {
		states[x.linkState(&v.Links[i])]++
	}
	parts := []string{units.Plural(types[Switch], "switch"), units.Plural(types[Adapter], "adapter")}
	if types[Router] > 0 {
		parts = append(parts, units.Plural(types[Router], "router"))
	}
	s := strings.Join(append(parts, units.Plural(len(v.Links), "link")), ", ") + inStates(states)
	clear(states)
	far := 0
	for i := range v.Nodes {
		for _, p := range v.Nodes[i].Ports {
			if p.Far != "" {
				far++
				states[p.State]++
			}
		}
	}
	if far > 0 {
		s += fmt.Sprintf(", %d to other hosts%s", far, inStates(states))
	}
	return s
}

// inStates says how many links are in which state, of a fabric that runs.
func inStates(states map[State]int) string {
	var in []string
	for _, state := range []State{Active, Armed, Initialize, Down} {
		if n := states[state]; n > 0 {
			in = append(in, fmt.Sprintf("%d %s", n, state))
		}
	}
	if len(in) == 0 {
		return ""
	}
	return " (" + strings.Join(in, ", ") + ")"
}

// fit makes a text n columns wide: with spaces behind, or cut with an ellipsis.
func fit(s string, n int) string {
	if l := utf8.RuneCountInString(s); l <= n {
		return s + strings.Repeat(" ", n-l)
	}
	return string([]rune(s)[:n-1]) + "…"
}

// shorten cuts a text that is longer than n columns.
func shorten(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return fit(s, n)
}

// dash is s, or a dash if it is empty.
func dash(s string) string { return cmp.Or(s, "-") }

func lidText(lid uint16) string {
	if lid == 0 {
		return "-"
	}
	return fmt.Sprint(lid)
}

// appendNode appends a node's line and one for each of its ports. Ports that nothing is plugged into
// share one line.
func (x *index) appendNode(b []byte, n *Node) []byte {
	b = append(b, fit(x.label(End{Node: n.Name}), 34)+" "...)
	if n.Type == Switch {
		b = fmt.Appendf(b, "%-8s LID %-6s", n.Type, lidText(n.LID))
	} else {
		b = fmt.Appendf(b, "%-19s", n.Type)
	}
	b = fmt.Appendf(b, " %v", n.GUID)
	if n.Off {
		b = append(b, " down"...)
	}
	b = append(b, '\n')
	var empty []int
	for i := range n.Ports {
		p := &n.Ports[i]
		if other, ok := x.peer(End{n.Name, p.Number}); ok {
			suffix := fmt.Sprintf("[%d]", other.Port)
			if l := x.lid(other); l != 0 {
				suffix += fmt.Sprintf(" LID %d", l)
			}
			b = x.appendPort(b, n, p, x.label(other), suffix, x.view.Links[x.links[other]].ErrorRate)
		} else if p.Far != "" {
			b = x.appendPort(b, n, p, p.Far, "", 0)
		} else {
			empty = append(empty, p.Number)
		}
	}
	if len(empty) > 0 {
		b = append(b, wrap("  no cable: ", ranges(empty))...)
	}
	return b
}

// appendPort appends the line of a port: its number, state, rate, load, the other end and notes on the cable.
func (x *index) appendPort(b []byte, n *Node, p *Port, other, suffix string, errors float64) []byte {
	var notes []string
	if len(p.Held) > 0 {
		notes = append(notes, "holds VL "+ranges(p.Held))
	}
	if errors > 0 {
		notes = append(notes, "corrupts "+units.PercentSet(errors))
	}
	if e := p.Counters.SymbolErrors + p.Counters.RcvErrors; e > 0 {
		notes = append(notes, units.Plural(int(e), "error"))
	}
	if w := p.Traffic.Waiting; w >= 0.005 {
		notes = append(notes, "waits "+units.Percent(w))
	}
	note := strings.Join(notes, ", ")
	s := fmt.Sprintf("  %5s %-10s %-7s %s ", fmt.Sprintf("[%d]", p.Number), dash(string(p.State)), dash(p.Rate),
		x.bar(p))
	if n.Type != Switch {
		s += fmt.Sprintf("LID %-5s ", lidText(p.LID))
	}
	left := columns - utf8.RuneCountInString(s)
	remote := shorten(other, left-len(suffix)) + suffix
	b = append(b, s+remote...)
	switch {
	case note == "":
		return append(b, '\n')
	case left-utf8.RuneCountInString(remote)-2 >= utf8.RuneCountInString(note):
		return append(b, "  "+note+"\n"...)
	}
	return append(b, "\n          "+note+"\n"...)
}

// scale explains the bars.
func (x *index) scale() string {
	if x.view.Measured == 0 {
		return ""
	}
	busiest := "what the busiest port sends"
	if x.peak == quiet {
		busiest = "and no port sends more"
	}
	return fmt.Sprintf("Sent, over %s; a full bar is %s, %s\n", units.Duration(x.view.Measured), units.Rate(x.peak),
		busiest)
}

// speed writes bytes a second for a column.
func speed(bytes float64) string { return units.Tight(units.Rate(math.Round(max(bytes, 0)))) }

// bar draws the load of a port, fifteen columns wide.
func (x *index) bar(p *Port) string {
	switch {
	case x.view.Measured == 0:
		return ""
	case p.Rate == "" || p.State == Planned || p.State == Down:
		return strings.Repeat(" ", 15)
	}
	const eighths = " ▏▎▍▌▋▊▉█"
	n := int(min(max(x.share(p), 0), 1)*48 + 0.5)
	s := strings.Repeat("█", n/8)
	if n%8 > 0 {
		s += string([]rune(eighths)[n%8])
	}
	return fit(s, 7) + fmt.Sprintf("%8s", speed(p.Traffic.Sent))
}

// appendAdapters appends a table of the adapters and routers: a line for each port.
func (x *index) appendAdapters(b []byte) []byte {
	first := true
	for i := range x.view.Nodes {
		n := &x.view.Nodes[i]
		if n.Type == Switch {
			continue
		}
		if first {
			b = append(b, "\n"+fit("adapter", 24)+" port LID   state      port GUID          switch\n"...)
			first = false
		}
		name := x.labels[i]
		for j := range n.Ports {
			p := &n.Ports[j]
			at := dash(p.Far)
			if other, ok := x.peer(End{n.Name, p.Number}); ok {
				at = fmt.Sprintf("%s[%d]", x.label(other), other.Port)
			}
			s := fmt.Sprintf("%s %4d %-5s %-10s %v ", fit(name, 24), p.Number, lidText(p.LID), dash(string(p.State)),
				p.GUID)
			b = append(b, strings.TrimRight(s+fit(at, columns-utf8.RuneCountInString(s)), " ")+"\n"...)
			name = ""
		}
	}
	return b
}

// appendRoute appends a route: a line for each hop.
func (x *index) appendRoute(b []byte, r *Route) []byte {
	b = fmt.Appendf(b, "route from %s (LID %s) to %s (LID %s): %s\n", x.label(r.From), lidText(r.FromLID),
		x.label(r.To), lidText(r.ToLID),
		units.Plural(len(r.Hops), "hop"))
	for i, h := range r.Hops {
		p := x.port(h.From)
		width := 0
		for _, h := range r.Hops {
			width = max(width, utf8.RuneCountInString(End{x.label(h.From), h.From.Port}.String()))
		}
		width = min(width, 22)
		s := fmt.Sprintf("  %2d  %s -> ", i+1, fit(End{x.label(h.From), h.From.Port}.String(), width))
		to := fit(End{x.label(h.To), h.To.Port}.String(), 24)
		b = append(b, strings.TrimRight(s+to+fmt.Sprintf(" %-7s %s", dash(p.Rate), x.bar(p)), " ")+"\n"...)
	}
	if r.Broken != "" {
		b = fmt.Appendf(b, "      it ends here: %s\n", r.Broken)
	}
	return b
}

// appendTraffic appends a table of the traffic of a node's ports, if it was measured.
func (x *index) appendTraffic(b []byte, n *Node) []byte {
	if x.view.Measured == 0 {
		return b
	}
	b = fmt.Appendf(b, "\n%s      sent  packets  of its rate  received  packets  waits\n",
		fit("over "+units.Duration(x.view.Measured), 11))
	for i := range n.Ports {
		p, t := &n.Ports[i], &n.Ports[i].Traffic
		if _, ok := x.peer(End{n.Name, p.Number}); !ok && p.Far == "" {
			continue
		}
		b = fmt.Appendf(b, "  %5s   %10s %8s %12s %9s %8s %6s\n", fmt.Sprintf("[%d]", p.Number), speed(t.Sent),
			units.PerSecond(math.Round(t.SentPackets)),
			units.Percent(p.Load), speed(t.Received), units.PerSecond(math.Round(t.ReceivedPackets)),
			units.Percent(t.Waiting))
	}
	return b
}

// appendCounters appends a table of counters. Columns of errors are there only if a port has some.
func (x *index) appendCounters(b []byte, nodes []Node) []byte {
	any := false
	for i := range nodes {
		for j := range nodes[i].Ports {
			p := &nodes[i].Ports[j]
			c := &p.Counters
			if *c == (Counters{}) {
				continue
			}
			if !any {
				b = append(b, fit("port", 26)+"  sent  packets  received  packets\n"...)
				any = true
			}
			b = fmt.Appendf(b, "%s %6s %8s    %6s %8s\n",
				fit(End{x.label(End{Node: nodes[i].Name}), p.Number}.String(), 25),
				units.Tight(units.Bytes(c.XmitData)), units.Short(c.XmitPackets), units.Tight(units.Bytes(c.RcvData)),
				units.Short(c.RcvPackets))
			if s := c.errors(); s != "" {
				b = append(b, wrap("    ", s)...)
			}
		}
	}
	if !any {
		b = append(b, "all counters are 0\n"...)
	}
	return b
}

// errors lists the error counters, by their names in the specification.
func (c *Counters) errors() string {
	var parts []string
	for _, e := range []struct {
		name string
		n    uint64
	}{
		{"SymbolErrors", c.SymbolErrors}, {"PortRcvErrors", c.RcvErrors}, {"PortXmitDiscards", c.XmitDiscards},
		{"LinkDowned", c.LinkDowned}, {"VL15Dropped", c.VL15Dropped}, {"PortXmitWait", c.XmitWait},
	} {
		if e.n > 0 {
			parts = append(parts, fmt.Sprintf("%s %d", e.name, e.n))
		}
	}
	return strings.Join(parts, ", ")
}

// ranges writes numbers as 1-3, 5.
func ranges(n []int) string {
	n = slices.Sorted(slices.Values(n))
	var parts []string
	for i := 0; i < len(n); {
		j := i
		for j+1 < len(n) && n[j+1] == n[j]+1 {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d-%d", n[i], n[j]))
		} else {
			parts = append(parts, fmt.Sprint(n[i]))
		}
		i = j + 1
	}
	return strings.Join(parts, ", ")
}

// wrap breaks a text into lines of 80 columns, at commas; the prefix is only before the first.
func wrap(prefix, s string) string {
	line, all := prefix, ""
	indent := strings.Repeat(" ", utf8.RuneCountInString(prefix))
	for i, word := range strings.Split(s, ", ") {
		if i > 0 {
			line += ","
			if utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) >= columns {
				all += line + "\n"
				line = indent
			} else {
				line += " "
			}
		}
		line += word
	}
	return all + line + "\n"
}
