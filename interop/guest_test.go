// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// The addresses of the links, which pair.sh sets: RoCEv2's and iWARP's.
var (
	hostIPv4  = os.Getenv("PEERVM_HOST4")
	hostIPv6  = os.Getenv("PEERVM_HOST6")
	guestIPv4 = os.Getenv("PEERVM_GUEST4")
	guestIPv6 = os.Getenv("PEERVM_GUEST6")

	iwHostIPv4  = os.Getenv("PEERVM_IWHOST4")
	iwHostIPv6  = os.Getenv("PEERVM_IWHOST6")
	iwGuestIPv4 = os.Getenv("PEERVM_IWGUEST4")
	iwGuestIPv6 = os.Getenv("PEERVM_IWGUEST6")
)

const (
	controlPort    = "7471"
	commandTimeout = time.Minute     // how long the guest may take where a command says nothing else
	waitTimeout    = 2 * time.Minute // how long a side waits for completions
	answerSlack    = 2 * time.Minute // how much later its answer may come: it bounds itself sooner
)

// guest is one control connection to the guest. Each has its own objects there.
type guest struct {
	t       testing.TB
	conn    net.Conn
	answers *bufio.Reader
	address string // of its device on the link
	calls   int
}

// args are the arguments of a command.
type args map[string]any

// guestError is a command that the guest could not carry out.
type guestError struct {
	Text  string `json:"error"`
	Errno string `json:"errno"` // as "EINVAL"; empty where there is none
}

func (e *guestError) Error() string { return fmt.Sprintf("guest: %s (errno %q)", e.Text, e.Errno) }

// guestGone is set once the guest's kernel does not answer any more, or its connection manager reaches no
// host, not even the guest itself. No other test waits for it then.
var guestGone atomic.Bool

// TestMain tells run.sh that the guest is to be booted again.
func TestMain(m *testing.M) {
	code := m.Run()
	if guestGone.Load() {
		code = 5
	}
	os.Exit(code)
}

// checkConnects looks, after a test that failed, whether the guest's rxe still connects to itself: now and then its
// queue pair 1 sends nothing any more, in no direction, until it is booted again.
func (g *guest) checkConnects() {
	const port = 7998
	ping := []string{"rping", "-a", guestIPv4, "-p", strconv.Itoa(port), "-C", "2"}
	j := &job{g: g}
	if err := g.try("spawn", args{"argv": append(ping, "-s"), "cm_listen": port}, j); err != nil {
		return
	}
	var client jobResult
	err := g.try("run", args{"argv": append(ping, "-c"), "timeout_ms": commandTimeout}, &client)
	g.try("wait", args{"job": j.Handle, "timeout_ms": time.Second}, nil) // and kills it
	if err == nil && client.Exit != 0 {
		guestGone.Store(true)
		g.t.Logf("the guest's rxe does not connect to itself any more:\n%s", client.Output)
	}
}

// dialGuest opens a control connection that is closed when the test ends.
func dialGuest(t testing.TB, ipv6 bool) *guest {
	t.Helper()
	if guestIPv4 == "" {
		t.Fatal("no guest: these tests run under interop/run.sh")
	}
	if guestGone.Load() {
		t.Fatal("the guest had stopped before this test")
	}
	conn, err := net.DialTimeout("tcp", net.JoinHostPort(guestIPv4, controlPort), answerSlack)
	if err != nil {
		guestGone.Store(true)
		t.Fatalf("the guest's kernel does not answer: %v", err)
	}
	g := &guest{t: t, conn: conn, answers: bufio.NewReader(conn), address: guestIPv4}
	t.Cleanup(func() {
		if t.Failed() && !guestGone.Load() {
			g.checkConnects()
		}
		conn.Close()
	})
	if ipv6 {
		g.address = guestIPv6
	}
	return g
}

func openGuest(t testing.TB, l link) side { return dialGuest(t, l.ipv6) }

