// SPDX-License-Identifier: Apache-2.0

package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestReportLeft reads the record of a process that has ended, and of one that has not.
func TestReportLeft(t *testing.T) {
	for _, c := range []struct {
		name, options string
		running       bool
		change        func(r *record, first, second int)
		status        int
		want          string
	}{
		{name: "two objects", status: 66, want: "2 of roce:192.0.2.7 are left: pd1, qp1. The first is pd1."},
		{name: "status", options: "exitcode=3", status: 3, want: "2 of roce:192.0.2.7 are left"},
		{name: "one removed", change: func(r *record, first, _ int) { r.remove(first) }, status: 66,
			want: "1 of roce:192.0.2.7 are left: qp1."},
		{name: "one more in its place", status: 66, want: "2 of roce:192.0.2.7 are left: cq1, qp1. The first is qp1.",
			change: func(r *record, first, _ int) {
				r.remove(first)
				r.add(&entry{Device: "roce:192.0.2.7", Name: "cq1", When: time.Unix(9, 0)})
			}},
		{name: "none", change: func(r *record, first, second int) { r.remove(first); r.remove(second) }},
		{name: "none, but findings", status: 66, change: func(r *record, first, second int) {
			r.found()
			r.remove(first)
			r.remove(second)
		}},
		{name: "off", options: "off=leak"},
		{name: "running", running: true},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir, log := t.TempDir(), filepath.Join(t.TempDir(), "log.%p")
			t.Setenv(RecordsVariable, dir)
			r := openRecord()
			if r == nil {
				t.Fatal("there is no record")
			}
			first := r.add(&entry{Device: "roce:192.0.2.7", Name: "pd1", When: time.Unix(1, 0),
				Stack: []Frame{{"main.main", "main.go", 7}}})
			second := r.add(&entry{Device: "roce:192.0.2.7", Name: "qp1", When: time.Unix(2, 0)})
			if c.change != nil {
				c.change(r, first, second)
			}
			const ended = "2147483647" // no process has this number
			if !c.running {
				if err := os.Rename(r.file.Name(), filepath.Join(dir, ended+".x")); err != nil {
					t.Fatal(err)
				}
			}
			r.file.Close()
			status, err := ReportLeft(dir, c.options+" log="+log)
			if err != nil || status != c.status {
				t.Errorf("status %d, not %d: %v", status, c.status, err)
			}
			said, _ := os.ReadFile(strings.ReplaceAll(log, "%p", ended))
			if !strings.Contains(string(said), c.want) || c.want == "" && len(said) > 0 {
				t.Errorf("said %q, not %q", said, c.want)
			}
			if strings.Contains(string(said), "pd1. ") &&
				!strings.Contains(string(said), "    main.main()\n        main.go:7\n") {
				t.Errorf("there is no stack in %q", said)
			}
		})
	}
}

// A stack that is too long for an entry loses its outermost functions.
func TestRecordLongStack(t *testing.T) {
	dir := t.TempDir()
	t.Setenv(RecordsVariable, dir)
	r := openRecord()
	defer r.file.Close()
	frames := make([]Frame, maxFrames)
	for i := range frames {
		frames[i] = Frame{Function: strings.Repeat("f", 300), Line: i}
	}
	r.add(&entry{Name: "pd1", Stack: frames})
	text, err := os.ReadFile(r.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	left, _ := leftIn(text)
	if len(left) != 1 || !strings.Contains(left[0].String(), "fff") {
		t.Errorf("read %v from %q", left, text)
	}
}

// FuzzLeft reads a record that says anything.
func FuzzLeft(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte(`{"findings":true}`))
	f.Add(append([]byte(strings.Repeat(" ", entrySize)),
		`{"name":"qp1","device":"d","when":"2026-01-02T03:04:05Z","stack":[{"function":"f"}]}`...))
	f.Fuzz(func(t *testing.T, text []byte) {
		left, _ := leftIn(text)
		for _, l := range left {
			if !strings.Contains(l.String(), string(Leak)) {
				t.Fatalf("%v is no leak", l)
			}
		}
	})
}
