// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// demoReport is what the demo found.
type demoReport struct {
	Devices  [2]string `json:"devices"`
	Over     string    `json:"over"`
	PathMTU  int       `json:"path_mtu"`
	Rows     []demoRow `json:"operations"`
	Seconds  float64   `json:"seconds"`
	Recorded bool      `json:"recorded"` // packets were recorded: the figures are not those of a plain run
}

// demoRow is one operation of a demo. Figures that were not measured are 0.
type demoRow struct {
	Operation         string  `json:"operation"`
	Transport         string  `json:"transport"`
	Size              int     `json:"size_bytes"`
	Messages          int     `json:"messages"`
	VerifiedBytes     int64   `json:"verified_bytes"`
	RoundTripUs       float64 `json:"round_trip_us,omitempty"` // median
	TCPRoundTripUs    float64 `json:"tcp_round_trip_us,omitempty"`
	BytesPerSecond    float64 `json:"bytes_per_second,omitempty"` // median of the repetitions
	TCPBytesPerSecond float64 `json:"tcp_bytes_per_second,omitempty"`
	Disturbed         bool    `json:"disturbed"` // the machine was too busy for the figures to mean anything
	TCPDisturbed      bool    `json:"tcp_disturbed"`
}

func (r *demoReport) verified() (n int64) {
	for _, row := range r.Rows {
		n += row.VerifiedBytes
	}
	return n
}

// write writes the report for people.
func (r *demoReport) write(w io.Writer, terminal bool) error {
	_, err := fmt.Fprintf(w, "Two processes, %s and %s, over %s, path MTU %d, no RDMA hardware, no root.\n\n%s\n\n%s",
		r.Devices[0], r.Devices[1], r.Over, r.PathMTU, r.table(terminal), r.summary())
	return err
}

func (r *demoReport) table(terminal bool) string {
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
	t.AppendHeader(table.Row{"operation", "transport", "size", "verified in both", "round trip", "TCP", "bandwidth", "TCP"})
	columns := []table.ColumnConfig{{Number: 3, Align: text.AlignRight, AlignHeader: text.AlignRight}}
	for n := 5; n <= 8; n++ {
		columns = append(columns, table.ColumnConfig{Number: n, Align: text.AlignRight, AlignHeader: text.AlignRight})
	}
	t.SetColumnConfigs(columns)
	for i, row := range r.Rows {
		if terminal && i > 0 && (row.Transport != r.Rows[i-1].Transport || row.Size > r.Rows[i-1].Size && row.BytesPerSecond > 0) {
			t.AppendSeparator()
		}
		t.AppendRow(table.Row{row.Operation, row.Transport, formatSize(row.Size), row.verifiedText(),
			doubt(roundTripText(row.RoundTripUs), row.Disturbed), doubt(roundTripText(row.TCPRoundTripUs), row.TCPDisturbed),
			doubt(bandwidthText(row.BytesPerSecond), row.Disturbed), doubt(bandwidthText(row.TCPBytesPerSecond), row.TCPDisturbed)})
	}
	return t.Render()
}

// verifiedText says how much was compared.
func (r *demoRow) verifiedText() string {
	return fmt.Sprintf("%d × %s, all bytes", r.Messages, formatSize(r.Size))
}

// doubtful stands before figures that mean nothing.
const doubtful = "busy? "

// doubt marks a figure, if there is one, that was disturbed.
func doubt(figure string, disturbed bool) string {
	if figure == "" || !disturbed {
		return figure
	}
	return doubtful + figure
}

func roundTripText(us float64) string {
	if us == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f µs", us)
}

func bandwidthText(b float64) string {
	if b == 0 {
		return ""
	}
	return fmt.Sprintf("%.2f GB/s", b/1e9)
}

// summary says what happened and what to do next.
func (r *demoReport) summary() string {
	s := fmt.Sprintf("%d operations moved %.1f MB between the memories of the two processes in %.1f s; both compared every byte: no error.\n",
		len(r.Rows), float64(r.verified())/1e6, r.Seconds)
	s += "Figures are medians; round trips with both processes polling, for TCP too, between the same addresses in the same run.\n"
	if slices.ContainsFunc(r.Rows, func(row demoRow) bool { return row.Disturbed || row.TCPDisturbed }) {
		s += fmt.Sprintf("Those after %q mean nothing: the machine was busy, and the two processes, which need a processor each, waited for one.\n",
			strings.TrimSpace(doubtful))
	}
	if r.Recorded {
		s += "Packets were recorded, so less was sent, and more slowly: run without --pcap for figures.\n"
	}
	return s + fmt.Sprintf("Next: %[1]s devices -v                  what can be opened here\n"+
		"      %[1]s perf send bw --loopback     more about speed\n"+
		"      %[1]s pingpong --help             with another machine\n"+
		"      %[1]s demo -d iwarp               the same over iWARP\n"+
		"      %[1]s demo --pcap demo.pcapng     every packet, for Wireshark\n", programName())
}

// programName is how the reader starts this program.
func programName() string {
	if self, err := os.Executable(); err == nil && strings.Contains(self, string(filepath.Separator)+"go-build") {
		return "go run ./cmd/ramjet"
	}
	return "ramjet"
}
