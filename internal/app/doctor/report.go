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

// width is how many columns a line of prose may have. Commands are not broken.
const width = 80

// Write writes facts and findings as text.
func Write(out io.Writer, f *Facts, found []Finding) error {
	w := &report{bufio.NewWriter(out)}
	w.devices(f.System)
	w.software(f)
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

type report struct{ *bufio.Writer }

// prose writes text after a first word, in lines of width columns; those after the first are indented
// by as much as the first word takes, or by four columns.
func (w *report) prose(first, text string) {
	indent := strings.Repeat(" ", utf8.RuneCountInString(first))
	line := first
	empty := true
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			fmt.Fprintln(w, strings.TrimRight(line, " "))
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line, empty = line+word, false
	}
	fmt.Fprintln(w, strings.TrimRight(line, " "))
}

func (w *report) devices(s *rdmasys.System) {
	kernel := "This system"
	if s.Kernel != "" {
		kernel = "Linux " + s.Kernel
	}
	if s.Container != "" {
		kernel += ", a container (" + s.Container + ")"
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
		fmt.Fprint(w, "\n  ramjet demo                           # every operation between two processes\n"+
			"  ramjet run -- ib_write_bw             # a C program, unmodified, on Ramjet\n")
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
	if len(p.Best) > 0 {
		fmt.Fprintln(w, "  devices, in order of preference; the peer needs one of the same kind:")
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
		w.prose(string(f.Level)+": ", f.Subject+": "+f.What)
		w.prose("  ", f.Why)
		for _, m := range f.Mend {
			fmt.Fprintf(w, "      %s\n", m)
		}
	}
	if len(found) > 0 {
		fmt.Fprintln(w)
	}
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
	w.prose("", text)
}
