// SPDX-License-Identifier: Apache-2.0

package doctor

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
)

// The columns of a line of prose: as many as Style says, or these. Commands are not broken.
const (
	width    = 80
	minWidth = 40
)

// Style is how a report looks.
type Style struct {
	Width int  // columns of a line, 0: 80
	Color bool // problems in red, notes in yellow
}

// Write writes facts and findings as text.
func Write(out io.Writer, f *Facts, found []Finding, s Style) error {
	w := &report{bufio.NewWriter(out), max(cmp.Or(s.Width, width), minWidth), s.Color}
	if f.Asked == nil || f.Asked.Device == "" {
		w.devices(f.System)
	}
	w.asked(f.Asked)
	w.software(f)
	w.inside(f)
	if f.Peer != nil {
		w.peer(f.Peer)
	}
	w.findings(found)
	if len(found) == 0 && len(f.System.Unread) > 0 {
		fmt.Fprintln(w)
	}
	for _, u := range f.System.Unread {
		w.prose("", fmt.Sprintf("Not looked at: %s: %s.", u.What, u.Why))
	}
	w.end(f, found)
	return w.Flush()
}

type report struct {
	*bufio.Writer
	width int
	color bool
}

// prose writes text after a first word, in lines of the report's width; later lines are indented by the
// first word's width, or by four columns.
func (w *report) prose(first, text string) {
	w.fold(first, strings.Repeat(" ", utf8.RuneCountInString(first)), text)
}

