// SPDX-License-Identifier: Apache-2.0

package ramjet_test

import (
	"context"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// untimed returns a log without times and process ids.
func untimed(log *testrun.Buffer) string {
	return regexp.MustCompile(`(?m)^\d+ [\d:.]+ | <[\d.]+>$`).ReplaceAllString(log.String(), "")
}

// openLogged opens a device whose calls are logged.
func openLogged(t *testing.T, filter string) (*verbs.Device, *testrun.Buffer) {
	t.Helper()
	log := &testrun.Buffer{}
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
		return ramjet.Open("roce:"+addr, ramjet.WithCallLog(log, filter))
	})
	return dev, log
}

// TestCallLog: a program's calls are in the log, with arguments and results by name, one line each.
func TestCallLog(t *testing.T) {
	dev, log := openLogged(t, "data")
	pd, err := dev.AllocPD()
	if err != nil {
		t.Fatal(err)
	}
	mr, err := pd.RegMR(make([]byte, 4096), verbs.LocalWrite|verbs.RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pd.RegMR(make([]byte, 64), verbs.RemoteWrite); err == nil {
		t.Fatal("RemoteWrite without LocalWrite")
	}
	cq, err := dev.CreateCQ(16, nil)
	if err != nil {
		t.Fatal(err)
	}
	qp, err := pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: cq, RecvCQ: cq})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := qp.Endpoint(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := qp.Connect(ep, ep, nil); err != nil {
		t.Fatal(err)
	}
	if err := qp.PostSend(&verbs.SendWR{ID: 7, Op: verbs.OpWrite, Flags: verbs.Signaled, SGL: []verbs.SGE{mr.SGE(0, 8)},
		Remote: mr.Remote().At(64)}); err != nil {
		t.Fatal(err)
	}
	var wcs [4]verbs.WC
	if _, err := cq.Wait(t.Context(), wcs[:]); err != nil {
		t.Fatal(err)
	}
	if err := qp.Modify(verbs.QPAttr{State: verbs.StateRTS, DestQPN: 1},
		verbs.MaskState|verbs.MaskDestQPN); err == nil {
		t.Fatal("DestQPN has changed")
	}
	id, err := cm.NewID(cm.NewEventChannel(), dev, cm.TCP)
	if err != nil {
		t.Fatal(err)
	}
	id.Listen(1)
	id.Close()
	qp.Close()
	mr.Close()
	pd.Close()
	text := untimed(log)
	for _, want := range []string{
		`ibv_alloc_pd\(context=roce:127\.\S+\) = pd1`,
		`ibv_reg_mr\(pd=pd1, addr=0x\w+, length=4096, access=IBV_ACCESS_LOCAL_WRITE\|IBV_ACCESS_REMOTE_WRITE, lkey=0x\w+, rkey=0x\w+\) = mr1`,
		`ibv_reg_mr\(pd=pd1, addr=0x\w+, length=64, access=IBV_ACCESS_REMOTE_WRITE\) = -1 EINVAL \(verbs: reg_mr: invalid argument: .*\)`,
		`ibv_create_cq\(context=roce:\S+, cqe=16, channel=NULL\) = cq1`,
		`ibv_create_qp\(pd=pd1, attr=\{qp_type=IBV_QPT_RC, send_cq=cq1, recv_cq=cq1, srq=NULL, cap=\{max_send_wr=0, .*\}, sq_sig_all=false\}, qp_num=0x\w+, device=roce:\S+, gids=\[::ffff:127\.\S+\]\) = qp1`,
		`ibv_modify_qp\(qp=qp1, attr=\{qp_state=IBV_QPS_RTR, ah_attr=\{.*\}, path_mtu=IBV_MTU_\d+, dest_qp_num=0x.*\}, attr_mask=IBV_QP_STATE\|IBV_QP_AV\|.*IBV_QP_DEST_QPN\) = 0`,
		`ibv_post_send\(qp=qp1, wr=\[\{wr_id=0x7, opcode=IBV_WR_RDMA_WRITE, send_flags=IBV_SEND_SIGNALED, sg_list=\[\{addr=0x\w+, length=8, lkey=0x\w+\}\], remote_addr=0x\w+, rkey=0x\w+\}\]\) = 0`,
		`ibv_poll_cq\(cq=cq1, wc=\[\{wr_id=0x7, status=IBV_WC_SUCCESS, opcode=IBV_WC_RDMA_WRITE, byte_len=\d+, qp_num=0x\w+\}\]\) = 1`,
		`ibv_modify_qp\(qp=qp1, attr=\{qp_state=IBV_QPS_RTS, dest_qp_num=0x1\}, attr_mask=IBV_QP_STATE\|IBV_QP_DEST_QPN\) = -1 EINVAL \(.*\)`,
		`rdma_create_id\(ps=RDMA_PS_TCP\) = id1`,
		`rdma_listen\(id=id1, backlog=1\) = 0`,
		`rdma_destroy_id\(id=id1\) = 0`,
		`ibv_destroy_qp\(qp=qp1\) = 0`,
		`ibv_dereg_mr\(mr=mr1\) = 0`,
		`ibv_dealloc_pd\(pd=pd1\) = 0`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(text) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.Contains(line, "?0x") {
			t.Errorf("an object is not known: %s", line)
		}
	}
}

