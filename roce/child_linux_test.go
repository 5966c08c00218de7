// SPDX-License-Identifier: Apache-2.0

package roce_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/umad"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// childVar has the address that a child process is to open.
const childVar = "RAMJET_TEST_SHARE"

// order is the work that a child is told to do, and report its result.
type order struct {
	Op      string // open, connect, send, receive, sendUD, receiveUD, claim, mad, quit
	Peer    verbs.Endpoint
	UD      verbs.QPN
	Count   int
	Service uint64
}

type report struct {
	Err      string
	Endpoint verbs.Endpoint
	UD       verbs.QPN
	IDs      uint32
	Progress bool // there is more to come
}

const (
	messageSize = 4096
	depth       = 64
	shareQKey   = verbs.QKey(0x1234)
)

// party is a device with an RC and a UD queue pair, in this process or in a child.
type party struct {
	dev     *verbs.Device
	agent   *umad.Agent
	pd      *verbs.PD
	cq, rcq *verbs.CQ
	mr      *verbs.MR
	rc, ud  *verbs.QP
	ep      verbs.Endpoint
	out     *json.Encoder
	ready   map[*verbs.QP]bool // the queue pairs whose receives are posted
}

func openParty(address string) (p *party, err error) {
	p = &party{ready: make(map[*verbs.QP]bool)}
	if p.dev, err = roce.Open(address, nil); err != nil {
		return nil, err
	}
	if p.agent, err = umad.Open(p.dev, 1, ib.QP1,
		umad.Spec{Class: mad.ClassCM, Methods: []mad.Method{mad.MethodSend}}); err != nil {
		return nil, err
	}
	if p.pd, err = p.dev.AllocPD(); err != nil {
		return nil, err
	}
	if p.cq, err = p.dev.CreateCQ(4*depth, nil); err != nil {
		return nil, err
	}
	if p.rcq, err = p.dev.CreateCQ(4*depth, nil); err != nil {
		return nil, err
	}
	if p.mr, err = p.pd.RegMR(make([]byte, 2*depth*messageSize), verbs.LocalWrite); err != nil {
		return nil, err
	}
	if p.rc, err = p.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: p.cq, RecvCQ: p.rcq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth}}); err != nil {
		return nil, err
	}
	if p.ud, err = p.pd.CreateQP(verbs.QPInit{Type: verbs.UD, SendCQ: p.cq, RecvCQ: p.rcq,
		Cap: verbs.QPCap{MaxSendWR: depth, MaxRecvWR: depth}}); err != nil {
		return nil, err
	}
	if err = p.ud.StartUD(shareQKey); err != nil {
		return nil, err
	}
	p.ep, err = p.rc.Endpoint(0)
	return p, err
}

// stamp fills a message with bytes that tell all messages apart.
func stamp(b []byte, n int) {
	for i := range b {
		b[i] = byte(i*7 + n*131 + n>>8)
	}
}

// do carries out an order.
func (p *party) do(ctx context.Context, o *order) error {
	switch o.Op {
	case "connect":
		return p.rc.Connect(p.ep, o.Peer, &verbs.ConnectOptions{Timeout: 20, RetryCount: 7, RNRRetry: 7})
	case "send":
		return p.send(ctx, o, nil)
	case "sendUD":
		ah, err := p.pd.CreateAH(verbs.AHAttr{DGID: o.Peer.GID})
		if err != nil {
			return err
		}
		return p.send(ctx, o, ah)
	case "receive":
		return p.receive(ctx, o.Count, p.rc, 0)
	case "receiveUD":
		return p.receive(ctx, o.Count, p.ud, 40)
	case "claim":
		return p.agent.Claim(o.Service, ^uint64(0))
	case "mad":
		for b := make([]byte, umad.Len); ; { // on ::1 other programs' may come, too
			if _, _, err := p.agent.Recv(ctx, b); err != nil || string(b) == string(request(o.Service)) {
				return err
			}
		}
	}
	return fmt.Errorf("%s?", o.Op)
}

func (p *party) send(ctx context.Context, o *order, ah *verbs.AH) error {
	var wc [depth]verbs.WC
	posted := 0
	for done := 0; done < o.Count; {
		for ; posted < o.Count && posted-done < depth; posted++ {
			off := posted % depth * messageSize
			n := messageSize
			wr := verbs.SendWR{Op: verbs.OpSend, Flags: verbs.Signaled}
			qp := p.rc
			if ah != nil {
				n = 1000
				wr.AH, wr.RemoteQPN, wr.RemoteQKey = ah, o.UD, shareQKey
				qp = p.ud
			}
			p.mr.Do(func(b []byte) { stamp(b[off:off+n], posted) })
			wr.SGL = []verbs.SGE{p.mr.SGE(off, n)}
			if err := qp.PostSend(&wr); err != nil {
				return err
			}
		}
		n, err := p.cq.Wait(ctx, wc[:])
		if err != nil {
			return fmt.Errorf("after %d messages: %w", done, err)
		}
		for _, w := range wc[:n] {
			if w.Status != verbs.StatusSuccess {
				return fmt.Errorf("message %d: %v", done, w.Status)
			}
			done++
		}
	}
	return nil
}

