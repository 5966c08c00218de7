// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// accessed takes a capture of two WRITEs, of which the second has a wrong key.
func accessed(t testing.TB) (*Survey, *Options) {
	t.Helper()
	s, err := Take(File("testdata/access.pcapng"))
	if err != nil || len(s.Conversations) != 1 {
		t.Fatal(err)
	}
	return s, &Options{Conversations: s.Conversations}
}

// callsOf returns the log of the calls of an end of that conversation.
func callsOf(t testing.TB, end string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/access-" + end + ".log")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// inText returns a log of JSON as text.
func inText(t testing.TB, log string) string {
	t.Helper()
	var b strings.Builder
	for r := calllog.NewReader(strings.NewReader(log), time.Now()); ; {
		e, err := r.Next()
		if err == io.EOF {
			return b.String()
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&b, "%d %s %s <%.6f>\n", e.PID, e.At.Local().Format("15:04:05.000000"), e, e.Took.Seconds())
	}
}

func drawCalls(t testing.TB, s *Survey, o *Options, logs ...string) *Ladder {
	t.Helper()
	o.Calls = s.Calls(o)
	for i, log := range logs {
		if err := o.Calls.Read(fmt.Sprintf("log%d", i+1), strings.NewReader(log)); err != nil {
			t.Fatal(err)
		}
	}
	l, err := s.Draw(*o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// The calls of both ends stand at their host, between the packets of their time, from JSON as from text.
func TestCalls(t *testing.T) {
	for form, convert := range map[string]func(testing.TB, string) string{
		"json": func(_ testing.TB, log string) string { return log }, "text": inText,
	} {
		s, o := accessed(t)
		l := drawCalls(t, s, o, convert(t, callsOf(t, "server")), convert(t, callsOf(t, "client")))
		if len(o.Calls.Notes) != 0 || len(o.Calls.Sources) != 2 ||
			!strings.HasSuffix(o.Calls.Sources[0], "at 127.0.0.3, from log1") {
			t.Errorf("%s: %q, %q", form, o.Calls.Sources, o.Calls.Notes)
		}
		var got []string
		last := l.Rows[0].At
		for i := range l.Rows {
			r := &l.Rows[i]
			if r.At < last {
				t.Errorf("%s: row %d is of %v, after one of %v", form, i, r.At, last)
			}
			last = r.At
			side := fmt.Sprint(r.From)
			if r.From != r.To {
				side += "→" + fmt.Sprint(r.To)
			}
			got = append(got, side+" "+r.sign()+r.text(false))
		}
		all := strings.Join(got, "\n")
		for _, want := range []string{
			"0  ibv_post_recv  ×16  4096 B\n0  rdma_connect\n0→1  CM REQ",
			"1  rdma_get_cm_event  CONNECT_REQUEST\n1  rdma_create_qp  QP 0x0d422a\n1  ibv_create_qp  RC  QP 0x0d422a\n",
			"1  ibv_modify_qp  RTR  to QP 0x038147\n1  ibv_modify_qp  RTS\n1→0  CM REP",
			"0  ibv_post_send  wr_id 0x1  RDMA_WRITE  64 B\n0→1  Write Only  PSN 283852  64 B\n1→0  ACK  PSN 283852\n0  completion  wr_id 0x1  RDMA_WRITE\n",
			"1→0 !NAK  remote access error  PSN 283853\n",
			"0 !completion  wr_id 0x2  REM_ACCESS_ERR\n0  completion  wr_id 0x8000000000000000  WR_FLUSH_ERR\n",
			"0 !ibv_modify_qp  RTS  = -1 EINVAL\n",
			"1  ibv_destroy_qp",
		} {
			if !strings.Contains(all, want) {
				t.Errorf("%s: there is no %q in\n%s", form, want, all)
			}
		}
		if tally := s.Conversations[0].Tally.String(); tally != "1 NAK, 1 failed call, 1 failed completion" {
			t.Errorf("%s: %s", form, tally)
		}
	}
}

// Every output has the calls.
func TestCallsOutputs(t *testing.T) {
	s, o := accessed(t)
	l := drawCalls(t, s, o, callsOf(t, "server"), callsOf(t, "client"))
	var text, page bytes.Buffer
	if err := errors.Join(l.WriteText(&text, Text{Width: 80}), l.WriteHTML(&page, nil)); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"  0.001363   ● completion  wr_id 0x1  RDMA_WRITE                               │\n",
		"  0.000621   │                                              ibv_modify_qp  RTS ●\n",
		"  0.001698 ! ● ibv_modify_qp  RTS  = -1 EINVAL                                 │\n" +
			"             │   verbs: modify_qp: invalid argument: RC queue pairs cannot go  │\n",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("there is no %q in\n%s", want, &text)
		}
	}
	if !strings.Contains(page.String(), `class="row call"`) || !strings.Contains(page.String(), "process 13325, took") {
		t.Error("the page does not have the calls")
	}
	b, err := json.Marshal(s.Report(s.Conversations, l))
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Rows []struct {
			From, To, Frame, Calls int
			Marks                  []string
			Call                   *struct {
				Log, Call, Errno string
				Line, PID        int
				Args, Completion map[string]any
			}
		}
	}
	if err := json.Unmarshal(b, &report); err != nil {
		t.Fatal(err)
	}
	failed := 0
	for _, r := range report.Rows {
		if (r.Frame == 0) != (r.Calls > 0) ||
			r.Call != nil && (r.Call.PID != 13325 || r.Call.Line == 0 || r.From != r.To) {
			t.Errorf("%+v", r)
		}
		if len(r.Marks) > 0 && r.Marks[0] == "failed_completion" && r.Call.Completion["wr_id"] == "0x2" &&
			r.Call.Call == "ibv_poll_cq" {
			failed++
		}
	}
	if failed != 1 {
		t.Errorf("%d failed completions:\n%s", failed, b)
	}
}

