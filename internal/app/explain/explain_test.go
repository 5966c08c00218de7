// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/infiniband"
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
		if number[e.Kind][e.Number] && e.Kind != explain.Call && e.Kind != explain.Failed && e.Kind != explain.Message {
			t.Errorf("%s %d twice", e.Kind, e.Number)
		}
		number[e.Kind][e.Number] = true
		if e.Text == "" || e.Text == "unknown" || strings.HasPrefix(e.Text, "reserved") {
			t.Errorf("%s has the text %q", e.Name, e.Text)
		}
		sentences := []string{e.Means}
		for _, c := range e.Causes {
			sentences = append(sentences, c.What)
			if c.Mend != "" {
				sentences = append(sentences, c.Mend)
			}
		}
		for _, s := range sentences {
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
	for s := verbs.StatusSuccess; s <= verbs.StatusGeneralError; s++ {
		if !number[explain.Status][int(s)] {
			t.Errorf("%v is not explained", s)
		}
	}
	for r := verbs.Reason(1); r.String() != "unknown"; r++ {
		if !number[explain.Reason][int(r)] {
			t.Errorf("%v is not explained", r)
		}
	}
	for e := verbs.EventCQError; e <= verbs.EventGIDChange; e++ {
		if !number[explain.Event][int(e)] {
			t.Errorf("%v is not explained", e)
		}
	}
}

// Every sentinel of the public packages is explained under its name, with the errno that C programs get.
func TestSentinels(t *testing.T) {
	declared := regexp.MustCompile(`(?m)^\s*(?:var )?(Err[A-Z]\w*)\s+(?:error )?=`)
	for _, dir := range []string{"cm", "infiniband", "iwarp", "kernel", "rnet", "roce", "roce1", "shm", "trace",
		"verbs"} {
		files, err := filepath.Glob(filepath.Join("../../..", dir, "*.go"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
				if strings.HasSuffix(file, "_test.go") {
					continue
				}
				if found := explain.Find(dir + "." + m[1]); len(found) != 1 || found[0].Kind != explain.Call ||
					len(found[0].Causes) == 0 {
					t.Errorf("%s.%s: %+v", dir, m[1], found)
				}
			}
		}
	}
	for _, err := range []error{verbs.ErrBusy, verbs.ErrClosed, verbs.ErrInvalid, verbs.ErrNotSupported,
		verbs.ErrQueueFull, verbs.ErrNoMemory, verbs.ErrState, verbs.ErrOverflow, verbs.ErrPermission, verbs.ErrFault,
		verbs.ErrNotFound, verbs.ErrPinLimit} {
		op := &verbs.OpError{Op: "post_send", Err: err, Detail: "and so on"}
		if found := explain.Find(op.Error()); len(found) != 1 || found[0].Number != int(op.Errno()) {
			t.Errorf("%q, errno %d: %+v", op, op.Errno(), found)
		}
	}
}

// The texts in full are texts of packages cm and infiniband.
func TestConnectionTexts(t *testing.T) {
	for _, err := range []error{cm.ErrTimeout, cm.ErrDisconnected, cm.ErrAddrInUse, cm.ErrNoAddr,
		infiniband.ErrNoFabric} {
		if found := explain.Find(err.Error()); len(found) != 1 || found[0].Text != err.Error() ||
			found[0].Kind != explain.Call {
			t.Errorf("%q: %+v", err, found)
		}
	}
	for e := cm.AddrResolved; e <= cm.TimewaitExit; e++ {
		found := explain.Find(fmt.Sprintf("cm_event %d", e))
		if len(found) != 1 || found[0].Text != e.String() && e.String() != "unknown" {
			t.Errorf("%d, %v: %+v", e, e, found)
		}
	}
	for err, errno := range map[error]syscall.Errno{cm.ErrTimeout: syscall.ETIMEDOUT,
		cm.ErrAddrInUse: syscall.EADDRINUSE, cm.ErrNoAddr: syscall.EADDRNOTAVAIL,
		&cm.RejectError{Reason: cm.ReasonConsumer}: syscall.ECONNREFUSED} {
		if found := explain.Find(fmt.Sprintf("errno %d", errno)); !errors.Is(err, errno) || len(found) != 1 ||
			!strings.Contains(err.Error(), found[0].Text) {
			t.Errorf("%v, %v: %+v", err, errno, found)
		}
	}
}

// Whole lines of programs are understood.
func TestFindInLines(t *testing.T) {
	for line, want := range map[string][]string{
		"Failed status 12: wr_id 0 syndrom 0x81": {"IBV_WC_RETRY_EXC_ERR"},
		"cma event RDMA_CM_EVENT_REJECTED, error 28": {"RDMA_CM_EVENT_REJECTED",
			"IB_CM_REJ_CONSUMER_DEFINED"},
		"remote access error, PSN 4711: out of bounds: 8 bytes at 0xc000190000": {"IBV_WC_REM_ACCESS_ERR",
			"REASON_OUTSIDE", "NAK_REMOTE_ACCESS"},
		(&cm.RejectError{Address: "192.0.2.7:7000",
			Reason: cm.ReasonInvalidService}).Error(): {"IB_CM_REJ_INVALID_SERVICE_ID"},
		(&cm.RejectError{Address: "192.0.2.7:7000",
			Reason: cm.ReasonConsumer}).Error(): {"IB_CM_REJ_CONSUMER_DEFINED", "cm.RejectError"},
		(&verbs.OpError{Op: "connect", Err: cm.ErrTimeout, Detail: "192.0.2.7:7000"}).Error():   {"cm.ErrTimeout"},
		"infiniband: no fabric runs here: start one, such as with ramjet fabric --fat-tree 4,2": {"infiniband.ErrNoFabric"},
		"wrong status 4711": nil, "abcremote access errors": nil,
	} {
		var names []string
		for _, e := range explain.Find(line) {
			names = append(names, e.Name)
		}
		if !slices.Equal(names, want) {
			t.Errorf("%q: %v", line, names)
		}
	}
}

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"IBV_WC_RETRY_EXC_ERR": "IBV_WC_RETRY_EXC_ERR", "retry_exc_err": "IBV_WC_RETRY_EXC_ERR",
		"Retry-Exc-Err":                     "IBV_WC_RETRY_EXC_ERR",
		"transport retry  counter exceeded": "IBV_WC_RETRY_EXC_ERR", "wc 12": "IBV_WC_RETRY_EXC_ERR",
		"12": "IBV_WC_RETRY_EXC_ERR", "rej 28": "IB_CM_REJ_CONSUMER_DEFINED", "0x1101": "TERM_TAGGED_BOUNDS",
		"event 3": "IBV_EVENT_QP_ACCESS_ERR",
		"nak 2":   "NAK_REMOTE_ACCESS", "vendor_err 3": "REASON_OUTSIDE", "out of bounds": "REASON_OUTSIDE",
		"queue is full": "verbs.ErrQueueFull", "ErrQueueFull": "verbs.ErrQueueFull",
		"verbs.ErrQueueFull": "verbs.ErrQueueFull", "enomem": "verbs.ErrQueueFull",
		"connection refused": "cm.RejectError",
		"invalid argument":   "verbs.ErrInvalid",
		"RNR":                "IBV_WC_RNR_RETRY_EXC_ERR", "receiver not ready": "IBV_WC_RNR_RETRY_EXC_ERR",
		"cm_event 8": "RDMA_CM_EVENT_REJECTED",
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
