// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Everything is explained, once, in sentences.
func TestAll(t *testing.T) {
	names := map[string]bool{}
	number := map[explain.Kind]map[int]bool{}
	for _, e := range explain.All() {
		if names[e.Name] {
			t.Errorf("%s twice", e.Name)
		}
		names[e.Name] = true
		if number[e.Kind] == nil {
			number[e.Kind] = map[int]bool{}
		}
		if number[e.Kind][e.Number] {
			t.Errorf("%s %d twice", e.Kind, e.Number)
		}
		number[e.Kind][e.Number] = true
		if e.Text == "" || e.Text == "unknown" || strings.HasPrefix(e.Text, "reserved") {
			t.Errorf("%s has the text %q", e.Name, e.Text)
		}
		for _, s := range append([]string{e.Means}, e.Causes...) {
			if !strings.HasSuffix(s, ".") {
				t.Errorf("%s: %q is no sentence", e.Name, s)
			}
		}
		if found := explain.Find(e.Name); len(found) != 1 || found[0].Name != e.Name {
			t.Errorf("%s finds %+v", e.Name, found)
		}
		if !slices.ContainsFunc(explain.Find(e.Text), func(f explain.Entry) bool { return f.Name == e.Name }) {
			t.Errorf("%q does not find %s", e.Text, e.Name)
		}
	}
	for s := verbs.Success; s <= verbs.GeneralError; s++ {
		if !number[explain.Status][int(s)] {
			t.Errorf("%v is not explained", s)
		}
	}
	for r := verbs.Reason(1); r.String() != "unknown"; r++ {
		if !number[explain.Reason][int(r)] {
			t.Errorf("%v is not explained", r)
		}
	}
	for e := verbs.EventCQError; e < verbs.EventQPBroken; e++ {
		if !number[explain.Event][int(e)] {
			t.Errorf("%v is not explained", e)
		}
	}
}

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"IBV_WC_RETRY_EXC_ERR": "IBV_WC_RETRY_EXC_ERR", "retry_exc_err": "IBV_WC_RETRY_EXC_ERR", "Retry-Exc-Err": "IBV_WC_RETRY_EXC_ERR",
		"transport retry  counter exceeded": "IBV_WC_RETRY_EXC_ERR", "wc 12": "IBV_WC_RETRY_EXC_ERR", "12": "IBV_WC_RETRY_EXC_ERR",
		"rej 28": "IB_CM_REJ_CONSUMER_DEFINED", "0x1101": "TERM_TAGGED_BOUNDS", "event 3": "IBV_EVENT_QP_ACCESS_ERR",
		"nak 2": "NAK_REMOTE_ACCESS", "vendor_err 3": "REASON_OUTSIDE", "out of bounds": "REASON_OUTSIDE",
	} {
		if found := explain.Find(text); len(found) == 0 || found[0].Name != want {
			t.Errorf("%q: %+v", text, found)
		}
	}
	for _, text := range []string{"", "nothing", "4711", "wc 4711", "-1"} {
		if found := explain.Find(text); len(found) != 0 {
			t.Errorf("%q: %+v", text, found)
		}
	}
	if like := explain.Like("IBV_WC_RETRY_ERR"); !slices.Contains(like, "IBV_WC_RETRY_EXC_ERR") {
		t.Errorf("%q", like)
	}
	if like := explain.Like("zzz"); len(like) != 0 {
		t.Errorf("%q", like)
	}
}