// The drawing says which calls are missing.
func TestCallsNotes(t *testing.T) {
	client := callsOf(t, "client")
	hour := func(log string) string { // of another time
		return strings.ReplaceAll(log, "T22:", "T20:")
	}
	without := func(call string) string {
		var kept []string
		for line := range strings.Lines(client) {
			if !strings.Contains(line, call) {
				kept = append(kept, line)
			}
		}
		return strings.Join(kept, "")
	}
	for _, c := range []struct{ log, want string }{
		{"", "log1: the log is empty"},
		{client[:len(client)-20], "log1: the log ends in the middle of a line: what is before it was read"},
		{without("_create_qp"), "log1: it names queue pairs, but not their numbers: its filter has left out ibv_create_qp or rdma_create_qp"},
		{hour(client),
			"log1: queue pair 0x038147 of 127.0.0.2 is there at another time than in the capture, from 2026-11-28 2"},
		{strings.ReplaceAll(client, "::ffff:127.0.0.2", "::ffff:127.0.0.9"),
			"log1: no queue pair of what is drawn, but 0x038147 of 127.0.0.9"},
		{strings.ReplaceAll(client, "0x38147", "0x38148"),
			"log1: no queue pair of what is drawn, but 0x038148 of 127.0.0.2"},
		{"1 10:00:00.000000 ibv_get_device_list() = NULL <0.000001>\n", "log1: no queue pair of what is drawn"},
	} {
		s, o := accessed(t)
		drawCalls(t, s, o, c.log)
		if len(o.Calls.Notes) != 1 || !strings.HasPrefix(o.Calls.Notes[0], c.want) {
			t.Errorf("%q, and not %q", o.Calls.Notes, c.want)
		}
	}
	s, o := accessed(t)
	err := s.Calls(o).Read("log", strings.NewReader(client+"x\n"))
	if bad := (*calllog.LineError)(nil); !errors.As(err, &bad) || bad.Line != strings.Count(client, "\n")+1 {
		t.Error(err)
	}
}