// TestCallLogFilter: only the filter's calls are logged, and a wrong filter is an error when the device is opened.
func TestCallLogFilter(t *testing.T) {
	dev, log := openLogged(t, "errors object=pd2")
	for range 2 {
		pd, err := dev.AllocPD()
		if err != nil {
			t.Fatal(err)
		}
		pd.RegMR(make([]byte, 64), verbs.RemoteWrite)
	}
	if text := untimed(log); strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "ibv_reg_mr(pd=pd2, ") {
		t.Errorf("%s", text)
	}
	_, err := ramjet.Open("roce:"+loopback.Next().String(), ramjet.WithCallLog(log, "eror"))
	if err == nil || !strings.Contains(err.Error(), `filter of calls: column 1: "eror": expected a call`) ||
		!strings.Contains(err.Error(), "did you mean errors?") {
		t.Error(err)
	}
}

// TestCallLogConnection: both sides of a connection are logged, and its events.
func TestCallLogConnection(t *testing.T) {
	server, _ := openLogged(t, "")
	client, log := openLogged(t, "rdma_*")
	l, err := cm.Listen(t.Context(), server, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go l.Accept(t.Context())
	conn, err := cm.Dial(t.Context(), client, l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()
	for deadline := time.Now().Add(time.Minute); !strings.Contains(untimed(log), "rdma_destroy_id(") &&
		time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	text := untimed(log)
	for _, want := range []string{
		`rdma_resolve_addr\(id=id1, .*dst_addr=` + regexp.QuoteMeta(l.Addr().String()) + `, timeout_ms=\d+\) = 0`,
		`rdma_get_cm_event\(event=\{type=RDMA_CM_EVENT_ADDR_RESOLVED, id=id1\}\) = 0`,
		`rdma_create_qp\(id=id1, attr=\{qp_type=.*\}, qp=qp1, qp_num=0x\w+\) = 0`,
		`rdma_connect\(id=id1, conn_param=\{private_data_len=\d+, .*\}\) = 0`,
		`rdma_get_cm_event\(event=\{type=RDMA_CM_EVENT_ESTABLISHED, id=id1, src_addr=127\.\S+, dst_addr=` +
			regexp.QuoteMeta(l.Addr().String()) + `\}\) = 0`,
		`rdma_destroy_id\(id=id1\) = 0`,
	} {
		if !regexp.MustCompile(`(?m)^` + want + `$`).MatchString(text) {
			t.Errorf("there is no %s in\n%s", want, text)
		}
	}
}

// TestCallLogWait: the call that waits for an event of a connection manager begins as the wait does, and is logged if
// no event comes.
func TestCallLogWait(t *testing.T) {
	dev, log := openLogged(t, "rdma_get_cm_event enter")
	events := cm.NewEventChannel()
	id, err := cm.NewID(events, dev, cm.TCP)
	if err != nil {
		t.Fatal(err)
	}
	defer id.Close()
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan error)
	go func() { _, err := events.Get(ctx); got <- err }()
	for deadline := time.Now().Add(time.Minute); log.String() == "" && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	const waited = 20 * time.Millisecond
	time.Sleep(waited)
	cancel()
	if err := <-got; err == nil {
		t.Fatal("an event")
	}
	m := regexp.MustCompile(`^\d+ [\d:.]+ rdma_get_cm_event\( \.\.\.\n` +
		`\d+ [\d:.]+ rdma_get_cm_event\(\) = -1 ECANCELED \(context canceled\) <([\d.]+)>\n$`).FindStringSubmatch(
		log.String())
	if m == nil {
		t.Fatal(log.String())
	}
	if took, err := time.ParseDuration(m[1] + "s"); err != nil || took < waited {
		t.Errorf("%v, %v", took, err)
	}
}
