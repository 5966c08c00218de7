// SPDX-License-Identifier: Apache-2.0

package calllog

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

func TestFilter(t *testing.T) {
	for _, c := range []struct{ filter, call, want string }{
		{"", "ibv_create_qp", "yes"},
		{"", "ibv_post_send", "no"},
		{"data", "ibv_post_send", "yes"},
		{"ibv_post_send", "ibv_post_send", "yes"},
		{"post_send", "ibv_post_send", "yes"},
		{"ibv_post_send", "ibv_create_qp", "no"},
		{"ibv_post_*", "ibv_post_send", "no"},
		{"ibv_post_* data", "ibv_post_send", "yes"},
		{"ibv_*_qp", "ibv_modify_qp", "yes"},
		{"*_qp", "rdma_create_qp", "yes"},
		{"ibv_*_qp", "rdma_create_qp", "no"},
		{"!ibv_query_*", "ibv_query_port", "no"},
		{"!ibv_query_*", "ibv_create_qp", "yes"},
		{"*_qp,!ibv_query_qp", "ibv_query_qp", "no"},
		{"reg_mr, dereg_mr errors", "ibv_dereg_mr", "yes"},
	} {
		f, err := ParseFilter(c.filter)
		if err != nil || f.wants(c.call) != (c.want == "yes") {
			t.Errorf("%q: %s: not %s, %v", c.filter, c.call, c.want, err)
		}
	}
	f, err := ParseFilter(" errors,data\tenter json object=qp1 object=qp:0x11")
	if err != nil || !f.Errors || !f.Data || !f.Enter || !f.JSON {
		t.Errorf("%+v, %v", f, err)
	}
	for o, want := range map[seen]bool{
		{"qp", 1, 0}: true, {"qp", 2, 0}: false, {"qp", 2, 0x11}: true, {"cq", 1, 0}: false,
	} {
		if f.concerns([]seen{{"pd", 1, 0}, o}) != want {
			t.Errorf("%v: not %v", o, want)
		}
	}
}

func TestFilterErrors(t *testing.T) {
	const word = `expected a call such as ibv_create_qp, a pattern such as ibv_*_qp or !ibv_query_*, object=qp1, ` +
		`errors, data, enter or json`
	const objects = `an object as the log names it, such as qp1, a kind, such as mr, ` +
		`or a queue pair by its number, such as qp:0x11`
	for filter, want := range map[string]string{
		"ibv_creat_qp":                   `column 1: "ibv_creat_qp": ` + word + `; did you mean ibv_create_qp?`,
		"data, modfy_qp":                 `column 7: "modfy_qp": ` + word + `; did you mean modify_qp?`,
		"eror":                           `did you mean errors?`,
		"ä ibv_nothing_*":                `column 1: "ä": `,
		"object=":                        `column 1: "object=": expected ` + objects + `: the kinds are context, pd, `,
		"object=cqs":                     `did you mean cq?`,
		"object=qp0":                     `such as qp:0x11`,
		"object=qp:0":                    `such as qp:0x11`,
		"object=qp:0x1000000":            `such as qp:0x11`,
		"ibv_[":                          `a pattern in which each [ has its ]`,
		strings.Repeat("x", MaxFilter+1): `a filter of at most 65536 bytes`,
	} {
		_, err := ParseFilter(filter)
		var e *FilterError
		if !errors.As(err, &e) || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60q: %v, and not %s", filter, err, want)
		}
	}
}