// A call that has not returned where the log ends failed.
func TestCallsOfCrash(t *testing.T) {
	s, o := accessed(t)
	log := inText(t, callsOf(t, "client"))
	before, _, _ := strings.Cut(log, " ibv_destroy_qp(")
	l := drawCalls(t, s, o, before+" ibv_destroy_qp(qp=qp1 ...\n")
	last := l.Rows[len(l.Rows)-1]
	if last.Op != "ibv_destroy_qp" || last.Marks != FailedCall || len(last.Notes) != 1 ||
		last.Notes[0] != "the call has not returned where the log ends" {
		t.Errorf("%+v", last)
	}
}

// The limit of rows counts calls, and --from and --to choose among them.
func TestCallsChosen(t *testing.T) {
	s, o := accessed(t)
	o.Limit = 3
	l := drawCalls(t, s, o, callsOf(t, "client"))
	if len(l.Rows) != 3 || l.LeftOut != 11 || l.CallsLeftOut != 38 || l.Next() >= 0 {
		t.Errorf("%d rows, %d and %d left out, from %v on", len(l.Rows), l.LeftOut, l.CallsLeftOut, l.Next())
	}
	s, o = accessed(t)
	o.From, o.To = 1360*time.Microsecond, 1400*time.Microsecond
	l = drawCalls(t, s, o, callsOf(t, "client"))
	if len(l.Rows) != 2 || l.Rows[0].Op != "completion" || l.Rows[1].Op != "ibv_post_send" {
		t.Errorf("%+v", l.Rows)
	}
}

// However long a log is, the part of it that is held is bounded.
func TestCallsBound(t *testing.T) {
	s, o := accessed(t)
	create, _, _ := strings.Cut(callsOf(t, "client")[strings.Index(callsOf(t, "client"), "ibv_create_qp"):], "\n")
	log := callsOf(t, "client")
	log = log[:strings.Index(log, create)+len(create)+1]
	before := strings.Count(log, "\n")
	const most = 100
	c := s.Calls(o)
	c.maxCalls = most
	at := s.Start.Local().Format("15:04:05.000000")
	var b strings.Builder
	b.WriteString(log)
	for range most {
		b.WriteString("13325 " + at + " ibv_query_qp(qp=qp1) = 0 <0.000001>\n")
	}
	if err := c.Read("log", strings.NewReader(b.String())); err != nil {
		t.Fatal(err)
	}
	if len(c.rows) > most || len(c.rows) < most-before || len(c.Notes) != 1 ||
		!strings.Contains(c.Notes[0], "more calls than can be drawn: --from and --to choose") {
		t.Errorf("%d rows, %q", len(c.rows), c.Notes)
	}
	c = s.Calls(o)
	c.maxBytes = 4096
	if err := c.Read("log", strings.NewReader(b.String())); err != nil || len(c.rows) >= most || len(c.Notes) != 1 {
		t.Errorf("%d rows, %q, %v", len(c.rows), c.Notes, err)
	}
	b.Reset()
	for i := range most + 1 {
		fmt.Fprintf(&b, "1 %s rdma_create_id(ps=RDMA_PS_TCP) = id%d <0.000001>\n", at, i+1)
	}
	c = s.Calls(o)
	c.maxObjects = most
	if err := c.Read("log", strings.NewReader(b.String())); err == nil ||
		!strings.Contains(err.Error(), "at most 100 queue pairs and ids at a time") {
		t.Error(err)
	}
}

// FuzzCalls: whatever is in a log, the ladder is drawn, or the error names a line.
func FuzzCalls(f *testing.F) {
	f.Add("")
	f.Add(callsOf(f, "client"))
	f.Add(inText(f, callsOf(f, "server")))
	s, o := accessed(f)
	f.Fuzz(func(t *testing.T, log string) {
		o.Calls = s.Calls(o)
		if err := o.Calls.Read("log", strings.NewReader(log)); err != nil {
			if bad := (*calllog.LineError)(nil); !errors.As(err, &bad) {
				t.Fatal(err)
			}
			return
		}
		l, err := s.Draw(*o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := json.Marshal(s.Report(s.Conversations, l)); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(l.WriteText(io.Discard, Text{}), l.WriteSVG(io.Discard, nil, 400)); err != nil {
			t.Fatal(err)
		}
	})
}
