// SPDX-License-Identifier: Apache-2.0

package statsocket_test

import (
	"context"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// collecting returns a collector with a folder, and the variable by which processes find its socket.
func collecting(t *testing.T, c *statsocket.Collector, name string) (folder, variable string) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), strings.Repeat("a-long-name-", 12)) // no socket's address has room for it
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := c.Listen(name, folder); err != nil {
		t.Fatal(err)
	}
	short := filepath.Join(t.TempDir(), "f") // as a container sees it
	if err := os.Symlink(folder, short); err != nil {
		t.Fatal(err)
	}
	return folder, statsocket.CollectorVariable + "=" + filepath.Join(short, statsocket.CollectorSocket)
}

// untilCounted waits until a folder has so many processes.
func untilCounted(t *testing.T, c *statsocket.Collector, name string, n int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); c.Counts()[name] != n; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d processes of %s, want %d", c.Counts()[name], name, n)
		}
	}
}

// readAll reads all processes of a collector.
func readAll(t *testing.T, c *statsocket.Collector) map[string][]statsocket.Process {
	t.Helper()
	got := map[string][]statsocket.Process{}
	if err := c.Read(t.Context(), func(name string,
		p *statsocket.Process) {
		got[name] = append(got[name], *p)
	}); err != nil {
		t.Fatal(err)
	}
	return got
}

// Each process is reported under its own folder's name, again and again, until it ends; a collector that starts anew
// gets it back.
func TestCollect(t *testing.T) {
	c := statsocket.NewCollector()
	defer c.Close()
	_, one := collecting(t, c, "one")
	folder, two := collecting(t, c, "two")
	_, device1, _ := startChild(t, 1, one)
	pid2, device2, end2 := startChild(t, 2, two)
	for range 3 {
		untilCounted(t, c, "one", 1)
		untilCounted(t, c, "two", 1)
		got := readAll(t, c)
		if len(got["one"]) != 1 || len(got["two"]) != 1 {
			t.Fatalf("%+v", got)
		}
		for name, device := range map[string]string{"one": device1, "two": device2} {
			p := got[name][0]
			if p.Err != nil || len(p.State.Devices) != 1 || p.State.Devices[0].Name != device || p.Command == "" ||
				p.UID != os.Geteuid() {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if got["two"][0].PID != pid2 {
			t.Errorf("process %d, want %d", got["two"][0].PID, pid2)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	again := statsocket.NewCollector()
	defer again.Close()
	if err := again.Listen("two", folder); err != nil {
		t.Fatal(err)
	}
	untilCounted(t, again, "two", 1)
	end2()
	untilCounted(t, again, "two", 0)
	if got := readAll(t, again); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

// A program that connects and is no process with devices is reported as such, delays no other, and is forgotten.
func TestCollectStrangers(t *testing.T) {
	t.Parallel() // it waits
	c := statsocket.NewCollector()
	defer c.Close()
	folder, good := collecting(t, c, "pod")
	dial := func() *net.UnixConn {
		t.Helper()
		path := strings.TrimPrefix(good, statsocket.CollectorVariable+"=")
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil {
			t.Fatalf("%s: %v", folder, err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	unasked := dial()
	if _, err := unasked.Write([]byte("ramjetS")); err != nil {
		t.Fatal(err)
	}
	if _, err := unasked.Read(make([]byte, 1)); err == nil {
		t.Error("who speaks unasked is not turned away")
	}
	answers := func(text string) {
		conn := dial()
		go func() {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				conn.Write([]byte(text)) //nolint:errcheck // the collector may have closed it
				conn.CloseWrite()        //nolint:errcheck
			}
		}()
	}
	dial() // says nothing
	answers("HTTP/1.1 400 Bad Request\r\n")
	answers("r")
	startChild(t, 0, good)
	untilCounted(t, c, "pod", 4)
	well, wrong := 0, 0
	for _, p := range readAll(t, c)["pod"] {
		if p.Err != nil {
			wrong++
			continue
		}
		if well++; wrong == 3 {
			t.Error("the process was read after the one that says nothing")
		}
	}
	if well != 1 || wrong != 3 {
		t.Errorf("%d were read, %d were not", well, wrong)
	}
	untilCounted(t, c, "pod", 1) // the process, which is there again

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dial()
	untilCounted(t, c, "pod", 2)
	if err := c.Read(ctx, func(string, *statsocket.Process) {}); err == nil {
		t.Error("it reads without time")
	}
}

// A folder has so many processes at most; others are refused until there is room.
func TestCollectMany(t *testing.T) {
	const most = 256
	c := statsocket.NewCollector()
	defer c.Close()
	_, variable := collecting(t, c, "pod")
	path := strings.TrimPrefix(variable, statsocket.CollectorVariable+"=")
	var conns []*net.UnixConn
	for len(conns) < most+8 {
		conn, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: path, Net: "unix"})
		if err != nil { // the line is full
			time.Sleep(time.Millisecond)
			continue
		}
		defer conn.Close()
		conns = append(conns, conn)
	}
	untilCounted(t, c, "pod", most)
	if _, err := conns[most+7].Read(make([]byte, 1)); err == nil {
		t.Error("one more than there is room for is asked")
	}
	conns[0].Close()
	untilCounted(t, c, "pod", most-1)
	if err := c.Remove("pod"); err != nil {
		t.Error(err)
	}
	if err := c.Remove("pod"); err != nil {
		t.Error(err)
	}
}

// FuzzCollect has a process of a container answer with anything: the collector's read ends, and tells of it once at
// most.
func FuzzCollect(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte("ramjetS"))
	f.Add([]byte("HTTP/1.1 400 Bad Request\r\n"))
	c := statsocket.NewCollector()
	f.Cleanup(func() { c.Close() })
	folder := f.TempDir()
	if err := c.Listen("pod", folder); err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, answer []byte) {
		conn, err := net.DialUnix("unix", nil,
			&net.UnixAddr{Name: filepath.Join(folder, statsocket.CollectorSocket), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		untilCounted(t, c, "pod", 1)
		answered := make(chan struct{})
		go func() {
			defer close(answered)
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				conn.Write(answer) //nolint:errcheck // the collector may have closed it
			}
			conn.Close()
		}()
		got := readAll(t, c)["pod"]
		<-answered
		untilCounted(t, c, "pod", 0)
		if len(got) > 1 || len(answer) == 0 && len(got) != 0 {
			t.Errorf("%d processes of one that said %q", len(got), answer)
		}
	})
}

// TestReportAsked: a process reports itself for any request of a collector, but not for an empty one.
func TestReportAsked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	startChild(t, 1, statsocket.CollectorVariable+"="+path)
	for _, ask := range []string{"", "\x00", "\xff", "GET / HTTP/1.1\r\n\r\n"} {
		conn, err := l.AcceptUnix()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(ask)); err != nil {
			t.Fatal(err)
		}
		conn.CloseWrite() //nolint:errcheck // the process may have closed it
		if b, _ := io.ReadAll(conn); (len(b) > 0) != (ask != "") {
			t.Errorf("%d bytes for %q", len(b), ask)
		}
		conn.Close()
	}
}