// receive takes messages and checks them. It reports twice before: when receives are
// posted, and after a quarter of the messages.
func (p *party) receive(ctx context.Context, count int, qp *verbs.QP, skip int) error {
	const base = depth * messageSize
	post := func(i int) error {
		return qp.PostRecv(&verbs.RecvWR{ID: uint64(i), SGL: []verbs.SGE{p.mr.SGE(base+i*messageSize, messageSize)}})
	}
	for i := range depth {
		if p.ready[qp] {
			break
		}
		if err := post(i); err != nil {
			return err
		}
	}
	p.ready[qp] = true
	p.out.Encode(report{Progress: true})
	var wc [depth]verbs.WC
	want := make([]byte, messageSize)
	for done := 0; done < count; {
		n, err := p.rcq.Wait(ctx, wc[:])
		if err != nil {
			return fmt.Errorf("after %d messages: %w", done, err)
		}
		for _, w := range wc[:n] {
			if w.Status != verbs.StatusSuccess {
				return fmt.Errorf("message %d: %v", done, w.Status)
			}
			stamp(want[:int(w.ByteLen)-skip], done)
			same := false
			p.mr.Do(func(b []byte) {
				b = b[base+int(w.ID)*messageSize:]
				same = string(b[skip:w.ByteLen]) == string(want[:int(w.ByteLen)-skip])
			})
			if !same {
				return fmt.Errorf("message %d of %d bytes is not what was sent", done, w.ByteLen)
			}
			if err := post(int(w.ID)); err != nil {
				return err
			}
			if done++; done == count/4 {
				p.out.Encode(report{Progress: true})
			}
		}
	}
	return nil
}

// TestChild is the body of child processes.
func TestChild(t *testing.T) {
	address := os.Getenv(childVar)
	if address == "" {
		t.Skip("for child processes of other tests")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	out := json.NewEncoder(os.NewFile(3, "reports"))
	p, err := openParty(address)
	if err != nil {
		out.Encode(report{Err: err.Error()})
		return
	}
	p.out = out
	base, _ := p.agent.IDs()
	out.Encode(report{Endpoint: p.ep, UD: p.ud.Num(), IDs: base})
	in := json.NewDecoder(os.Stdin)
	for {
		var o order
		if in.Decode(&o) != nil {
			p.dev.Close()
			return
		}
		var r report
		if err := p.do(ctx, &o); err != nil {
			r.Err = err.Error()
		}
		out.Encode(r)
	}
}

// child is a process with a party.
type child struct {
	t    *testing.T
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *json.Decoder
	open report
}

// startChild starts a process that opens an address, as another user if attr says so.
func startChild(t *testing.T, address string, attr *syscall.SysProcAttr) *child {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if attr != nil {
		exe = readable(t, exe)
	}
	cmd := exec.Command(exe, "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childVar+"="+address)
	cmd.ExtraFiles = []*os.File{w}
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Skipf("no child process: %v", err)
	}
	c := &child{t: t, cmd: cmd, in: in, out: json.NewDecoder(bufio.NewReader(r))}
	t.Cleanup(func() {
		in.Close()
		c.kill()
		r.Close()
	})
	c.open = c.wait()
	return c
}

// readable copies a program to where every user can run it.
func readable(t *testing.T, exe string) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "ramjet")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	b, err := os.ReadFile(exe)
	if err == nil {
		err = os.Chmod(dir, 0o755)
	}
	if err == nil {
		err = os.WriteFile(dir+"/test", b, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir + "/test"
}

// wait returns the child's next report.
func (c *child) wait() (r report) {
	c.t.Helper()
	timer := time.AfterFunc(3*time.Minute, func() { c.cmd.Process.Kill() })
	defer timer.Stop()
	if err := c.out.Decode(&r); err != nil {
		c.t.Fatalf("child %d: %v", c.cmd.Process.Pid, err)
	}
	return r
}

func (c *child) tell(o order) {
	c.t.Helper()
	if err := json.NewEncoder(c.in).Encode(o); err != nil {
		c.t.Fatal(err)
	}
}

// ok waits for a report of success; more: that there is more to come.
func (c *child) ok(more bool) {
	c.t.Helper()
	if r := c.wait(); r.Err != "" || r.Progress != more {
		c.t.Fatalf("child %d reports %+v", c.cmd.Process.Pid, r)
	}
}

func (c *child) signal(s syscall.Signal) {
	c.t.Helper()
	if err := c.cmd.Process.Signal(s); err != nil {
		c.t.Fatal(err)
	}
}

// stop stops the process, and returns when none of its threads runs any more.
func (c *child) stop() {
	c.t.Helper()
	c.signal(syscall.SIGSTOP)
	tasks := fmt.Sprintf("/proc/%d/task/*/stat", c.cmd.Process.Pid)
	for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		stats, err := filepath.Glob(tasks)
		if err != nil {
			c.t.Fatal(err)
		}
		if !slices.ContainsFunc(stats, func(path string) bool {
			stat, err := os.ReadFile(path)
			_, state, _ := strings.Cut(string(stat), ") ") // behind the name, proc_pid_stat(5)
			return err == nil && !strings.HasPrefix(state, "T")
		}) {
			return
		}
		if time.Now().After(end) {
			c.t.Fatal("the process does not stop")
		}
	}
}

func (c *child) kill() {
	c.cmd.Process.Kill()
	c.cmd.Wait()
}

// joinChildren connects the RC queue pairs of two children.
func joinChildren(a, b *child) {
	a.t.Helper()
	a.tell(order{Op: "connect", Peer: b.open.Endpoint})
	a.ok(false)
	b.tell(order{Op: "connect", Peer: a.open.Endpoint})
	b.ok(false)
}

// transfer sends messages from one child to another, and calls meanwhile in their midst.
func transfer(a, b *child, count int, kind string, meanwhile func()) {
	a.t.Helper()
	b.tell(order{Op: "receive" + kind, Count: count})
	b.ok(true)
	a.tell(order{Op: "send" + kind, Count: count, Peer: b.open.Endpoint, UD: b.open.UD})
	b.ok(true)
	meanwhile()
	b.ok(false)
	a.ok(false)
}
