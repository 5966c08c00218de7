// SPDX-License-Identifier: Apache-2.0

//go:build linux && !race

package programs

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
)

// packets returns how many packets of a fabric a recording has, all of which are whole and good. Where Wireshark
// is installed, it reads as many frames as the project's own reader.
func packets(t *testing.T, file string, fabric capture.Fabric) int {
	t.Helper()
	counts, n, err := read(t, file, fabric)
	if err != nil {
		t.Errorf("%s: %v", filepath.Base(file), err)
	}
	if _, err := exec.LookPath("tshark"); err == nil {
		if seen := strings.Count(tshark.Read(t, file), "\n"); seen != counts.Frames {
			t.Errorf("%s: tshark reads %d frames, and there are %d", filepath.Base(file), seen, counts.Frames)
		}
	}
	return n
}

// read reads a recording with the project's own reader, and returns its packets' number and the reader's error.
func read(t *testing.T, file string, fabric capture.Fabric) (counts capture.Counts, n int, err error) {
	t.Helper()
	counts, err = capture.Read(file, func(p *capture.Packet) {
		if n++; p.Fabric != fabric || p.BadCRC || p.Broken != "" || p.Missing != 0 {
			t.Errorf("%s, frame %d: %v, bad CRC %v, broken: %s", filepath.Base(file), p.Frame, p.Fabric, p.BadCRC,
				p.Broken)
		}
	})
	return counts, n, err
}

// Both sides record under one name, each in a file of its own, on each fabric that has packets.
func TestRecording(t *testing.T) {
	need(t, "ibv_rc_pingpong", "ib_write_bw", "rping")
	runFabric(t)
	for _, c := range []struct {
		pair
		fabric capture.Fabric
		least  int
	}{
		{pair{server: "ibv_rc_pingpong -g 0 -n 100 -p PORT", client: "ibv_rc_pingpong -g 0 -n 100 -p PORT SERVER",
			want: "iters in"}, capture.RoCEv2, 400},
		{pair{server: "ib_write_bw -F -n 50 -p PORT", client: "ib_write_bw -F -n 50 -p PORT SERVER", want: table},
			capture.RoCEv2, 50 * 16},
		{pair{kind: "iwarp", server: "rping -s -a SERVER -C 20 -v -p PORT",
			client: "rping -c -a SERVER -C 20 -v -p PORT", want: "rdma-ping-19"}, capture.IWARP, 100},
		{pair{kind: "infiniband", server: "ibv_rc_pingpong -n 100 -p PORT",
			client: "ibv_rc_pingpong -n 100 -p PORT localhost", want: "iters in"}, capture.InfiniBand, 400},
	} {
		t.Run(c.name(), func(t *testing.T) {
			dir := t.TempDir()
			t.Setenv("RAMJET_PCAP", filepath.Join(dir, "both.pcapng"))
			c.run(t)
			files, err := filepath.Glob(filepath.Join(dir, "*"))
			if err != nil || len(files) < 2 { // a client that came before its server has recorded nothing, in one more
				t.Fatalf("%q, %v", files, err)
			}
			full := 0
			for _, f := range files {
				if packets(t, f, c.fabric) >= c.least {
					full++
				}
			}
			if full != 2 {
				t.Errorf("%d of %q have %d packets, want both sides", full, files, c.least)
			}
		})
	}
}

// A process that forks and its child, which opens a device of its own, record in two files; %p is the process's id.
func TestRecordingForked(t *testing.T) {
	dir := need(t, "ibv_devinfo")
	folder := t.TempDir()
	t.Setenv("RAMJET_PCAP", filepath.Join(folder, "%p-100%%.pcapng"))
	program := filepath.Join(folder, "forked")
	if out, err := exec.Command("gcc", "-Wall", "-Werror", "-o", program, "testdata/records.c",
		filepath.Join(dir, "libibverbs.so.1")).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := command(t.Context(), dir, serverAddr, program).Output()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	pids := strings.Fields(string(out))
	if len(pids) != 2 {
		t.Fatalf("%q", out)
	}
	for _, pid := range pids {
		packets(t, filepath.Join(folder, pid+"-100%.pcapng"), capture.RoCEv2)
	}
}

