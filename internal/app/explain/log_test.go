// SPDX-License-Identifier: Apache-2.0

package explain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/app/explain"
)

// corpus returns the lines of the field, each with the name of the entry that explains it.
func corpus(t testing.TB) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "lines.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, line, ok := strings.Cut(strings.TrimRight(line, "\n"), "\t"); ok {
			all = append(all, [2]string{name, line})
		}
	}
	return all
}

// Each line of the field is explained by the right entry, and lines of other programs are refused.
func TestCorpus(t *testing.T) {
	for _, c := range corpus(t) {
		found := explain.Find(c[1])
		switch {
		case c[0] == "-" && len(found) > 0:
			t.Errorf("%q is explained by %s", c[1], found[0].Name)
		case c[0] == "-":
		case len(found) == 0:
			t.Errorf("%q is not known: %s", c[1], c[0])
		case found[0].Name != c[0]:
			t.Errorf("%q is explained by %s, not by %s", c[1], found[0].Name, c[0])
		}
	}
}

// An answer about a failure has causes, each with a command that tells it from the others, and a remedy.
func TestAnswers(t *testing.T) {
	for _, c := range corpus(t) {
		if c[0] == "-" {
			continue
		}
		for _, e := range explain.Find(c[1])[:1] {
			if e.Kind != explain.Status && e.Kind != explain.Failed && e.Kind != explain.ConnectionEvent {
				continue
			}
			for i, cause := range e.Causes[:min(3, len(e.Causes))] {
				if cause.Check == "" || cause.Mend == "" {
					t.Errorf("%s, cause %d: %+v", e.Name, i+1, cause)
				}
			}
			if len(e.Causes) == 0 {
				t.Errorf("%s has no causes", e.Name)
			}
		}
	}
}

// The meaning of ENOMEM depends on the call: only calls that post have full queues.
func TestNoMemoryByCall(t *testing.T) {
	for call, queue := range map[string]bool{"ibv_reg_mr": false, "ibv_create_cq": false, "ibv_create_qp": false,
		"ibv_post_send": true, "ibv_post_recv": true} {
		e := explain.Find(call + ": Cannot allocate memory")[0]
		text := e.Means + fmt.Sprint(e.Causes)
		if full := strings.Contains(text, "full"); full != queue || e.Name != call+": ENOMEM" ||
			queue == strings.Contains(text, "RLIMIT_MEMLOCK") {
			t.Errorf("%s: %s", e.Name, text)
		}
	}
	// An errno that is not in the table of a call is reported as unknown.
	if e := explain.Find("ibv_create_cq() failed: Protocol error")[0]; !strings.Contains(e.Means, "is not known here") {
		t.Errorf("%+v", e)
	}
}

// A status of an event is an errno if it is negative, and the reason of a REJ if not.
func TestStatusOfEvents(t *testing.T) {
	for line, want := range map[string]string{
		"RDMA_CM_EVENT_REJECTED, error -111":         "ECONNREFUSED",
		"RDMA_CM_EVENT_REJECTED, error 8":            "IB_CM_REJ_INVALID_SERVICE_ID",
		"cma event RDMA_CM_EVENT_REJECTED, error 28": "IB_CM_REJ_CONSUMER_DEFINED",
		"RDMA_CM_EVENT_ADDR_ERROR, error -19":        "ENODEV",
		"RDMA_CM_EVENT_ROUTE_ERROR status=-110":      "ETIMEDOUT",
		"RDMA_CM_EVENT_REJECTED, error 4711":         "not known here",
		"RDMA_CM_EVENT_UNREACHABLE, error 7":         "not known here",
	} {
		f, err := explain.Log(strings.NewReader(line))
		if err != nil || f == nil || len(f.Facts) == 0 || !strings.Contains(f.Facts[0].Means, want) {
			t.Errorf("%q: %+v, %v", line, f, err)
		}
	}
}