// try carries out a command and stores its answer in answer, unless that is nil.
func (g *guest) try(cmd string, a args, answer any) error {
	g.t.Helper()
	g.calls++
	request := args{"id": g.calls, "cmd": cmd}
	limit := commandTimeout
	for k, v := range a {
		if d, ok := v.(time.Duration); ok {
			limit, v = d, d.Milliseconds()
		}
		request[k] = v
	}
	line, err := json.Marshal(request)
	if err != nil {
		g.t.Fatal(err)
	}
	g.conn.SetDeadline(time.Now().Add(limit + answerSlack))
	if _, err := g.conn.Write(append(line, '\n')); err != nil {
		g.t.Fatalf("%s: %v", cmd, err)
	}
	line, err = g.answers.ReadBytes('\n')
	if err != nil {
		g.t.Fatalf("%s: %v", cmd, err)
	}
	var head struct {
		ID int `json:"id"`
		guestError
	}
	if err := json.Unmarshal(line, &head); err != nil || head.ID != g.calls {
		g.t.Fatalf("%s: answer %q: %v", cmd, line, err)
	}
	if head.Text != "" {
		return &head.guestError
	}
	if answer != nil {
		if err := json.Unmarshal(line, answer); err != nil {
			g.t.Fatalf("%s: answer %q: %v", cmd, line, err)
		}
	}
	return nil
}

// call is try for commands that must succeed.
func (g *guest) call(cmd string, a args, answer any) {
	g.t.Helper()
	if err := g.try(cmd, a, answer); err != nil {
		g.t.Fatalf("%s %v: %v", cmd, a, err)
	}
}

// names splits the text of flags of package verbs.
func names(flags fmt.Stringer) []string {
	if s := flags.String(); s != "none" {
		return strings.Split(s, "|")
	}
	return []string{}
}

func (g *guest) name() string { return "rxe" }

// guestRegion is a memory region in the guest.
type guestRegion struct {
	g      *guest
	Handle string    `json:"mr"`
	Addr   uint64    `json:"addr"`
	LKey   verbs.Key `json:"lkey"`
	RKey   verbs.Key `json:"rkey"`
}

func (g *guest) region(size int, access verbs.Access) region {
	g.t.Helper()
	r := &guestRegion{g: g}
	g.call("mr_reg", args{"size": size, "access": names(access)}, r)
	return r
}

func (r *guestRegion) remote() verbs.Remote { return verbs.Remote{Addr: r.Addr, Key: r.RKey} }

func (r *guestRegion) sge(off, n int) verbs.SGE {
	return verbs.SGE{Addr: r.Addr + uint64(off), Length: uint32(n), LKey: r.LKey}
}

func (r *guestRegion) fill(seed byte, off, n int) {
	r.g.t.Helper()
	r.g.call("mr_fill", args{"mr": r.Handle, "seed": seed, "off": off, "len": n}, nil)
}

func (r *guestRegion) differs(seed byte, off, n int) int {
	r.g.t.Helper()
	var answer struct {
		At int `json:"differs_at"`
	}
	r.g.call("mr_check", args{"mr": r.Handle, "seed": seed, "off": off, "len": n}, &answer)
	return answer.At
}

func (r *guestRegion) bytes(off, n int) []byte {
	r.g.t.Helper()
	var answer struct{ Hex string }
	r.g.call("mr_read", args{"mr": r.Handle, "off": off, "len": n}, &answer)
	b, err := hex.DecodeString(answer.Hex)
	if err != nil || len(b) != n {
		r.g.t.Fatalf("mr_read: %d of %d bytes: %v", len(b), n, err)
	}
	return b
}

func (r *guestRegion) set(off int, b []byte) {
	r.g.t.Helper()
	r.g.call("mr_write", args{"mr": r.Handle, "off": off, "hex": hex.EncodeToString(b)}, nil)
}

// guestWindow is a memory window in the guest.
type guestWindow struct {
	typ    verbs.MWType
	Handle string    `json:"mw"`
	RKey   verbs.Key `json:"rkey"`
}

func (g *guest) window(typ verbs.MWType) window {
	g.t.Helper()
	w := &guestWindow{typ: typ}
	g.call("mw_alloc", args{"type": typ}, w)
	return w
}

// guestSRQ is a shared receive queue in the guest.
type guestSRQ struct {
	g      *guest
	Handle string `json:"srq"`
}

func (g *guest) sharedQueue() recvQueue {
	g.t.Helper()
	s := &guestSRQ{g: g}
	g.call("srq_create", nil, s)
	return s
}

func (s *guestSRQ) recv(wrs ...verbs.RecvWR) {
	s.g.t.Helper()
	s.g.postRecv(s.Handle, wrs)
}

func (g *guest) postRecv(to string, wrs []verbs.RecvWR) {
	g.t.Helper()
	list := make([]args, 0, len(wrs))
	for _, wr := range wrs {
		list = append(list, args{"wr_id": wr.ID, "sge": sgeTriples(wr.SGL)})
	}
	g.call("post_recv", args{"to": to, "wrs": list}, nil)
}

