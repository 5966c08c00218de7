// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/ladder"
)

const (
	rxeCapture  = "../../wire/ib/testdata/roce-mtu1024.pcap"
	siwCapture  = "../../wire/iwarp/testdata/iwarp.pcap"
	lossCapture = "../../internal/app/ladder/testdata/loss.pcapng"
)

func TestLadderText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		want []string
	}{
		{rxeCapture + " --list",
			[]string{"13  10.9.0.2 QP 0x00001c  10.9.0.1 QP 0x00001c  RC            70  36.1 kB  18.768"}},
		{rxeCapture + " --qp 0x1c", []string{"conversation 13: RC over RoCEv2, 70 packets", "CM REQ  QP 0x00001c",
			"service 0x1061d2f (port 7471)", "CM DREP"}},
		{rxeCapture + " --qp 28 --host 10.9.0.1 --from 18.94s", []string{"CM DREQ"}},
		{siwCapture, []string{"TCP retransmission", "MPA Request  revision 2", "--conversation chooses another"}},
		{siwCapture + " --conversation 1 --limit 3", []string{"more packets: --from "}},
		{siwCapture + " --conversation all", []string{"9 conversations", "#9",
			"#9  10.9.0.2 port 50199 – 10.9.0.1 port 7471  iWARP\n"}},
		{lossCapture, []string{"1 retransmission, 1 packet lost, 1 repeated response", "✕",
			"retransmission without an answer for 8.00 ms: retry 1 of 7",
			"end: closed by 192.0.2.3 at 0.009111 (DREQ)"}},
	} {
		r := ramjetCmd(t, append([]string{"ladder"}, strings.Fields(c.args)...)...)
		r.wantSuccess(t)
		for _, w := range c.want {
			if !strings.Contains(r.stdout, w) {
				t.Errorf("ladder %s: no %q in\n%s", c.args, w, r.stdout)
			}
		}
		if strings.Contains(r.stdout, "\x1b") {
			t.Errorf("ladder %s: colors, and no terminal", c.args)
		}
	}
}

func TestLadderErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text, empty := filepath.Join(dir, "text"), filepath.Join(dir, "empty.pcap")
	os.WriteFile(text, []byte("no capture at all"), 0o600)
	os.WriteFile(empty, []byte(
		"\xd4\xc3\xb2\xa1\x02\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x04\x00\x01\x00\x00\x00"), 0o600)
	for _, c := range []struct {
		args   string
		status int
		text   string
	}{
		{"", cli.ExitUsage, "give one capture"},
		{filepath.Join(dir, "absent"), cli.ExitUsage, "absent"},
		{dir, cli.ExitUsage, "is a directory"},
		{text, cli.ExitFailed, "neither pcap nor pcapng"},
		{empty, cli.ExitFailed, "the capture is empty"},
		{siwCapture + " -o x.png", cli.ExitUsage, "ends in .svg or .html"},
		{siwCapture + " -o x.svg --json", cli.ExitUsage, "--json writes to the standard output"},
		{siwCapture + " --conversation 99", cli.ExitUsage, "no such conversation"},
		{siwCapture + " --conversation x", cli.ExitUsage, "give a number of the list, or all"},
		{siwCapture + " --qp 0x1000000", cli.ExitUsage, "give a queue pair's number"},
		{siwCapture + " --host 192.0.2.1", cli.ExitUsage,
			"no conversation fits --host 192.0.2.1: `ramjet ladder CAPTURE --list` lists all 9"},
		{siwCapture + " --from 2s --to 1s", cli.ExitUsage, "it is not after --from"},
		{siwCapture + " --width 420", cli.ExitUsage, "--width is for -o with a name in .svg"},
		{siwCapture + " -o x.html --width 420", cli.ExitUsage, "--width is for -o with a name in .svg"},
		{siwCapture + " -o x.svg --width 20", cli.ExitUsage, "give 320 to 10000"},
		{siwCapture + " --limit -1", cli.ExitUsage, "0 for all of them"},
		{siwCapture + " -o " + filepath.Join(dir, "no", "x.svg"), cli.ExitUsage, "no"},
	} {
		t.Run(c.args, func(t *testing.T) {
			t.Parallel()
			ramjetCmd(t, append([]string{"ladder"}, strings.Fields(c.args)...)...).wantError(t, c.status, c.text)
		})
	}
}

func TestLadderFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, begin := range map[string]string{"x.svg": "<svg", "x.html": "<!doctype html>"} {
		file := filepath.Join(dir, name)
		ramjetCmd(t, "ladder", lossCapture, "-o", file).wantSuccess(t)
		b, err := os.ReadFile(file)
		if err != nil || !strings.HasPrefix(string(b), begin) ||
			!strings.Contains(string(b), "retransmission without an answer") {
			t.Errorf("%s: %v, %.80s", name, err, b)
		}
	}
}

// TestLadderPicture: the command in docs/ladder.md draws the picture there.
func TestLadderPicture(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ladder.svg")
	ramjetCmd(t, "ladder", lossCapture, "--to", "8.5ms", "-o", file).wantSuccess(t)
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if want, err := os.ReadFile("../../docs/ladder.svg"); err != nil || string(got) != string(want) {
		t.Errorf("docs/ladder.svg is another picture (%v): draw it again with the command in docs/ladder.md", err)
	}
}

// accessLogs are the logs of both ends of accessCapture.
const (
	accessCapture = "../../internal/app/ladder/testdata/access.pcapng"
	accessLogs    = "../../internal/app/ladder/testdata/access-server.log,../../internal/app/ladder/testdata/access-client.log"
)