// fold writes text in lines of the report's width: the first begins with first, the others with next.
func (w *report) fold(first, next, text string) {
	line := first
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > w.width {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line, empty = next, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

// command writes a command, unbroken. A comment behind it that does not fit the line stands above it.
func (w *report) command(indent, text string) {
	before, comment, ok := strings.Cut(text, "  # ")
	if ok && utf8.RuneCountInString(indent+text) > w.width {
		w.fold(indent+"# ", indent+"# ", comment)
		text = strings.TrimRight(before, " ")
	}
	fmt.Fprintf(w, "%s%s\n", indent, text)
}

func (w *report) devices(s *rdmasys.System) {
	kernel := "This system"
	if s.Kernel != "" {
		kernel = "Linux " + s.Kernel
	}
	if s.Container != "" {
		kernel += ", a container (" + s.Container + ")"
	}
	if kernel == "This system" && len(s.Interfaces) > 0 && s.Interfaces[0].State != "" {
		kernel = "Linux, whose /proc cannot be read"
	}
	if len(s.Devices) == 0 {
		w.prose("", kernel+": this machine has no RDMA device. Ramjet's devices in software need none.")
		return
	}
	fmt.Fprintf(w, "%s: RDMA devices of the kernel\n\n", kernel)
	for i := range s.Devices {
		d := &s.Devices[i]
		what := []string{"software"}
		if d.Hardware {
			what[0] = cmp.Or(d.Driver, "hardware")
		}
		if d.Firmware != "" {
			what = append(what, "firmware "+d.Firmware)
		}
		fmt.Fprintf(w, "  %-8s %s, %s\n", d.Name, protocol(d), strings.Join(what, ", "))
		for j := range d.Ports {
			w.port(s, d, &d.Ports[j])
		}
	}
}

func protocol(d *rdmasys.Device) string {
	if d.IWARP() {
		return "iWARP"
	}
	for i := range d.Ports {
		if d.Ports[i].LinkLayer == "InfiniBand" {
			return "InfiniBand"
		}
	}
	return "RoCE"
}

// shownGIDs limits how many GIDs of a port are written.
const shownGIDs = 8

func (w *report) port(s *rdmasys.System, d *rdmasys.Device, p *rdmasys.Port) {
	text := fmt.Sprintf("port %d: %s, %s", p.Number, p.State, p.Physical)
	if d.Hardware {
		text += ", " + p.Rate
	}
	if p.NetDev != "" {
		text += ", on " + p.NetDev
		if n := s.Interface(p.NetDev); n != nil {
			text += fmt.Sprintf(", MTU %d", n.MTU)
			if !d.IWARP() {
				text += fmt.Sprintf(" (path MTU %d)", rdmasys.PathMTU(n.MTU))
			}
		}
	}
	if p.LinkLayer == "InfiniBand" {
		text += fmt.Sprintf(", LID %d, subnet manager's LID %d", p.LID, p.SMLID)
	}
	w.prose("           ", text)
	if d.IWARP() {
		return // its GID is a MAC address and means nothing to programs
	}
	shown := 0
	for _, g := range p.GIDs {
		if p.LinkLayer == "Ethernet" && g.Type != rdmasys.RoCEv2 {
			continue
		}
		if shown++; shown > shownGIDs {
			fmt.Fprintln(w, "             and more: --json has all")
			break
		}
		line := fmt.Sprintf("             GID %d: %v", g.Index, g.Addr)
		if p.LinkLayer == "Ethernet" {
			line += ", " + g.Type
			if g.NetDev != "" && g.NetDev != p.NetDev {
				line += ", " + g.NetDev
			}
		}
		fmt.Fprintln(w, line)
	}
}

// asked writes the facts about the device that was asked for.
func (w *report) asked(a *Asked) {
	if a == nil || a.Device == "" {
		return
	}
	text := "can be opened"
	switch {
	case a.Problem != "":
		text = "does not work, see below"
	case a.Detail != "":
		text += ": " + a.Detail
	}
	w.prose(a.Device+": ", text)
}

func (w *report) software(f *Facts) {
	if len(f.Soft) == 0 {
		return
	}
	fmt.Fprint(w, "\nRamjet's devices in software\n\n")
	for _, s := range f.Soft {
		name := fmt.Sprintf("  %-12s ", s.Kind+":")
		switch {
		case s.Works:
			w.prose(name, "works ("+s.Text+")")
		case s.Problem != "":
			w.prose(name, "does not work, see below ("+s.Text+")")
		default:
			w.prose(name, s.Needs)
		}
	}
	if len(f.System.Devices) == 0 {
		fmt.Fprintln(w)
		w.command("  ", "ramjet demo                  # every operation between two processes")
		w.command("  ", "ramjet run -- ib_write_bw    # a C program, unmodified, on Ramjet")
	}
}

func (w *report) peer(p *Peer) {
	fmt.Fprintf(w, "\nThe way to %v\n\n", p.Addr)
	if p.Problem != "" {
		w.prose("  ", p.Problem)
		return
	}
	route := fmt.Sprintf("from %v by %s, MTU %d", p.Route.From, p.Route.NetDev, p.Route.MTU)
	switch {
	case p.Route.Local:
		route += "; it is this host"
	case p.Route.Gateway.IsValid():
		route += fmt.Sprintf(", through the router %v", p.Route.Gateway)
	}
	w.prose("  ", route)
	switch t := p.Path; {
	case p.Route.Local:
	case t.Passed > 0:
		w.prose("  ", fmt.Sprintf("packets of %d bytes get there: path MTU %d", t.Passed, rdmasys.PathMTU(t.Passed)))
	case t.Problem != "":
		w.prose("  ", "how large packets may be: "+t.Problem)
	}
	if r := p.Reply; r != nil {
		w.prose("  ", fmt.Sprintf("over RoCEv2, asked by %s: %s", r.Device, r.Text))
	}
	if len(p.Best) > 0 {
		w.prose("  ", "devices, in order of preference; the peer needs one of the same kind:")
	}
	for i, c := range p.Best {
		fmt.Fprintf(w, "    %d. %s\n", i+1, c.Name)
		w.prose("       ", c.Reason)
	}
	for _, c := range p.Not {
		fmt.Fprintf(w, "    not %s\n", c.Name)
		w.prose("       ", c.Reason)
	}
}

func (w *report) findings(found []Finding) {
	for _, f := range found {
		fmt.Fprintln(w)
		w.colored(f.Level, func() { w.prose(string(f.Level)+": ", f.Subject+": "+f.What) })
		if f.Fits {
			w.prose("  ", "It can be the cause of what the log says.")
		}
		w.prose("  ", f.Why)
		for _, m := range f.Mend {
			w.command("      ", m)
		}
	}
	if len(found) > 0 {
		fmt.Fprintln(w)
	}
}

// colored colors the text of a finding that write writes.
func (w *report) colored(l Level, write func()) {
	if !w.color {
		write()
		return
	}
	code := 33 // yellow
	if l == Problem {
		code = 31 // red
	}
	fmt.Fprintf(w, "\x1b[%dm", code)
	write()
	w.WriteString("\x1b[0m")
}

// end says how it stands.
func (w *report) end(f *Facts, found []Finding) {
	problems := Problems(found)
	notes := len(found) - problems
	text := "Nothing is wrong."
	switch {
	case problems == 1:
		text = "There is 1 problem."
	case problems > 1:
		text = fmt.Sprintf("There are %d problems.", problems)
	}
	if notes > 0 {
		text += fmt.Sprintf(" Notes: %d.", notes)
	}
	if len(found) == 0 && len(f.System.Unread) == 0 {
		fmt.Fprintln(w)
	}
	if f.Log != nil {
		switch n := fitCount(found); n {
		case 0:
			text += " Nothing that was found here is the cause of what the log says: run ramjet doctor at the peer, too."
		case 1:
			text += " One of these can be the cause of what the log says."
		default:
			text += fmt.Sprintf(" %d of these can be the cause of what the log says.", n)
		}
	}
	w.prose("", text)
}

// fitCount counts the findings that can be the cause of the log's error.
func fitCount(found []Finding) (n int) {
	for _, f := range found {
		if f.Fits {
			n++
		}
	}
	return n
}