func FuzzFilter(f *testing.F) {
	for _, s := range []string{
		"", "!", "ibv_*_qp,!ibv_query_qp errors", "object=qp:0x11 object=mr2", "ibv_[", "object=", "\xff,\xff",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		filter, err := ParseFilter(text)
		if err != nil {
			if e := (*FilterError)(nil); !errors.As(err, &e) || e.Column < 1 || e.Expected == "" {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		for i := range Calls {
			filter.wants(Calls[i].Name)
		}
	})
}

// lines is a writer that must get a whole line with each write.
type lines struct {
	t  *testing.T
	mu sync.Mutex
	bytes.Buffer
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !bytes.HasSuffix(b, []byte("\n")) || bytes.Count(b, []byte("\n")) != 1 {
		l.t.Errorf("not one line: %q", b)
	}
	return l.Buffer.Write(b)
}

func logWith(t *testing.T, filter string) (*Log, *lines) {
	t.Helper()
	f, err := ParseFilter(filter)
	if err != nil {
		t.Fatal(err)
	}
	w := &lines{t: t}
	return New(w, f), w
}

// steps makes, uses and destroys an object.
func steps(l *Log) {
	pd := Object{"pd", 0x10}
	p := l.Begin("ibv_alloc_pd", 7, func() []Arg { return []Arg{{"context", Object{"context", 0x5}}} })
	if p == nil {
		p = l.Unseen()
	}
	p.End(&Result{Value: pd, Made: []Object{pd}})
	qp := Object{"qp", 0x20}
	l.Begin("ibv_create_qp", 7, func() []Arg {
		return []Arg{{"pd", pd}, {"attr", Fields{{"qp_type", Symbol("IBV_QPT_RC")}, {"srq", Object{"srq", 0}}}}}
	}).End(&Result{Value: qp, Made: []Object{qp}, QPN: 0x11, Out: []Arg{{"qp_num", Hex(0x11)}}})
	args := func() []Arg { return []Arg{{"qp", qp}} }
	p = l.Begin("ibv_modify_qp", 8, args)
	p.End(&Result{Value: int32(22), Failed: true, Errno: "EINVAL", Reason: "two\nlines"})
	p = l.Begin("ibv_destroy_qp", 8, args)
	p.Destroys(qp)
	p.End(&Result{Value: int32(0)})
	p = l.Begin("ibv_destroy_qp", 8, args)
	p.End(&Result{Value: int32(2), Failed: true, Errno: "ENOENT"})
}

var timesAndPids = regexp.MustCompile(`(?m)^\d+|\d\d:\d\d:\d\d\.\d{6}|<\d+\.\d{6}>`)

func TestText(t *testing.T) {
	l, w := logWith(t, "")
	steps(l)
	const want = `/7  ibv_alloc_pd(context=context?0x5) = pd1 
/7  ibv_create_qp(pd=pd1, attr={qp_type=IBV_QPT_RC, srq=NULL}, qp_num=0x11) = qp1 
/8  ibv_modify_qp(qp=qp1) = 22 EINVAL (two lines) 
/8  ibv_destroy_qp(qp=qp1) = 0 
/8  ibv_destroy_qp(qp=qp?0x20) = 2 ENOENT 
`
	if got := timesAndPids.ReplaceAllString(w.String(), ""); got != want {
		t.Errorf("%s", got)
	}
}

func TestFiltered(t *testing.T) {
	for filter, want := range map[string]string{
		"errors":               "ibv_modify_qp ibv_destroy_qp",
		"object=qp1":           "ibv_create_qp ibv_modify_qp ibv_destroy_qp",
		"object=qp:0x11":       "ibv_create_qp ibv_modify_qp ibv_destroy_qp",
		"object=pd1 !alloc_pd": "ibv_create_qp",
		"enter alloc_pd":       "ibv_alloc_pd ibv_alloc_pd",
		"object=mr":            "",
	} {
		l, w := logWith(t, filter)
		steps(l)
		var calls []string
		for _, m := range regexp.MustCompile(`(?m) (\w+)\(`).FindAllStringSubmatch(w.String(), -1) {
			calls = append(calls, m[1])
		}
		if got := strings.Join(calls, " "); got != want {
			t.Errorf("%s: %q, and not %q:\n%s", filter, got, want, w)
		}
	}
}

func TestJSON(t *testing.T) {
	l, w := logWith(t, "json enter")
	steps(l)
	l.Begin("rdma_getaddrinfo", 0, func() []Arg {
		return []Arg{{"node", "a\"\\\n\x01\xffé"}, {"hints", nil}, {"list", List{1, Hex(2)}}}
	}).End(&Result{Void: true})
	n := 0
	for line := range strings.Lines(w.String()) {
		var v struct {
			Time   time.Time
			PID    int
			Call   string
			Args   map[string]any
			Begins bool
			Result any
			Errno  string
		}
		err := json.Unmarshal([]byte(line), &v)
		if err != nil || v.PID != os.Getpid() || v.Time.IsZero() || v.Call == "" {
			t.Errorf("%s: %v", line, err)
		}
		if v.Call == "rdma_getaddrinfo" && v.Args["node"] != "a\"\\\n\x01\ufffdé" {
			t.Errorf("%s: %q", line, v.Args["node"])
		}
		failed := v.Call == "ibv_modify_qp" && !v.Begins
		if failed && (v.Errno != "EINVAL" || v.Result != 22.0 || v.Args["qp"] != "qp1") {
			t.Errorf("%s: %+v", line, v)
		}
		n++
	}
	if n != 12 {
		t.Errorf("%d lines:\n%s", n, w)
	}
}

func TestNamed(t *testing.T) {
	for _, c := range []struct {
		typ  string
		v    uint64
		want Symbol
	}{
		{"access", 0, "0"},
		{"access", 1 | 1<<20 | 1<<30, "IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_RELAXED_ORDERING|0x40000000"},
		{"qp_mask", 1 | 1<<20 | 1<<25, "IBV_QP_STATE|IBV_QP_DEST_QPN|IBV_QP_RATE_LIMIT"},
		{"qp_type", 2, "IBV_QPT_RC"},
		{"qp_type", 10, "IBV_QPT_XRC_RECV"},
		{"qp_type", 1, "1"},
		{"qp_type", 5, "5"},
		{"port_space", 0x106, "RDMA_PS_TCP"},
		{"wc_status", 12, "IBV_WC_RETRY_EXC_ERR"},
		{"mtu", 3, "IBV_MTU_1024"},
		{"wc_opcode", 128, "IBV_WC_RECV"},
		{"wr_opcode", 15, "IBV_WR_ATOMIC_WRITE"},
		{"cm_event_type", 9, "RDMA_CM_EVENT_ESTABLISHED"},
	} {
		if got := Named(c.typ, c.v); got != c.want {
			t.Errorf("%s %#x: %s, and not %s", c.typ, c.v, got, c.want)
		}
	}
	const access = Symbol("IBV_ACCESS_LOCAL_WRITE|IBV_ACCESS_FLUSH_GLOBAL|IBV_ACCESS_RELAXED_ORDERING")
	if got := fromGo(verbs.LocalWrite | verbs.RelaxedOrdering | verbs.FlushGlobal); got != access {
		t.Error(got)
	}
	if got := fromGo(verbs.MaskState | verbs.MaskRateLimit); got != Symbol("IBV_QP_STATE|IBV_QP_RATE_LIMIT") {
		t.Error(got)
	}
}

// The C files and the table have the same calls, with as many arguments.
func TestTable(t *testing.T) {
	found := map[string]bool{ // logops.c has these
		"ibv_wr_complete": true, "ibv_start_poll": true, "ibv_next_poll": true, "ibv_end_poll": true,
		"rfcntl": true, // rslog.c has this one
	}
	for _, name := range []string{"logged.h", "cmlogged.h", "loggedops.h", "rslogged.h"} {
		text, err := os.ReadFile("../../../cabi/c/" + name)
		if err != nil {
			t.Fatal(err)
		}
		_, rows, _ := strings.Cut(string(text), "*/\n")
		for _, r := range regexp.MustCompile(`(?m)^(?:LOGGED|OP)`).Split(rows, -1)[1:] {
			var c *Call
			for _, m := range regexp.MustCompile(
				`\b_?((?:ibv|rdma|repoll|m\w+_to_ibv)_\w+|r[a-z]+)\b`).FindAllStringSubmatch(r, -1) {
				if c = Find(m[1]); c != nil {
					break
				}
			}
			if c == nil {
				t.Errorf("%s: %s is not in the table", name, r)
				continue
			}
			found[c.Name] = true
			args := r[strings.LastIndex(r, "(")+1:]
			args = args[:strings.Index(args, ")")]
			n := len(strings.Split(args, ","))
			if strings.HasPrefix(r, "_NONE") {
				n = 0
			}
			if n != len(c.Params) && c.Name != "ibv_query_port" { // which is there twice
				t.Errorf("%s: %s has %d arguments in C and %d in the table", name, c.Name, n, len(c.Params))
			}
		}
	}
	for i := range Calls {
		if !found[Calls[i].Name] {
			t.Errorf("%s is not logged in C", Calls[i].Name)
		}
	}
}

// The documentation lists the functions of the libraries that are not logged.
func TestNotLogged(t *testing.T) {
	text, err := os.ReadFile("../../../docs/log.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## What is not there\n")
	var patterns []string
	for _, m := range regexp.MustCompile("`([a-z_*]+)`").FindAllStringSubmatch(section, -1) {
		patterns = append(patterns, m[1])
	}
	n := 0
	for _, name := range []string{"ibverbs.map", "rdmacm.map"} {
		text, err := os.ReadFile("../../../cabi/c/" + name)
		if err != nil {
			t.Fatal(err)
		}
		public, _, _ := strings.Cut(string(text), "RAMJET_PRIVATE")
		for _, m := range regexp.MustCompile(`(?m)^\t\t_?(\w*(?:ibv|rdma|repoll)_\w+|r[a-z]+);`).FindAllStringSubmatch(
			public, -1) {
			n++
			listed := slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, m[1]); return ok })
			if Find(m[1]) == nil && !listed {
				t.Errorf("%s: %s is not logged, and docs/log.md does not say so", name, m[1])
			}
		}
	}
	if n < 100 {
		t.Errorf("only %d functions", n)
	}
}
