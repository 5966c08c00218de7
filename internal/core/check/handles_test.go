// SPDX-License-Identifier: Apache-2.0

package check_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/core/check"
)

// program is a C program with threads, whose calls take turns.
type program struct {
	*testing.T
	report
	checker *check.Checker
	handles *check.Handles
}

func newProgram(t *testing.T) *program {
	p := &program{T: t}
	o, err := check.ParseOptions("")
	if err != nil {
		t.Fatal(err)
	}
	p.checker = check.New(&p.report, o)
	p.handles = p.checker.Handles()
	return p
}

// begin begins a call of a thread with objects; those it destroys have a minus.
func (p *program) begin(thread uintptr, call string, objects ...int) bool {
	var uses []check.Use
	for _, o := range objects {
		u := check.Use{Kind: "qp", Key: uintptr(max(o, -o)), Ends: o < 0}
		uses = append(uses, u)
	}
	return p.handles.Begin(thread, call, check.StackOf([]uintptr{thread, uintptr(len(p.rules()))}), uses)
}

func (p *program) end(thread uintptr, failed bool, made ...check.Made) {
	p.handles.End(thread, failed, made)
}

func (p *program) create(key uintptr, single bool) {
	p.begin(1, "ibv_create_qp")
	p.end(1, false, check.Made{Kind: "qp", Key: key, Single: single})
}

// wants compares the rules that were reported.
func (p *program) wants(rules string) {
	p.Helper()
	if got := strings.Join(p.rules(), " "); got != rules {
		p.Errorf("%q, and not %q:\n%s", got, rules, p.text.String())
	}
}

func TestHandleLifetime(t *testing.T) {
	p := newProgram(t)
	p.create(8, false)
	if !p.begin(1, "ibv_query_qp", 8, 9) { // 9 is not known
		t.Error("refused")
	}
	p.end(1, false)
	p.begin(1, "ibv_destroy_qp", -8)
	p.end(1, true) // it failed: the object is there
	if !p.begin(1, "ibv_destroy_qp", -8) {
		t.Error("refused")
	}
	p.end(1, false)
	p.wants("")
	if p.begin(1, "ibv_query_qp", 8) {
		t.Error("not refused")
	}
	p.end(1, true)
	if p.begin(2, "ibv_destroy_qp", -8) {
		t.Error("not refused")
	}
	p.end(2, true)
	p.wants("use-after-destroy double-destroy")
	p.create(8, false) // at the same address
	if !p.begin(1, "ibv_query_qp", 8) {
		t.Error("refused")
	}
	p.end(1, false)
	if status := p.checker.Exit(); status != check.DefaultExitCode {
		t.Error(status)
	}
	p.wants("use-after-destroy double-destroy leak")
}

func TestHandleThreads(t *testing.T) {
	for _, c := range []struct {
		single bool
		steps  func(p *program)
		rules  string
	}{
		{false, func(p *program) { // two threads at once
			p.begin(1, "ibv_post_send", 8)
			p.begin(2, "ibv_post_send", 8)
		}, ""},
		{true, func(p *program) {
			p.begin(1, "ibv_post_send", 8)
			p.begin(2, "ibv_post_send", 8)
		}, "concurrent-use"},
		{true, func(p *program) { // in turn
			p.begin(1, "ibv_post_send", 8)
			p.end(1, false)
			p.begin(2, "ibv_post_send", 8)
		}, ""},
		{true, func(p *program) { // within another thread's brackets
			p.begin(1, "ibv_wr_start", 8)
			p.end(1, false)
			p.begin(2, "ibv_post_recv", 8)
		}, "concurrent-use"},
		{true, func(p *program) {
			p.begin(1, "ibv_wr_start", 8)
			p.end(1, false)
			p.begin(1, "ibv_wr_complete", 8)
			p.end(1, true)
			p.begin(2, "ibv_post_recv", 8)
		}, ""},
		{false, func(p *program) {
			p.begin(1, "ibv_post_send", 8)
			p.begin(2, "ibv_destroy_qp", -8)
		}, "concurrent-use"},
		{false, func(p *program) {
			p.begin(1, "ibv_destroy_qp", -8)
			p.begin(2, "ibv_post_send", 8)
		}, "concurrent-use"},
		{false, func(p *program) { // the thread was canceled in its call, and another one has its place
			p.begin(1, "ibv_post_send", 8)
			p.begin(1, "ibv_query_qp", 8)
			p.end(1, false)
			p.begin(2, "ibv_destroy_qp", -8)
		}, ""},
		{false, func(p *program) { // whoever handles an event may use its object until it is acknowledged
			p.begin(2, "ibv_get_async_event")
			p.end(2, false)
			p.handles.Got(2, 8, 0)
			p.begin(1, "ibv_destroy_qp", -8)
			p.begin(2, "ibv_query_qp", 8)
		}, ""},
	} {
		p := newProgram(t)
		p.create(8, c.single)
		c.steps(p)
		p.wants(c.rules)
	}
}

func TestHandleEvents(t *testing.T) {
	p := newProgram(t)
	p.create(8, false)
	p.create(16, false)
	for _, key := range []uintptr{0, 0, 5} {
		p.begin(1, "ibv_get_async_event")
		p.end(1, false)
		p.handles.Got(1, 8, key)
	}
	p.handles.Acknowledged(0, 0, 1) // of a port
	p.handles.Acknowledged(8, 5, 1)
	p.handles.Acknowledged(8, 0, 1)
	p.handles.Unacknowledged(8)
	if text := p.text.String(); !strings.Contains(text, "qp1 has 1 that were taken") {
		t.Error(text)
	}
	p.handles.Acknowledged(8, 0, 100)
	p.checker.Exit()
	if rules := p.rules(); !slices.Equal(rules, []string{"event-unacknowledged", "leak"}) {
		t.Error(rules)
	}
}

// What was destroyed is forgotten when there is too much of it.
func TestHandlesForgotten(t *testing.T) {
	p := newProgram(t)
	for i := 1; i <= 3000; i++ {
		p.create(uintptr(8*i), false)
		p.begin(1, "ibv_destroy_qp", -8*i)
		p.end(1, false)
	}
	if !p.begin(1, "ibv_query_qp", 8) {
		t.Error("it is remembered")
	}
	p.end(1, true)
	if p.begin(1, "ibv_query_qp", 8*3000) {
		t.Error("it is forgotten")
	}
	p.wants("use-after-destroy")
}
