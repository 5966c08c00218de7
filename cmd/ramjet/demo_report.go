// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ramjet-rdma/ramjet/internal/app/bytesize"
	"github.com/ramjet-rdma/ramjet/internal/app/demo"
)

// writeDemo writes a report for people.
func writeDemo(w io.Writer, r *demo.Report, terminal bool) error {
	without := "no RDMA hardware, no root"
	if r.Needs != "" {
		without = "no RDMA hardware, with " + r.Needs
	}
	_, err := fmt.Fprintf(w, "Two processes, %s and %s,\nover %s, path MTU %d, %s.\n\n%s\n\n%s%s",
		r.Devices[0], r.Devices[1], r.Over, r.PathMTU, without, demoTable(r, terminal), cableText(r.Cable), demoSummary(r))
	return err
}

func demoTable(r *demo.Report, terminal bool) string {
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
	t.AppendHeader(table.Row{"operation", "verified in both", "RDMA", "TCP"})
	var columns []table.ColumnConfig
	for n := 2; n <= 4; n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for i, row := range r.Rows {
		if terminal && i > 0 && (row.Transport != r.Rows[i-1].Transport || row.Size > r.Rows[i-1].Size && row.BytesPerSecond > 0) {
			t.AppendSeparator()
		}
		t.AppendRow(table.Row{row.Transport + " " + row.Operation, fmt.Sprintf("%d × %s", row.Messages, bytesize.Text(row.Size)),
			doubt(roundTripText(row.RoundTripUs)+bandwidthText(row.BytesPerSecond), row.Disturbed || r.Busy),
			doubt(roundTripText(row.TCPRoundTripUs)+bandwidthText(row.TCPBytesPerSecond), row.TCPDisturbed || r.Busy)})
	}
	return trailing.ReplaceAllString(t.Render(), "")
}

// trailing is blanks at the ends of lines.
var trailing = regexp.MustCompile(`(?m) +$`)

// doubtful stands before figures that mean nothing.
const doubtful = "busy? "

// doubt marks a figure, if there is one, that was disturbed.
func doubt(figure string, disturbed bool) string {
	if figure == "" || !disturbed {
		return figure
	}
	return doubtful + figure
}

// roundTripText formats a round trip in microseconds; 0: there is none.
func roundTripText(us float64) string {
	if us == 0 {
		return ""
	}
	return shortTime(time.Duration(us * float64(time.Microsecond)))
}

// demoSummary says what happened and what to do next.
func demoSummary(r *demo.Report) string {
	s := fmt.Sprintf("%d operations moved %.1f MB between the memories of the two processes in\n%.1f s; both compared every byte: no error.\n",
		len(r.Rows), float64(r.Verified())/1e6, r.Seconds)
	s += "Figures are medians of round trips and of bandwidths, with both\nprocesses polling, for TCP too, between the same addresses in the same run.\n"
	switch {
	case r.Busy:
		s += fmt.Sprintf("None of the figures means anything: the two processes need a processor each,\nand others used %.1f of this machine's %d meanwhile. Try again when it is idle.\n",
			r.Others, runtime.NumCPU())
	case slices.ContainsFunc(r.Rows, func(row demo.Row) bool { return row.Disturbed || row.TCPDisturbed }):
		s += fmt.Sprintf("Those after %q mean nothing: the machine was busy, and the two processes,\nwhich need a processor each, waited for one.\n",
			strings.TrimSpace(doubtful))
	}
	if r.Recorded {
		s += "Packets were recorded, so less was sent, and more slowly: run without --pcap\nfor figures.\n"
	}
	return s + fmt.Sprintf("Next: %[1]s devices -v                  what can be opened here\n"+
		"      %[1]s perf send bw --loopback     more about speed\n"+
		"      %[1]s pingpong --help             with another machine\n"+
		"      %[1]s demo -d iwarp               the same over iWARP\n"+
		"      %[1]s demo --pcap demo.pcapng     every packet, for Wireshark\n", programName())
}

// cableText says what happened when a cable was pulled; empty: none was.
func cableText(c *demo.CableReport) string {
	if c == nil {
		return ""
	}
	mb := func(n int64) string { return fmt.Sprintf("%.0f MB", float64(n)/1e6) }
	return fmt.Sprintf("Two switches with two cables between them. Subnet manager: %s.\n"+
		"  route before  %s, %d packets through the cable\n"+
		"  pulled        %s, after %d of %d WRITEs of %s\n"+
		"  route after   %s, %d packets through the other cable\n"+
		"The stream stood still for %.1f ms at most; the usual time between its completions is %.1f ms.\n"+
		"Verified in both: %s of WRITEs before, %s in the stream that was cut, %s after it. No error.\n\n",
		c.Manager, strings.Join(c.RouteBefore, ", "), c.PacketsBefore, c.Cable, c.PulledAfter, c.Messages, bytesize.Text(c.Size),
		strings.Join(c.RouteAfter, ", "), c.PacketsAfter, c.InterruptionMs, c.UsualGapMs, mb(c.BytesBefore), mb(c.BytesDuring), mb(c.BytesAfter))
}

// programName is how the reader starts this program.
func programName() string {
	if self, err := os.Executable(); err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/ramjet"
	}
	return "ramjet"
}
