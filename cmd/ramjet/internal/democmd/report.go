// SPDX-License-Identifier: Apache-2.0

package democmd

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
	"github.com/ramjet-rdma/ramjet/internal/app/units"
)

// writeDemo writes a report for people.
func writeDemo(w io.Writer, r *demo.Report, terminal bool) error {
	without := ", no RDMA hardware, no root"
	switch {
	case r.Kernel:
		without = ""
	case r.Needs != "":
		without = ", no RDMA hardware, with " + r.Needs
	}
	parts := []string{
		"Each operation, with real data. Both processes compared every byte.\n\n" + operationTable(r, terminal) + "\n" +
			verifiedText(r),
		stoppedText(r.Stopped), packetsText(r), speedText(r, terminal), cableText(r.Cable),
	}
	var s strings.Builder
	fmt.Fprintf(&s, "Two processes, %s and %s,\nover %s, path MTU %d%s.\n\n", r.Devices[0], r.Devices[1], r.Over,
		r.PathMTU, without)
	n := 0
	for _, part := range parts {
		if part != "" {
			n++
			fmt.Fprintf(&s, "%d. %s\n", n, part)
		}
	}
	s.WriteString(demoSummary(r))
	_, err := io.WriteString(w, s.String())
	return err
}

// demoTable returns an empty table, whose columns but the first have numbers.
func demoTable(terminal bool, header ...any) table.Writer {
	t := table.NewWriter()
	t.SetStyle(table.StyleLight)
	if terminal {
		t.SetStyle(table.StyleRounded)
		t.Style().Color.Header = text.Colors{text.Bold}
	} else {
		t.Style().Options = table.OptionsNoBordersAndSeparators
		t.Style().Box.PaddingLeft = ""
		t.Style().Box.PaddingRight = "  "
	}
	t.Style().Format.Header = text.FormatDefault
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for n := 2; n <= len(header); n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	return t
}

// render writes a table, a little to the right.
func render(t table.Writer) string {
	s := cli.TrimLines(t.Render())
	return "   " + strings.ReplaceAll(s, "\n", "\n   ") + "\n"
}

func operationTable(r *demo.Report, terminal bool) string {
	t := demoTable(terminal, "operation", "verified in both", "")
	for i, row := range r.Rows {
		if terminal && i > 0 && (row.Transport != r.Rows[i-1].Transport || row.Size > 64 && r.Rows[i-1].Size <= 64) {
			t.AppendSeparator()
		}
		t.AppendRow(table.Row{row.Transport + " " + row.Operation,
			fmt.Sprintf("%d × %s", row.Messages, units.Size(row.Size)), "no error"})
	}
	return render(t)
}

func verifiedText(r *demo.Report) string {
	return fmt.Sprintf("   %d operations moved %s between the memories of the two processes;\n   both compared every byte: no error.\n",
		len(r.Rows), units.Bytes(r.Verified()))
}

// stoppedText describes the operations on a stopped process's memory; empty: none was stopped.
func stoppedText(r *demo.StoppedReport) string {
	if r == nil {
		return ""
	}
	used := ""
	if r.TargetNs != nil {
		used = fmt.Sprintf("   Processor time that the stopped process used meanwhile: %s.\n",
			units.Seconds(*r.TargetNs/1e9))
	}
	return fmt.Sprintf("The second process was stopped by a signal (SIGSTOP), and its memory READ.\n\n"+
		"   %d READs of %s over shared memory took %s; every byte compared.\n%s"+
		"   Nobody answers a request over TCP meanwhile. A NIC answers such READs over a\n"+
		"   network; RoCE in software cannot, as the process has to answer itself.\n",
		r.Reads, units.Size(r.Size), units.Duration(r.Elapsed), used)
}

// packetsText shows the packets of a WRITE; empty: they cannot be seen.
func packetsText(r *demo.Report) string {
	if r.Packets == "" {
		return ""
	}
	_, rows, ok := strings.Cut(r.Packets, "\n\n") // below the title of the conversation
	if !ok {
		rows = r.Packets
	}
	return "The packets of one WRITE of 64 B. The request says where the data goes:\n" +
		"   an address (va) and the key (rkey) that the target gave out.\n\n   " +
		strings.ReplaceAll(strings.TrimRight(rows, "\n"), "\n", "\n   ") + "\n"
}

