// SPDX-License-Identifier: Apache-2.0

//go:build interop

package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/testkit/exercise"
	_ "github.com/ramjet-rdma/ramjet/kernel" // devices of the kernel
)

// An agent is this test binary where a test needs Ramjet in another process: in the guest, on devices of the
// kernel, or on this host, to be killed. Each of its control connections has a process of its own, whose objects
// go away when the connection closes.
var (
	agentAddress = flag.String("agent", "", "be an agent, and listen at this address")
	agentServe   = flag.Bool("agent.serve", false, "serve the control connection that is descriptor 3")
)

const agentPort = "7479" // no other program of the guest listens at it, as iWARP's ports are TCP's

// agentRequest is a line of JSON, and so is its answer. Names of devices are for ramjet.Open.
type agentRequest struct {
	Do     string // serve, exercise, bulk, receive, ended, shell
	Device string
	IP     netip.Addr // the servers', or the device's
	Port   uint16
	Shell  string
}

type agentAnswer struct {
	Error   string            `json:",omitempty"`
	Results map[string]string `json:",omitempty"` // exercise: by name; empty: it went well
	Bulk    bulkResult
	Output  string `json:",omitempty"`
}

// TestAgent is no test: an agent runs it.
func TestAgent(t *testing.T) {
	switch {
	case *agentServe:
		f := os.NewFile(3, "control")
		conn, err := net.FileConn(f)
		must(t, conn, err)
		f.Close()
		serveAgent(t, conn)
	case *agentAddress != "":
		l, err := net.Listen("tcp", *agentAddress)
		must(t, l, err)
		fmt.Println("agent: ready at", l.Addr())
		for {
			conn, err := l.Accept()
			must(t, conn, err)
			f, err := conn.(*net.TCPConn).File()
			must(t, f, err)
			conn.Close()
			c := exec.Command(os.Args[0], "-test.run=^TestAgent$", "-agent.serve", "-test.timeout=10m")
			c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{f}, os.Stdout, os.Stderr
			must(t, c, c.Start())
			f.Close()
			go c.Wait()
		}
	default:
		t.Skip("an agent is started with -agent")
	}
}

// serveAgent carries out requests until the connection ends, and ends the process with it.
func serveAgent(t *testing.T, conn net.Conn) {
	requests := make(chan agentRequest)
	go func() {
		for lines := bufio.NewScanner(conn); lines.Scan(); {
			var r agentRequest
			if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
				break
			}
			requests <- r
		}
		os.Exit(0) // without waiting for operations in flight
	}()
	a := &agent{ctx: t.Context()}
	for r := range requests {
		answer := a.do(&r)
		line, err := json.Marshal(answer)
		must(t, line, err)
		conn.Write(append(line, '\n'))
	}
}

type agent struct {
	ctx  context.Context
	bulk chan bulkResult
}

func (a *agent) do(r *agentRequest) (answer agentAnswer) {
	fail := func(err error) agentAnswer {
		answer.Error = err.Error()
		return answer
	}
	if r.Do == "shell" {
		out, err := exec.Command("sh", "-c", r.Shell).CombinedOutput()
		if answer.Output = string(out); err != nil {
			return fail(fmt.Errorf("%s: %w: %s", r.Shell, err, out))
		}
		return answer
	}
	if r.Do == "ended" {
		select {
		case answer.Bulk = <-a.bulk:
		case <-time.After(3 * time.Minute):
			return fail(errors.New("the transfer has not ended within three minutes"))
		}
		return answer
	}
	dev, err := ramjet.Open(r.Device)
	if err != nil {
		return fail(err)
	}
	switch r.Do {
	case "serve":
		err = exercise.Serve(a.ctx, dev, r.IP, r.Port)
	case "exercise":
		defer dev.Close()
		answer.Results = map[string]string{}
		for _, x := range exercise.Tests {
			if dev.Query().Caps&x.Needs != x.Needs {
				continue
			}
			ctx, cancel := context.WithTimeout(a.ctx, programTimeout)
			answer.Results[x.Name] = ""
			if err := x.Run(ctx, dev, r.IP, r.Port); err != nil {
				answer.Results[x.Name] = err.Error()
			}
			cancel()
		}
	case "receive":
		a.bulk = make(chan bulkResult, 1)
		err = bulkReceive(dev, netip.AddrPortFrom(r.IP, r.Port), a.bulk)
	case "bulk":
		a.bulk = make(chan bulkResult, 1)
		err = bulkSend(a.ctx, dev, netip.AddrPortFrom(r.IP, r.Port), a.bulk)
	default:
		err = fmt.Errorf("there is no request %q", r.Do)
	}
	if err != nil {
		return fail(err)
	}
	return answer
}

// remoteAgent is a control connection to an agent.
type remoteAgent struct {
	t    testing.TB
	conn net.Conn
	in   *bufio.Reader
}

func dialAgent(t testing.TB, address string) *remoteAgent {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, answerSlack)
	// The guest's agent starts beside the program that says that the guest is ready.
	for end := time.Now().Add(answerSlack); errors.Is(err, syscall.ECONNREFUSED) && time.Now().Before(end); {
		time.Sleep(100 * time.Millisecond)
		conn, err = net.DialTimeout("tcp", address, answerSlack)
	}
	must(t, conn, err)
	t.Cleanup(func() { conn.Close() })
	return &remoteAgent{t, conn, bufio.NewReader(conn)}
}

// hostAgent starts an agent on this host.
func hostAgent(t testing.TB) (*remoteAgent, *exec.Cmd) {
	t.Helper()
	c := exec.Command(os.Args[0], "-test.run=^TestAgent$", "-agent.serve", "-test.timeout=10m")
	pair, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, pair, err)
	defer pair.Close()
	r := dialAgent(t, pair.Addr().String())
	conn, err := pair.Accept()
	must(t, conn, err)
	f, err := conn.(*net.TCPConn).File()
	must(t, f, err)
	conn.Close()
	c.ExtraFiles, c.Stdout, c.Stderr = []*os.File{f}, os.Stderr, os.Stderr
	must(t, c, c.Start())
	f.Close()
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	return r, c
}

// try asks the agent for something.
func (r *remoteAgent) try(q agentRequest) (answer agentAnswer, err error) {
	r.conn.SetDeadline(time.Now().Add(5 * time.Minute))
	line, err := json.Marshal(q)
	if err != nil {
		return answer, err
	}
	if _, err := r.conn.Write(append(line, '\n')); err != nil {
		return answer, err
	}
	if line, err = r.in.ReadBytes('\n'); err != nil {
		return answer, fmt.Errorf("%s: %w", q.Do, err)
	}
	if err = json.Unmarshal(line, &answer); err == nil && answer.Error != "" {
		err = errors.New(answer.Error)
	}
	return answer, err
}

func (r *remoteAgent) call(q agentRequest) agentAnswer {
	r.t.Helper()
	a, err := r.try(q)
	if err != nil {
		r.t.Fatalf("%s %s: %v", q.Do, strings.TrimSpace(q.Device+" "+q.Shell), err)
	}
	return a
}