func sgeTriples(sgl []verbs.SGE) [][3]uint64 {
	triples := make([][3]uint64, 0, len(sgl))
	for _, s := range sgl {
		triples = append(triples, [3]uint64{s.Addr, uint64(s.Length), uint64(s.LKey)})
	}
	return triples
}

// guestQueue is a queue pair in the guest.
type guestQueue struct {
	g      *guest
	typ    verbs.QPType
	Handle string    `json:"qp"`
	QPN    verbs.QPN `json:"qpn"`
	PSN    verbs.PSN `json:"psn"`
	GID    string    `json:"gid"`
}

func (g *guest) queue(init queueInit) queue {
	g.t.Helper()
	q := &guestQueue{g: g, typ: init.typ}
	a := args{"type": init.typ.String(), "address": g.address, "access": names(init.access), "qkey": init.qkey}
	if init.srq != nil {
		a["srq"] = init.srq.(*guestSRQ).Handle
	}
	g.call("qp_create", a, q)
	return q
}

func (q *guestQueue) recv(wrs ...verbs.RecvWR) {
	q.g.t.Helper()
	q.g.postRecv(q.Handle, wrs)
}

func (q *guestQueue) endpoint() verbs.Endpoint {
	return verbs.Endpoint{QPN: q.QPN, PSN: q.PSN, GID: mustGID(q.g.t, q.GID), MTU: verbs.MTU4096}
}

func (q *guestQueue) connect(remote verbs.Endpoint, opt verbs.ConnectOptions) {
	q.g.t.Helper()
	a := args{"qp": q.Handle}
	if q.typ != verbs.UD {
		a["qpn"], a["psn"], a["gid"] = remote.QPN, remote.PSN, gidText(remote.GID)
		a["path_mtu"] = opt.MTU.Bytes()
	}
	for name, v := range map[string]uint8{"timeout": opt.Timeout, "retry_cnt": opt.RetryCount,
		"rnr_retry": opt.RNRRetry, "min_rnr_timer": opt.MinRNRTimer, "max_rd_atomic": opt.RdAtomic,
		"max_dest_rd_atomic": opt.RdAtomic} {
		if v != 0 {
			a[name] = v
		}
	}
	q.g.call("qp_connect", a, nil)
}

// mustGID returns the GID that s writes, or the one of the IP address s.
func mustGID(t testing.TB, s string) verbs.GID {
	t.Helper()
	a, err := netip.ParseAddr(s)
	if err != nil {
		t.Fatal(err)
	}
	return a.As16()
}

func gidText(gid verbs.GID) string { return netip.AddrFrom16(gid).String() }

func (q *guestQueue) send(works ...work) {
	q.g.t.Helper()
	list := make([]args, 0, len(works))
	for _, w := range works {
		a := args{"wr_id": w.ID, "op": w.Op.String(), "flags": names(w.Flags), "sge": sgeTriples(w.SGL), "imm": w.Imm,
			"invalidate_rkey": w.InvKey, "remote_addr": w.Remote.Addr, "rkey": w.Remote.Key, "compare": w.Compare,
			"swap": w.Swap | w.Add, "length": w.FlushLen}
		if w.Inline != nil {
			a["inline"] = hex.EncodeToString(w.Inline)
		}
		if q.typ == verbs.UD {
			a["gid"], a["qpn"], a["qkey"] = gidText(w.to), w.RemoteQPN, w.RemoteQKey
		}
		if w.Op == verbs.OpFlush {
			a["placement"] = flushLevels(w.FlushLevel)
			a["selectivity"] = map[verbs.FlushScope]string{verbs.FlushRange: "RANGE",
				verbs.FlushRegion: "MR"}[w.FlushScope]
		}
		list = append(list, a)
	}
	q.g.call("post_send", args{"qp": q.Handle, "wrs": list}, nil)
}

func flushLevels(level verbs.FlushLevel) (list []string) {
	if level&verbs.FlushToGlobal != 0 {
		list = append(list, "GLOBAL")
	}
	if level&verbs.FlushToPersistent != 0 {
		list = append(list, "PERSISTENT")
	}
	return list
}

func (q *guestQueue) bind(id uint64, w window, r region, off, n int, access verbs.Access) verbs.Key {
	q.g.t.Helper()
	win := w.(*guestWindow)
	a := args{"wr_id": id, "mw": win.Handle, "mr": r.(*guestRegion).Handle, "off": off, "length": n,
		"access": names(access)}
	if win.typ == verbs.MWType1 {
		a["qp"] = q.Handle
		q.g.call("bind_mw1", a, win)
	} else {
		a["op"], a["flags"] = "BIND_MW", []string{"SIGNALED"}
		q.g.call("post_send", args{"qp": q.Handle, "wrs": []args{a}}, win)
	}
	want(q.g.t, q.wait(1)[0], id, verbs.WCBindMW)
	return win.RKey
}