// The recording of a program that is killed can be read, up to a moment before. Only the last packet may be cut: a
// signal that kills ends a write early.
func TestRecordingKilled(t *testing.T) {
	dir := need(t, "ib_write_bw")
	folder := t.TempDir()
	port := freePort(t)
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	args := []string{"ib_write_bw", "-F", "-s", "1000", "-D", "100", "-p", port}
	server := start(t, ctx, dir, serverAddr, args...)
	defer server.cmd.Process.Kill()
	file := filepath.Join(folder, "client.pcapng")
	t.Setenv("RAMJET_PCAP", file)
	client := start(t, ctx, dir, clientAddr, append(args, serverAddr)...)
	for {
		if info, err := os.Stat(file); err == nil && info.Size() > 1<<20 {
			break
		}
		select {
		case <-client.done: // the server does not listen yet
			os.Remove(file)
			client = start(t, ctx, dir, clientAddr, append(args, serverAddr)...)
		case <-ctx.Done():
			t.Fatalf("nothing is recorded: %s", client.out.String())
		case <-time.After(20 * time.Millisecond):
		}
	}
	client.cmd.Process.Kill()
	<-client.done
	counts, n, err := read(t, file, capture.RoCEv2)
	cut := errors.Is(err, capture.ErrCut)
	if err != nil && !cut || n < 500 {
		t.Errorf("%d packets, %v", n, err)
	}
	ladder, err := exec.Command(ramjet(t), "ladder", "--list", file).CombinedOutput()
	if err != nil || strings.Contains(string(ladder), "ends in the middle") != cut {
		t.Errorf("ramjet ladder of a file that is cut (%v): %v\n%s", cut, err, ladder)
	}
	if _, err := exec.LookPath("tshark"); err != nil {
		return
	}
	var says strings.Builder
	tshark := exec.Command("tshark", "-r", file)
	tshark.Stderr = &says
	out, err := tshark.Output()
	if (err != nil) != cut || strings.Contains(says.String(), "cut short") != cut {
		t.Errorf("tshark of a file that is cut (%v): %v, %s", cut, err, says.String())
	}
	if seen := strings.Count(string(out), "\n"); seen != counts.Frames {
		t.Errorf("tshark reads %d frames, and there are %d", seen, counts.Frames)
	}
}

// A program runs without a recording where there can be none, and standard error says so; `ramjet run` says so
// before.
func TestRecordingRefused(t *testing.T) {
	dir := need(t, "ibv_devinfo")
	for _, c := range []struct{ device, file, want string }{
		{serverAddr, "/nowhere/a.pcapng",
			"RAMJET_PCAP: nothing is recorded, and the program runs without: open /nowhere/a.pcapng: no such file"},
		{"shm:", filepath.Join(t.TempDir(), "a.pcapng"),
			"RAMJET_PCAP: shm: is not recorded: shared memory has no packets"},
	} {
		t.Setenv("RAMJET_PCAP", c.file)
		out, err := command(t.Context(), dir, c.device, "ibv_devinfo").CombinedOutput()
		if err != nil || strings.Count(string(out), c.want) != 1 || !strings.Contains(string(out), "hca_id:") {
			t.Errorf("%v, and not %q:\n%s", err, c.want, out)
		}
	}
	t.Setenv("RAMJET_PCAP", "")
	ramjet := ramjet(t)
	for _, c := range []struct{ device, file, want string }{
		{"roce:" + serverAddr, "/nowhere/a.pcapng",
			"--pcap: no file can be created in the directory of /nowhere/a.pcapng"},
		{"roce:" + serverAddr, "/tmp", "is a directory"},
		{"shm:", filepath.Join(t.TempDir(), "a.pcapng"), "shared memory has no packets"},
	} {
		out, err := exec.Command(ramjet, "run", "--libs", dir, "-d", c.device, "--pcap", c.file, "--",
			"ibv_devinfo").CombinedOutput()
		if err == nil || !strings.Contains(string(out), c.want) || strings.Contains(string(out), "hca_id:") {
			t.Errorf("%v, and not %q:\n%s", err, c.want, out)
		}
	}
	file := filepath.Join(t.TempDir(), "a.pcapng")
	if out, err := exec.Command(ramjet, "run", "--libs", dir, "-d", "roce:"+serverAddr, "--pcap", file, "--",
		"ibv_devinfo").CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	packets(t, file, capture.RoCEv2)
}
