// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// readAll reads a log to its end or its first error.
func readAll(text string, near time.Time) (all []*Entry, cut bool, err error) {
	r := NewReader(strings.NewReader(text), near)
	for {
		e, err := r.Next()
		if err != nil {
			if err == io.EOF {
				err = nil
			}
			return all, r.Cut(), err
		}
		all = append(all, e)
	}
}

// The lines of a log are read again, from text and from JSON alike.
func TestReader(t *testing.T) {
	values := Fields{
		{"null", nil}, {"flag", true}, {"number", -7}, {"large", uint64(1 << 63)}, {"hex", Hex(0x11)},
		{"string", "a \"b\", {c}\n"}, {"symbol", Symbol("IBV_A|IBV_B")}, {"odd", Symbol("a, b")}, {"none", Symbol("")},
		{"address", Symbol("[fe80::1%eth0]:7471")}, {"gids", List{Symbol("::1"), Symbol("::ffff:10.0.0.1")}},
		{"empty", List{}},
		{"struct", Fields{{"list", List{Fields{{"wr_id", Hex(7)}}, Symbol("…")}}, {"empty", Fields{}}}},
	}
	for _, filter := range []string{"enter", "enter json"} {
		l, w := logWith(t, filter)
		steps(l)
		l.Begin("rdma_getaddrinfo", 7, func() []Arg { return values }).End(&Result{Void: true})
		all, cut, err := readAll(w.String(), time.Now())
		if err != nil || cut || len(all) != 12 {
			t.Fatalf("%s: %d lines, %v, %v\n%s", filter, len(all), cut, err, w)
		}
		for i, e := range all {
			if e.Line != i+1 || e.PID != os.Getpid() || e.TID < 7 || time.Since(e.At).Abs() > time.Minute ||
				e.Took < 0 ||
				e.Begins != (i%2 == 0) || e.Void != (e.Begins || e.Call == "rdma_getaddrinfo") {
				t.Errorf("%s: %+v", filter, e)
			}
		}
		last := all[11]
		want := fmt.Sprintf(`rdma_getaddrinfo(%s)`, appendArgs(nil, values))
		if last.String() != want {
			t.Errorf("%s: %s, and not %s", filter, last, want)
		}
		if failed := all[5]; failed.Errno != "EINVAL" || failed.Error == "" || failed.Result != int64(22) ||
			failed.Arg("qp") != Symbol("qp1") {
			t.Errorf("%s: %+v", filter, failed)
		}
	}
}

func TestReaderErrors(t *testing.T) {
	const good = "1/2 10:31:00.139816 ibv_alloc_pd(context=context1) = pd1 <0.000016>\n"
	for text, want := range map[string]string{
		"\n" + good + "hello\n":                                   "line 3, column 1: expected a process's id, such as 4292 or 4292/4300, or an object of JSON",
		"1/2 25:31:00.139816 x()\n":                               "line 1, column 5: expected a time, such as 10:31:00.139816",
		"1/2 10:31:00.139816 é()\n":                               "line 1, column 21: expected a call, such as ibv_create_qp",
		"1 10:31:00.139816 x(a)\n":                                "line 1, column 22: expected = and a value",
		"1 10:31:00.139816 x(a=\n":                                "line 1, column 23: expected a value",
		"1 10:31:00.139816 x(é=1\n":                               "line 1, column 21: expected the name of an argument",
		"1 10:31:00.139816 x(a=\"\n":                              "line 1, column 23: expected a string with an end",
		"1 10:31:00.139816 x(a=[1,2])\n":                          "line 1, column 25: expected a comma or ]",
		"1 10:31:00.139816 x(a={b=1)\n":                           "line 1, column 27: expected a comma or }",
		"1 10:31:00.139816 x(a=1 = 0 <0.000016>\n":                "line 1, column 24: expected a comma or )",
		"1 10:31:00.139816 x(a=1) = 0\n":                          "line 1, column 29: expected the call's duration, such as <0.000016>",
		"1 10:31:00.139816 x(a=1) = 0 <1>\n":                      "line 1, column 30: expected the call's duration",
		"1 10:31:00.139816 x(a=1) 0 <0.000016>\n":                 "line 1, column 25: expected = and a result",
		"1 10:31:00.139816 x(a=" + strings.Repeat("[", 20) + "\n": "expected fewer structs and lists in each other",
		"{\n":                                    "line 1, column 2: expected an object of JSON",
		"{} {}\n":                                "expected one object of JSON in a line",
		"{\"a\":1}\n":                            `expected a call's "time"`,
		`{"time":"2026-11-28T10:31:00Z"}` + "\n": `the "pid" of a process`,
		`{"time":"2026-11-28T10:31:00Z","pid":1}` + "\n":           `expected a "call"`,
		`{"time":"2026-11-28T10:31:00Z","pid":1,"tid":"x"}` + "\n": `the "tid" of a thread`,
		`{"time":"2026-11-28T10:31:00Z","pid":1,"call":"x"}` +
			"\n": `expected "args", an object`,
		`{"time":"2026-11-28T10:31:00Z","pid":1,"call":"x","args":{},"duration_ns":-1}` +
			"\n": `expected a "duration_ns"`,
		strings.Repeat("x", MaxLine+1): "line 1, column 1: expected a line of at most 262144 bytes",
	} {
		_, _, err := readAll(text, time.Now())
		var bad *LineError
		if !errors.As(err, &bad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, and not %s", text, err, want)
		}
	}
}

