// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/app/units"
	"github.com/ramjet-rdma/ramjet/internal/core/calllog"
)

// callWords is a call in words.
type callWords struct {
	op    string
	facts []string
	notes []string
	marks Mark
	alike string // calls with the same may become one row; empty: the call has a row of its own
}

// describeCall describes a call or a completion.
func describeCall(h heldCall) (w callWords) {
	if h.wc != nil {
		return describeCompletion(h.wc)
	}
	e := h.e
	w.op = e.Call
	attr, _ := e.Arg("attr").(calllog.Fields)
	event, _ := e.Arg("event").(calllog.Fields)
	add := func(format string, v any) {
		if v != nil {
			w.facts = append(w.facts, fmt.Sprintf(format, short(v)))
		}
	}
	switch e.Call {
	case "ibv_post_send", "ibv_post_recv", "ibv_wr_complete":
		w.facts = requests(e.Arg("wr"))
		w.alike = strings.Join(append([]string{e.Call}, w.facts[min(1, len(w.facts)):]...), " ")
	case "ibv_modify_qp":
		add("%s", attr.Get("qp_state"))
		if n, ok := number(attr.Get("dest_qp_num")); ok {
			w.facts = append(w.facts, fmt.Sprintf("to QP 0x%06x", n))
		}
	case "ibv_create_qp", "ibv_create_qp_ex", "rdma_create_qp", "rdma_create_qp_ex", "rdma_create_ep":
		if t := attr.Get("qp_type"); t != nil && short(t) != "0" { // of the id, in Go
			add("%s", t)
		}
		if n, ok := number(e.Arg("qp_num")); ok {
			w.facts = append(w.facts, fmt.Sprintf("QP 0x%06x", n))
		}
	case "rdma_get_cm_event":
		add("%s", event.Get("type"))
		if status := event.Get("status"); status != int64(0) {
			add("status %s", status)
		}
		add("%s", event.Get("error"))
	case "ibv_get_async_event":
		add("%s", event.Get("event_type"))
	case "rdma_resolve_addr":
		add("%s", e.Arg("dst_addr"))
	case "rdma_bind_addr":
		add("%s", e.Arg("addr"))
	}
	switch {
	case e.Begins:
		w.marks = FailedCall
		w.notes = []string{"the call has not returned where the log ends"}
	case e.Errno != "":
		w.marks = FailedCall
		w.facts = append(w.facts, "= "+short(e.Result)+" "+e.Errno)
		if e.Error != "" {
			w.notes = []string{e.Error}
		}
	}
	return w
}

// describeCompletion describes a completion. One that was flushed follows from another error, and has no mark.
func describeCompletion(wc calllog.Fields) (w callWords) {
	w.op = "completion"
	w.facts = append(w.facts, "wr_id "+short(wc.Get("wr_id")))
	status := short(wc.Get("status"))
	if status != "SUCCESS" { // only wr_id, status and qp_num count then
		w.facts = append(w.facts, status)
		if status != "WR_FLUSH_ERR" {
			w.marks = FailedCompletion
		}
	} else {
		w.facts = append(w.facts, short(wc.Get("opcode")))
		if n, _ := wc.Get("byte_len").(int64); n > 0 {
			w.facts = append(w.facts, units.Bytes(n))
		}
	}
	w.alike = "completion " + strings.Join(w.facts[1:], " ")
	return w
}

// requests describes work requests: the first one, and how many more there are.
func requests(v any) (facts []string) {
	list, _ := v.(calllog.List)
	if len(list) == 0 {
		return nil
	}
	wr, _ := list[0].(calllog.Fields)
	facts = append(facts, "wr_id "+short(wr.Get("wr_id")))
	if op := wr.Get("opcode"); op != nil {
		facts = append(facts, short(op))
	}
	n, inline := wr.Get("inline_data").(int64)
	if !inline {
		elements, _ := wr.Get("sg_list").(calllog.List)
		for _, s := range elements {
			f, _ := s.(calllog.Fields)
			length, _ := f.Get("length").(int64)
			n += length
		}
	}
	facts = append(facts, units.Bytes(n))
	if more := len(list) - 1; more > 0 {
		facts = append(facts, fmt.Sprintf("and %d more", more))
	}
	return facts
}

// prefixes are the prefixes of constants whose names a row shortens.
var prefixes = []string{"IBV_WR_", "IBV_WC_", "IBV_QPS_", "IBV_QPT_", "RDMA_CM_EVENT_", "IBV_EVENT_"}

// short returns a value without the prefix of its constant.
func short(v any) string {
	text := fmt.Sprint(v)
	if v == nil {
		text = "NULL"
	}
	for _, p := range prefixes {
		if s, ok := strings.CutPrefix(text, p); ok {
			return s
		}
	}
	return text
}

// hint holds the facts about the call.
func (c *Call) hint() []string {
	process := fmt.Sprintf("process %d", c.PID)
	if c.TID != 0 {
		process += fmt.Sprintf(", thread %d", c.TID)
	}
	if !c.Begins {
		process += ", took " + units.Duration(c.Took)
	}
	return []string{c.String(), process, fmt.Sprintf("%s, line %d", c.Log, c.Line)}
}