// speedText compares the carriers of WRITEs, and names the bottleneck of each.
func speedText(r *demo.Report, terminal bool) string {
	head := table.Row{"over", "64 B to and fro", "1 MiB at a time", "target's processor"}
	t := demoTable(terminal, head...)
	var why strings.Builder
	for _, s := range r.Speed {
		used := "not known"
		if s.TargetNsPerByte != nil {
			used = units.Seconds(*s.TargetNsPerByte) + " a GB"
		}
		trip, rate := units.Duration(s.RoundTrip), units.Rate(s.BytesPerSecond)
		if r.Busy {
			trip, rate = "at most "+units.Duration(s.Shortest), "at least "+units.Rate(s.BestPerSecond)
		}
		t.AppendRow(table.Row{s.Over, trip, rate, used})
		fmt.Fprintf(&why, "   %s: %s.\n", s.Over, s.Bound)
	}
	nic := "   A NIC has no part in these. It answers in 1 to 3 µs, moves data as fast as its\n" +
		"   link, and the target's processor does nothing for it.\n"
	if r.Kernel {
		nic = ""
	}
	return "Speed of WRITEs, and of TCP between the same processes in the same run.\n\n" + render(t) + "\n" +
		why.String() + nic + busyText(r)
}

// busyText says that the machine was too busy for the speeds to mean anything.
func busyText(r *demo.Report) string {
	switch {
	case r.Busy:
		return fmt.Sprintf("\n   This machine is busy: both processes poll and need a processor each, and others\n"+
			"   used %.1f of its %d. So the table has only bounds, the best of all tries: do not\n"+
			"   compare its rows, but run the demo again on an idle machine.%s\n"+
			"   What was verified holds.\n", *r.Others, runtime.NumCPU(), misleadingOrder(r.Speed))
	case r.Others == nil && runtime.GOOS == "linux":
		return "\n   How busy others kept the processors is not known,\n   as /proc/stat cannot be read.\n"
	case r.Others == nil:
		return "\n   How busy others kept the processors is not known.\n"
	}
	return ""
}

// misleadingOrder says that load has put TCP before shared memory; empty: it has not.
func misleadingOrder(speeds []demo.Speed) string {
	var shared, tcp *demo.Speed
	for i := range speeds {
		switch s := &speeds[i]; s.Over {
		case demo.SharedMemory:
			shared = s
		case demo.TCP:
			tcp = s
		}
	}
	if shared == nil || tcp == nil || shared.Shortest <= tcp.Shortest && shared.BestPerSecond >= tcp.BestPerSecond {
		return ""
	}
	return " TCP only\n   seems to be faster than shared memory: with a processor for each process it is\n   the other way round."
}

// demoSummary has the time that it took, and suggests next commands.
func demoSummary(r *demo.Report) string {
	s := fmt.Sprintf("All of it took %s.\n", units.Duration(r.Elapsed))
	if r.Recorded {
		s += "Packets were recorded, so less was sent, and more slowly: run without --pcap\nfor figures.\n"
	}
	return s + fmt.Sprintf("Next: %[1]s devices -v                  what can be opened here\n"+
		"      %[1]s perf send bw --loopback     more about speed\n"+
		"      %[1]s pingpong --help             with another machine\n"+
		"      %[1]s demo -d iwarp               the same over iWARP\n"+
		"      %[1]s demo --pcap demo.pcapng     every packet, for Wireshark\n", programName())
}

// cableText describes the effect of pulling a cable; empty: none was pulled.
func cableText(c *demo.CableReport) string {
	if c == nil {
		return ""
	}
	return fmt.Sprintf("A cable was pulled in mid-stream. Two switches have two cables between them.\n\n"+
		"   subnet manager  %s\n"+
		"   route before    %s, %s packets through the cable\n"+
		"   pulled          %s, after %d of %d WRITEs of %s\n"+
		"   route after     %s, %s packets through the other cable\n\n"+
		"   The stream stood still for %s at most; the usual time between its\n   completions is %s.\n"+
		"   Verified in both: %s of WRITEs before, %s in the stream\n   that was cut, %s after it. No error.\n",
		c.Manager, strings.Join(c.RouteBefore, ", "), units.Count(c.PacketsBefore), c.Cable, c.PulledAfter, c.Messages,
		units.Size(c.Size),
		strings.Join(c.RouteAfter, ", "), units.Count(c.PacketsAfter), units.Duration(c.Interruption),
		units.Duration(c.UsualGap),
		units.Bytes(c.BytesBefore), units.Bytes(c.BytesDuring), units.Bytes(c.BytesAfter))
}

// programName is how the reader starts this program.
func programName() string {
	if self, err := os.Executable(); err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/ramjet"
	}
	return "ramjet"
}
