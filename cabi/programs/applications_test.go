// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The side that writes is fio's client, with each verb. The buffers of both sides are files, where the received data is
// found afterwards.
func TestFio(t *testing.T) {
	const block = 64 << 10
	const common = "fio --thread --ioengine=rdma --port=PORT --bs=64k --size=1m --name=job"
	dir := need(t, "fio")
	run := func(p pair) error {
		p.ready = "waiting for connection"      // without a server fio's client neither ends nor asks again
		return p.attempt(t, dir, 3*time.Minute) // after an error of a completion, fio waits without end
	}
	t.Run("write", func(t *testing.T) {
		dir := t.TempDir()
		pattern, to := randomFile(t, filepath.Join(dir, "pattern"), 256),
			zeroFile(t, filepath.Join(dir, "server"), 2*block)
		err := run(pair{
			server: common + " --rw=read --mem=mmapshared:" + to,
			client: common + " --rw=write --hostname=SERVER --verb=write --buffer_pattern='" + pattern + "'",
			want:   "total=0,16,0,0",
		})
		if err != nil {
			t.Fatal(err)
		}
		want, got := content(t, pattern), content(t, to)
		if !bytes.HasPrefix(got, bytes.Repeat(want, block/len(want))) {
			t.Error("the server's buffer does not hold what the client wrote")
		}
	})
	t.Run("read", func(t *testing.T) {
		dir := t.TempDir()
		from, to := randomFile(t, filepath.Join(dir, "server"), 2*block),
			zeroFile(t, filepath.Join(dir, "client"), 2*block)
		err := run(pair{
			server: common + " --rw=read --mem=mmapshared:" + from,
			client: common + " --rw=write --hostname=SERVER --verb=read --mem=mmapshared:" + to,
			want:   "total=0,16,0,0",
		})
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(content(t, to)[:block], content(t, from)[:block]) {
			t.Error("the client's buffer does not hold what it read")
		}
	})
	// Each block has a header and a checksum, which the receiver verifies. The sender allows half a second for receives
	// to be posted and asks for no repeats after that: when the machine was too busy, the pair runs once more.
	t.Run("send", func(t *testing.T) {
		p := pair{
			server: common + " --rw=read --iodepth=16 --verify=crc32c --verify_state_save=0",
			client: common + " --rw=write --hostname=SERVER --verb=send --verify=crc32c --verify_state_save=0",
			want:   "total=0,16,0,0",
		}
		err := run(p)
		for ; err != nil && strings.Contains(err.Error(), "RNR retry counter exceeded"); err = run(p) {
			t.Log(err)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}

// randomFile makes a file of random bytes.
func randomFile(t *testing.T, name string, size int) string {
	t.Helper()
	b := make([]byte, size)
	rand.NewChaCha8([32]byte{1}).Read(b)
	return newFile(t, name, b)
}

// zeroFile makes a file of zeros: fio does not give files that it maps a size.
func zeroFile(t *testing.T, name string, size int) string {
	t.Helper()
	return newFile(t, name, make([]byte, size))
}

func newFile(t *testing.T, name string, b []byte) string {
	t.Helper()
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func content(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A machine's memory goes to another over RDMA.
func TestQEMU(t *testing.T) {
	const at, size = 16 << 20, 8 << 20
	dir := need(t, "qemu-system-x86_64")
	run := []string{ramjet(t), "run", "--libs", dir, "--"}
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	port := freePort(t)
	machine := func(addr, memory string, more ...string) *qemu {
		monitor := filepath.Join(tmp, "monitor-"+addr)
		args := slices.Concat(run,
			strings.Fields("qemu-system-x86_64 -M pc,accel=tcg -m 32 -nodefaults -display none -S"), more,
			[]string{"-device", fmt.Sprintf("loader,file=%s,addr=%d,force-raw=on", memory, at), "-qmp",
				"unix:" + monitor + ",server=on"})
		return newQEMU(t, start(t, ctx, dir, addr, args...), monitor)
	}
	memory, empty := randomFile(t, filepath.Join(tmp, "memory"), size), zeroFile(t, filepath.Join(tmp, "empty"), size)
	saved := filepath.Join(tmp, "saved")
	uri := "rdma:" + serverAddr + ":" + port
	to := machine(serverAddr, empty, "-incoming", uri)
	from := machine(clientAddr, memory)
	from.do("migrate", map[string]any{"uri": uri})
	for status := ""; status != "completed"; time.Sleep(20 * time.Millisecond) {
		var info struct{ Status string }
		if err := json.Unmarshal(from.do("query-migrate", nil), &info); err != nil {
			t.Fatal(err)
		}
		if status = info.Status; status == "failed" {
			t.Fatalf("the migration failed\n%s\n%s", from.out.String(), to.out.String())
		}
	}
	to.do("pmemsave", map[string]any{"val": at, "size": size, "filename": saved})
	from.do("quit", nil)
	to.do("quit", nil)
	if !bytes.Equal(content(t, saved), content(t, memory)) {
		t.Error("the machine's memory has not arrived")
	}
}

// qemu is a machine and its monitor, which speaks JSON.
type qemu struct {
	*side
	t       *testing.T
	in      io.Writer
	answers *json.Decoder
}

func newQEMU(t *testing.T, s *side, monitor string) *qemu {
	t.Helper()
	for {
		c, err := net.Dial("unix", monitor)
		if err == nil {
			t.Cleanup(func() { c.Close() })
			q := &qemu{side: s, t: t, in: c, answers: json.NewDecoder(c)}
			q.do("qmp_capabilities", nil)
			return q
		}
		select {
		case err := <-s.done:
			t.Fatalf("qemu: %v\n%s", err, s.out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// do gives the monitor a command and returns its answer.
func (q *qemu) do(name string, args map[string]any) json.RawMessage {
	q.t.Helper()
	request := map[string]any{"execute": name}
	if args != nil {
		request["arguments"] = args
	}
	line, err := json.Marshal(request)
	if err == nil {
		_, err = q.in.Write(line)
	}
	for err == nil {
		var answer struct{ Return, Error json.RawMessage } // or a greeting, or an event
		if err = q.answers.Decode(&answer); err == nil && answer.Return != nil {
			return answer.Return
		}
		if answer.Error != nil {
			err = fmt.Errorf("%s", answer.Error)
		}
	}
	q.t.Fatalf("qemu: %s: %v\n%s", name, err, q.out.String())
	return nil
}