// Of a log, the first line that shows the most of the cause matters.
func TestLogs(t *testing.T) {
	for name, c := range map[string]struct {
		log    string
		line   int
		first  string
		facts  []string
		others int
	}{
		"perftest": {" Completion with error at client\n Failed status 12: wr_id 0 syndrom 0x81\nscnt=128, ccnt=0\n Failed to complete run_iter_bw function successfully\n",
			2, "IBV_WC_RETRY_EXC_ERR", []string{"status 12", "vendor error 129 (0x81)"}, 0},
		"a flush before its cause": {"work request 1: completion with status 5\nwork request 0: completion with status 10\n", 2, "IBV_WC_REM_ACCESS_ERR", []string{"status 10"}, 1},
		"NCCL": {"a:1:1 [0] NCCL INFO NET/IB : Using [0]mlx5_0:1/RoCE\r\n\x1b[31ma:1:1 [0] misc/ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_0:1, curr state INIT, next state RTR, local GID index 3, local GID ::ffff:192.0.2.1, remote GID ::ffff:192.0.2.2\x1b[0m\r\na:1:1 [0] NCCL INFO transport/net.cc:1302 -> 6\r\nncclSystemError: System call failed\r\n",
			2, "ibv_modify_qp to RTR: ETIMEDOUT",
			[]string{"errno 110", "device mlx5_0:1", "local GID ::ffff:192.0.2.1", "remote GID ::ffff:192.0.2.2",
				"GID index 3"}, 1},
		"mlx5 in user space": {"mlx5: host: got completion with error:\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00008813 08006214 0000f6d2\n",
			1, "IBV_WC_REM_ACCESS_ERR", []string{"syndrome 0x13", "vendor error 136 (0x88)", "operation 0x8",
				"queue pair 0x6214"}, 0},
		"mlx5 with time stamps": {"19:34:56 mlx5: host: got completion with error:\n19:34:56 00000000 00000000 00000000 00000000\n19:34:56 00000000 00000000 00000000 00000000\n19:34:56 00000002 00000000 00000000 00000000\n19:34:56 00000000 00008a12 1002a8af 0001a2d2\n",
			1, "IBV_WC_REM_INV_REQ_ERR", []string{"syndrome 0x12", "operation 0x10", "queue pair 0x2a8af"}, 0},
		"mlx5 in the kernel": {"[  408.380181] infiniband mlx5_0: dump_cqe:272:(pid 0): dump error cqe\n[  408.380187] 00000000: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n[  408.380189] 00000010: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n[  408.380191] 00000020: 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00\n[  408.380192] 00000030: 00 00 00 00 a9 00 56 04 00 00 01 e9 00 54 e8 e2\n",
			1, "IBV_WC_LOC_PROT_ERR", []string{"syndrome 0x4", "vendor error 86 (0x56)", "device mlx5_0"}, 0},
		"a dump in one line": {"mlx5: h: got completion with error: 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00008115 08006214 0000f6d2",
			1, "IBV_WC_RETRY_EXC_ERR", []string{"syndrome 0x15"}, 0},
	} {
		f, err := explain.Log(strings.NewReader(c.log))
		if err != nil || f == nil {
			t.Errorf("%s: %+v, %v", name, f, err)
			continue
		}
		if f.Number != c.line || f.Entries[0].Name != c.first || len(f.Others) != c.others ||
			f.Lines != strings.Count(strings.TrimRight(c.log, "\n"), "\n")+1 {
			t.Errorf("%s: line %d of %d, %s, others %v", name, f.Number, f.Lines, f.Entries[0].Name, f.Others)
		}
		for _, want := range c.facts {
			if !slices.ContainsFunc(f.Facts, func(fact explain.Fact) bool { return fact.Name+" "+fact.Value == want }) {
				t.Errorf("%s: no %s in %+v", name, want, f.Facts)
			}
		}
	}
}

// A long log keeps nothing but the lines that matter; a long line is cut.
func TestLongLogs(t *testing.T) {
	long := strings.Repeat("NCCL INFO Channel 00/04\n", 2000) + strings.Repeat("x", 100_000) +
		" IBV_WC_RETRY_EXC_ERR\nIBV_WC_REM_ACCESS_ERR"
	f, err := explain.Log(strings.NewReader(long))
	if err != nil || f == nil || f.Number != 2002 || f.Entries[0].Name != "IBV_WC_REM_ACCESS_ERR" ||
		len(f.Others) != 0 {
		t.Errorf("%+v, %v", f, err)
	}
	for _, none := range []string{"", "\n", "\n\n\n", "x", "all is well\n"} {
		if f, err := explain.Log(strings.NewReader(none)); f != nil || err != nil {
			t.Errorf("%q: %+v, %v", none, f, err)
		}
	}
}

// BenchmarkLog is a log of which nothing is known.
func BenchmarkLog(b *testing.B) {
	log := strings.Repeat("a:1:1 [0] NCCL INFO Channel 01 : 2[c7000] -> 0[87000] [receive] via NET/IB/5/GDRDMA\n", 1000)
	b.SetBytes(int64(len(log)))
	for b.Loop() {
		if f, err := explain.Log(strings.NewReader(log)); f != nil || err != nil {
			b.Fatal(f, err)
		}
	}
}

// FuzzLog checks that any log is read to its end, and that findings are complete.
func FuzzLog(f *testing.F) {
	for _, c := range corpus(f) {
		f.Add(c[1])
	}
	f.Add("")
	f.Add("\n")
	f.Add("mlx5: h: got completion with error:\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00000000 00000000 00000000\n00000000 00008813 08006214 0000f6d2\n")
	f.Add("dump error cqe\n00000030: 00 00 00 00 a9 00 56 04 00 00 01 e9 00 54 e8 e2\n")
	f.Fuzz(func(t *testing.T, log string) {
		found, err := explain.Log(strings.NewReader(log))
		if err != nil {
			t.Fatal(err)
		}
		if found == nil {
			return
		}
		if len(found.Entries) == 0 || found.Number < 1 || found.Number > found.Lines || len(found.Others) > 9 ||
			len(found.Line) > 4<<10 {
			t.Errorf("%+v", found)
		}
	})
}