// A log that a crash has cut off is read up to there.
func TestReaderCut(t *testing.T) {
	for _, filter := range []string{"", "json"} {
		l, w := logWith(t, filter)
		steps(l)
		text := w.String()
		lines := strings.Count(text, "\n")
		for n := range len(text) {
			all, cut, err := readAll(text[:n], time.Now())
			whole := strings.Count(text[:n], "\n")
			if text[n] == '\n' { // only the end of the line is missing
				whole++
			}
			if atLine := n == 0 || text[n-1] == '\n' || text[n] == '\n'; err != nil || len(all) != whole ||
				cut == atLine {
				t.Fatalf("%d bytes: %d of %d lines, %v, %v\n%s", n, len(all), lines, cut, err, text[:n])
			}
		}
	}
}

// The times of text have a date: that of the capture, or of the call before.
func TestReaderDates(t *testing.T) {
	zone := time.FixedZone("", 3600)
	near := time.Date(2026, 12, 31, 23, 59, 59, 0, zone)
	all, _, err := readAll("1 "+strings.ReplaceAll("23:59:58 00:00:01 23:59:59 11:00:00 ", " ",
		".500000 x() <0.000001>\n1 "), near)
	if err != nil || len(all) != 4 {
		t.Fatal(err)
	}
	for i, want := range []time.Duration{-500 * time.Millisecond, 2500 * time.Millisecond, 500 * time.Millisecond,
		11*time.Hour + 1500*time.Millisecond} {
		if d := all[i].At.Sub(near); d != want {
			t.Errorf("line %d: %v, and not %v", i+1, d, want)
		}
	}
}

func FuzzReader(f *testing.F) {
	for _, s := range []string{
		"", "1", "{", "{}", "1/2 10:31:00.139816 ibv_alloc_pd(context=context1) = pd1 <0.000016>\n",
		"1 10:31:00.139816 x(a={b=[1, [::1]:5, \"\\n\"]}, c=0x1) = -1 EINVAL (why <x>) <0.000016>\n1 10:31:00.139816 x( ...\n",
		`{"time":"2026-11-28T10:31:00Z","pid":1,"tid":2,"call":"x","args":{"a":[1,{"b":null}]},"result":-1,"errno":"E","error":"e","duration_ns":1}`,
	} {
		f.Add(s)
	}
	near := time.Date(2026, 11, 28, 10, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		all, _, err := readAll(text, near)
		if bad := (*LineError)(nil); err != nil &&
			(!errors.As(err, &bad) || bad.Line < 1 || bad.Column < 1 || bad.Expected == "") {
			t.Fatalf("%q: %v", text, err)
		}
		for _, e := range all {
			if e.Call == "" || e.Took < 0 || e.Line < 1 {
				t.Fatalf("%q: %+v", text, e)
			}
			_ = e.String()
		}
	})
}
