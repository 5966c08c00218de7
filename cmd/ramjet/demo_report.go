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

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"

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
	_, err := fmt.Fprintf(w, "Two processes, %s and %s,\nover %s, path MTU %d%s.\n\n%s\n\n%s%s",
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
		t.AppendRow(table.Row{row.Transport + " " + row.Operation, fmt.Sprintf("%d × %s", row.Messages, units.Size(row.Size)),
			doubt(roundTripText(row.RoundTripUs)+rateText(row.BytesPerSecond), row.Disturbed || r.Busy),
			doubt(roundTripText(row.TCPRoundTripUs)+rateText(row.TCPBytesPerSecond), row.TCPDisturbed || r.Busy)})
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
	return units.Seconds(us / 1e6)
}

// demoSummary says what happened and what to do next.
func demoSummary(r *demo.Report) string {
	s := fmt.Sprintf("%d operations moved %s between the memories of the two processes in\n%s; both compared every byte: no error.\n",
		len(r.Rows), units.Bytes(r.Verified()), units.Seconds(r.Seconds))
	s += "Figures are medians of round trips and of bandwidths, with both\nprocesses polling, for TCP too, between the same addresses in the same run.\n"
	switch {
	case r.Busy:
		s += fmt.Sprintf("None of the figures means anything: the two processes need a processor each,\nand others used %.1f of this machine's %d meanwhile. Try again when it is idle.\n",
			*r.Others, runtime.NumCPU())
	case slices.ContainsFunc(r.Rows, func(row demo.Row) bool { return row.Disturbed || row.TCPDisturbed }):
		s += fmt.Sprintf("Those after %q mean nothing: the machine was busy, and the two processes,\nwhich need a processor each, waited for one.\n",
			strings.TrimSpace(doubtful))
	}
	if r.Others == nil {
		why := ""
		if runtime.GOOS == "linux" {
			why = ",\nas /proc/stat cannot be read"
		}
		s += "How much other programs used the processors meanwhile is not known" + why + ".\n"
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
	return fmt.Sprintf("Two switches with two cables between them. Subnet manager: %s.\n"+
		"  route before  %s, %s packets through the cable\n"+
		"  pulled        %s, after %d of %d WRITEs of %s\n"+
		"  route after   %s, %s packets through the other cable\n"+
		"The stream stood still for %s at most; the usual time between its completions is %s.\n"+
		"Verified in both: %s of WRITEs before, %s in the stream that was cut, %s after it. No error.\n\n",
		c.Manager, strings.Join(c.RouteBefore, ", "), units.Count(c.PacketsBefore), c.Cable, c.PulledAfter, c.Messages, units.Size(c.Size),
		strings.Join(c.RouteAfter, ", "), units.Count(c.PacketsAfter), units.Seconds(c.InterruptionMs/1e3), units.Seconds(c.UsualGapMs/1e3),
		units.Bytes(c.BytesBefore), units.Bytes(c.BytesDuring), units.Bytes(c.BytesAfter))
}

// rateText formats bytes a second; 0: there is no figure.
func rateText(bytes float64) string {
	if bytes == 0 {
		return ""
	}
	return units.Rate(bytes)
}

// programName is how the reader starts this program.
func programName() string {
	if self, err := os.Executable(); err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/ramjet"
	}
	return "ramjet"
}