// TestLadderCalls: the command in docs/ladder.md draws the drawing with calls there.
func TestLadderCalls(t *testing.T) {
	t.Parallel()
	r := ramjetCmd(t, "ladder", accessCapture, "--from", "1.1ms", "--to", "1.8ms", "--log", accessLogs)
	r.wantSuccess(t)
	page, err := os.ReadFile("../../docs/ladder.md")
	if err != nil || r.stderr != "" || !strings.Contains(string(page), "```\n"+r.stdout+"```\n") {
		t.Errorf("docs/ladder.md has another drawing (%v):\n%s%s", err, r.stdout, r.stderr)
	}
}

// TestLadderLogErrors: errors of a log have its file and line.
func TestLadderLogErrors(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	wrong, cut := filepath.Join(dir, "wrong.log"), filepath.Join(dir, "cut.log")
	os.WriteFile(wrong, []byte("1 10:31:00.139816 ibv_alloc_pd(context=) = pd1 <0.000016>\n"), 0o600)
	os.WriteFile(cut, []byte("1 10:31:00.139816 ibv_alloc_pd(context=roce0) = pd1 <0.000"), 0o600)
	for _, c := range []struct {
		args   string
		status int
		text   string
	}{
		{"--log " + wrong, cli.ExitFailed, "wrong.log: line 1, column 40: expected a value: give a log of calls, as `ramjet run --log=FILE` writes them"},
		{"--log " + accessCapture, cli.ExitFailed, "access.pcapng: line 3, column 2: expected a blank and a time"},
		{"--log " + filepath.Join(dir, "absent"), cli.ExitUsage, "--log: open "},
		{"--log " + dir, cli.ExitUsage, "is a directory"},
		{"--log -", cli.ExitUsage, `--log "-": give the name of a file`},
		{"--log " + cut + "," + cut, cli.ExitUsage, "cut.log: it is there twice"},
		{"--list --log " + wrong, cli.ExitUsage, "--list draws nothing: leave --log out"},
	} {
		ramjetCmd(t, append([]string{"ladder", accessCapture}, strings.Fields(c.args)...)...).wantError(t, c.status,
			c.text)
	}
	r := ramjetCmd(t, "ladder", accessCapture, "--log", cut)
	r.wantSuccess(t)
	if !strings.Contains(r.stderr, "cut.log: the log ends in the middle of a line: what is before it was read\n") ||
		!strings.Contains(r.stderr, "cut.log: the log is empty\n") {
		t.Error(r.stderr)
	}
}

// ladderOf returns the ladder of a recording as JSON.
func ladderOf(t *testing.T, file string, args ...string) *ladder.Report {
	t.Helper()
	r := ramjetCmd(t, append([]string{"ladder", file, "--json"}, args...)...)
	r.wantSuccess(t)
	var j ladder.Report
	if err := json.Unmarshal([]byte(r.stdout), &j); err != nil {
		t.Fatal(err)
	}
	return &j
}

// TestLadderOfDevices draws recordings of this project's devices: all of each can be read, and is one conversation of
// known ends.
func TestLadderOfDevices(t *testing.T) {
	t.Parallel()
	kinds := map[string]string{"roce:": "RoCEv2"}
	if runtime.GOOS == "linux" {
		kinds["iwarp:"] = "iWARP"
	}
	for kind, fabric := range kinds {
		t.Run(strings.TrimSuffix(kind, ":"), func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "x.pcapng")
			ramjetCmd(t, "perf", "write", "bw", "-d", kind, "--loopback", "-n", "50", "-s", "20000", "--pcap",
				file).wantSuccess(t)
			j := ladderOf(t, file)
			if len(j.Conversations) != 1 {
				t.Fatalf("%d conversations, want 1", len(j.Conversations))
			}
			c := j.Conversations[0]
			known := c.A.QP != nil && c.B.QP != nil || c.A.Port != 0 && c.B.Port != 0
			if c.Fabric != fabric || !known || c.Marks["malformed"]+c.Marks["bad_crc"]+c.Marks["tcp_gap"] != 0 ||
				j.Other > j.Frames/2 {
				t.Errorf("%+v; %d of %d frames are of others", c, j.Other, j.Frames)
			}
			bytes := int64(0)
			for _, r := range j.Rows {
				bytes += r.PayloadBytes
			}
			if least := int64(50 * 20000); bytes < least {
				t.Errorf("rows have %d bytes of payload, want %d at least", bytes, least)
			}
		})
	}
}

// TestFabricRecording: a fabric records packets at each cable, with the port that sends them.
func TestFabricRecording(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, script := filepath.Join(dir, "fabric.pcapng"), filepath.Join(dir, "script")
	if err := os.WriteFile(script, []byte("wait active within 60s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := ramjetCmd(t, "fabric", "--star", "2", "--name", filepath.Base(dir), "--pcap", file, "--script", script)
	r.wantSuccess(t)
	if !strings.Contains(r.stderr, " packets written, 0 left out") {
		t.Errorf("stderr: %s", r.stderr)
	}
	j := ladderOf(t, file, "--conversation", "all", "--all")
	marks := map[string]bool{}
	for _, row := range j.Rows {
		for _, m := range row.Marks {
			marks[m] = true
		}
	}
	if len(j.Rows) < 20 || marks["malformed"] || marks["bad_crc"] {
		t.Errorf("%d rows, marks %v", len(j.Rows), marks)
	}
}