func (q *guestQueue) wait(n int) []verbs.WC {
	q.g.t.Helper()
	wcs := q.poll(n, waitTimeout)
	if len(wcs) < n {
		q.g.t.Fatalf("%d completions of %d: %v", len(wcs), n, wcs)
	}
	return wcs
}

// poll returns the completions that come in time, at most n.
func (q *guestQueue) poll(n int, limit time.Duration) []verbs.WC {
	q.g.t.Helper()
	var answer struct {
		WCs []struct {
			ID        uint64 `json:"wr_id"`
			Status    string
			Opcode    string
			QPN       verbs.QPN
			SrcQP     verbs.QPN `json:"src_qp"`
			ByteLen   uint32    `json:"byte_len"`
			Imm       *uint32
			InvKey    *verbs.Key `json:"invalidated_rkey"`
			GRH       bool
			VendorErr uint32 `json:"vendor_err"`
		}
	}
	q.g.call("poll", args{"qp": q.Handle, "count": n, "timeout_ms": limit}, &answer)
	wcs := make([]verbs.WC, 0, n)
	for _, in := range answer.WCs {
		wc := verbs.WC{ID: in.ID, QPN: in.QPN, SrcQPN: in.SrcQP, ByteLen: in.ByteLen, VendorErr: in.VendorErr}
		status, ok := wcStatus[in.Status]
		if !ok {
			q.g.t.Fatalf("completion status %q", in.Status)
		}
		wc.Status = status
		if wc.Status == verbs.StatusSuccess {
			if wc.Op, ok = wcOps[in.Opcode]; !ok {
				q.g.t.Fatalf("completion opcode %q", in.Opcode)
			}
		}
		if in.Imm != nil {
			wc.Flags, wc.Imm = wc.Flags|verbs.WithImm, *in.Imm
		}
		if in.InvKey != nil {
			wc.Flags, wc.InvKey = wc.Flags|verbs.WithInv, *in.InvKey
		}
		if in.GRH {
			wc.Flags |= verbs.WithGRH
		}
		wcs = append(wcs, wc)
	}
	return wcs
}

func (q *guestQueue) state() verbs.QPState {
	q.g.t.Helper()
	var answer struct{ State string }
	q.g.call("qp_state", args{"qp": q.Handle}, &answer)
	for s := verbs.StateReset; s <= verbs.StateError; s++ {
		if s.String() == answer.State {
			return s
		}
	}
	q.g.t.Fatalf("queue pair state %q", answer.State)
	return 0
}

// wcStatus has the names of libibverbs without IBV_WC_.
var wcStatus = map[string]verbs.Status{
	"SUCCESS": verbs.StatusSuccess, "LOC_LEN_ERR": verbs.StatusLocalLengthError,
	"LOC_QP_OP_ERR": verbs.StatusLocalQPOperationError,
	"LOC_PROT_ERR":  verbs.StatusLocalProtectionError, "WR_FLUSH_ERR": verbs.StatusWRFlushError,
	"MW_BIND_ERR": verbs.StatusMWBindError, "BAD_RESP_ERR": verbs.StatusBadResponseError,
	"LOC_ACCESS_ERR":  verbs.StatusLocalAccessError,
	"REM_INV_REQ_ERR": verbs.StatusRemoteInvalidRequestError, "REM_ACCESS_ERR": verbs.StatusRemoteAccessError,
	"REM_OP_ERR": verbs.StatusRemoteOperationError, "RETRY_EXC_ERR": verbs.StatusRetryExceeded,
	"RNR_RETRY_EXC_ERR": verbs.StatusRNRRetryExceeded, "REM_ABORT_ERR": verbs.StatusRemoteAbortedError,
	"FATAL_ERR": verbs.StatusFatalError, "RESP_TIMEOUT_ERR": verbs.StatusResponseTimeoutError,
	"GENERAL_ERR": verbs.StatusGeneralError,
}

// wcOps has the names of libibverbs without IBV_WC_, which are also package verbs'.
var wcOps = func() map[string]verbs.WCOp {
	ops := map[string]verbs.WCOp{}
	for op := verbs.WCSend; op <= verbs.WCRecvWriteImm; op++ {
		ops[op.String()] = op
	}
	return ops
}()
