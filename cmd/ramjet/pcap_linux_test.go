// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/capture"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/softfabric"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
)

// recordedWorld is two devices of one kind, for both sides of a command.
type recordedWorld struct {
	kind   string // with a colon, for commands that choose the devices
	a, b   string // devices
	at     string // a's address for connection managers; empty: it cannot be found
	fabric capture.Fabric
	tcp    string // where a's side listens for its connections over TCP
}

// choosesDevices skips commands that take a kind alone where that would be a fabric of others.
func (w recordedWorld) choosesDevices(t *testing.T) {
	if strings.Contains(w.kind, "?") {
		t.Skip("it takes adapters of the default fabric only, which is not the test's")
	}
}

// resolves skips commands that find their peer by its IP address where none can be found.
func (w recordedWorld) resolves(t *testing.T) {
	if w.at == "" {
		t.Skip("it asks on the link for its peer's address, which in one network namespace nobody answers")
	}
}

// recordedCommands are the commands that record, each with a conversation. They return the files that both sides, or
// one, have recorded.
var recordedCommands = []struct {
	name string
	run  func(t *testing.T, w recordedWorld, file func(side string) string)
}{
	{"ping", func(t *testing.T, w recordedWorld, file func(string) string) {
		w.resolves(t)
		server := startReady(t, "waiting for clients", "ping", "-s", "-d", w.a, "--pcap", file("server"))
		ramjetCmd(t, "ping", "-c", "-d", w.b, "-a", w.at, "-C", "3", "-S", "3000", "--pcap",
			file("client")).wantSuccess(t)
		server.wait().wantSuccess(t)
	}},
	{"pingpong", func(t *testing.T, w recordedWorld, file func(string) string) {
		if strings.HasPrefix(w.kind, "iwarp") {
			t.Skip("it exchanges queue pair numbers, with which iWARP connects nothing")
		}
		port := freePort(t)
		server := startNow(t, "pingpong", "rc", "-n", "5", "-p", port, "-d", w.a, "--pcap", file("server"))
		whenReady(t, "pingpong", "rc", "-n", "5", "-p", port, "-d", w.b, "--pcap", file("client"), w.tcp)
		server.wait().wantSuccess(t)
	}},
	{"pipe", func(t *testing.T, w recordedWorld, file func(string) string) {
		w.resolves(t)
		server, serverIn := startPipe(t, "-l", "-v", "-d", w.a, "--pcap", file("server"), "17000")
		client, clientIn := startPipe(t, "-d", w.b, "--pcap", file("client"), w.at, "17000")
		clientIn.Write([]byte(strings.Repeat("over and out\n", 1000)))
		clientIn.Close()
		serverIn.Close()
		server.wait().wantSuccess(t)
		client.wait().wantSuccess(t)
	}},
	{"serve, cp and ls", func(t *testing.T, w recordedWorld, file func(string) string) {
		w.resolves(t)
		at := w.at
		if strings.Contains(at, ":") {
			at = "[" + at + "]"
		}
		source := filepath.Join(t.TempDir(), "a")
		writeRandom(t, source, 30_000)
		server := startReady(t, ": serving ", "serve", "--read", "-d", w.a, "--pcap", file("server"), t.TempDir())
		ramjetCmd(t, "cp", "-d", w.b, "--pcap", file("cp"), source, at+":").wantSuccess(t)
		ramjetCmd(t, "ls", "-d", w.b, "--pcap", file("ls"), at+":").wantSuccess(t)
		server.interrupt()
		server.wait()
	}},
	{"perf", func(t *testing.T, w recordedWorld, file func(string) string) {
		port := freePort(t)
		server := startNow(t, "perf", "write", "bw", "-d", w.a, "-p", port, "--pcap", file("server"))
		whenReady(t, "perf", "write", "bw", "-d", w.b, "-p", port, "-n", "20", "-s", "3000", "--pcap", file("client"),
			w.tcp)
		server.wait().wantSuccess(t)
	}},
	{"perf --loopback", func(t *testing.T, w recordedWorld, file func(string) string) {
		if w.kind == "roce1:" {
			t.Skip("it takes devices of loopback addresses")
		}
		ramjetCmd(t, "perf", "read", "lat", "-d", w.kind, "--loopback", "-n", "20", "--pcap",
			file("client")).wantSuccess(t)
	}},
	{"bench notification", func(t *testing.T, w recordedWorld, file func(string) string) {
		w.choosesDevices(t)
		ramjetCmd(t, "bench", "notification", "-d", w.kind, "--peers", "2", "-n", "10", "--pcap",
			file("client")).wantSuccess(t)
	}},
	{"bench registration", func(t *testing.T, w recordedWorld, file func(string) string) {
		w.choosesDevices(t)
		ramjetCmd(t, "bench", "registration", "-d", w.kind, "-s", "4K", "--runs", "1", "-D", "1ms", "--pcap",
			file("client")).wantSuccess(t)
	}},
	{"demo", func(t *testing.T, w recordedWorld, file func(string) string) {
		kind, fabric, named := strings.Cut(w.kind, "?fabric=")
		args := []string{"demo", "-d", kind, "--pcap", file("client")}
		if named {
			args = append(args, "--fabric", fabric)
		}
		ramjetCmd(t, args...).wantSuccess(t)
	}},
}

// whenReady runs a client again until its server, which does not say when it is ready, listens.
func whenReady(t *testing.T, args ...string) {
	t.Helper()
	client := ramjetCmd(t, args...)
	for end := time.Now().Add(patience); client.status != 0 && strings.Contains(client.stderr, "start") &&
		time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		client = ramjetCmd(t, args...)
	}
	client.wantSuccess(t)
}

// Every command that opens a device for data, or is a network, has --pcap; no other has.
func TestPcapFlags(t *testing.T) {
	without := map[string]string{ // that open devices
		"devices":    "sends nothing",
		"doctor":     "sends nothing",
		"fault":      "opens none",
		"perf table": "compares with sockets: a recording would slow down one of them",
	}
	var look func(c *cobra.Command)
	look = func(c *cobra.Command) {
		name := strings.TrimPrefix(c.CommandPath(), "ramjet ")
		device, pcap := c.Flags().Lookup("device") != nil, c.Flags().Lookup("pcap") != nil
		if wanted := device && !c.Hidden && without[name] == "" || name == "fabric" || name == "sim"; wanted != pcap {
			t.Errorf("%s: --device %v, --pcap %v", name, device, pcap)
		}
		for _, sub := range c.Commands() {
			look(sub)
		}
	}
	look(newRootCmd(os.Stdout))
}

// The recording of each command with each kind can be read: by this project's decoder, and by Wireshark's.
func TestPcap(t *testing.T) {
	t.Parallel()
	for kind, fabric := range map[string]capture.Fabric{"roce:": capture.RoCEv2, "iwarp:": capture.IWARP,
		"iwarp+sctp:": capture.IWARP} {
		t.Run(strings.TrimSuffix(kind, ":"), func(t *testing.T) {
			t.Parallel()
			newRecordedWorld(kind, fabric).record(t)
		})
	}
	t.Run("infiniband", func(t *testing.T) {
		t.Parallel()
		name := fabricName(t)
		softfabric.Serve(t, softfabric.Start(t, "star:4"), name)
		const kind = "infiniband:"
		option := "?fabric=" + name
		w := recordedWorld{kind: kind + option, a: kind + "host-1" + option, b: kind + "host-2" + option,
			at: "198.18.0.1", fabric: capture.InfiniBand, tcp: "127.0.0.1"}
		w.record(t)
	})
}

// Inside TLS the recording has the plain stream.
func TestPcapTLS(t *testing.T) {
	t.Parallel()
	w := newRecordedWorld("iwarps:", capture.IWARP)
	cert, key, ca := tlsFilesFor(t, w.at, strings.TrimPrefix(w.b, w.kind))
	setEnv(t, "RAMJET_TLS_CERT", cert)
	setEnv(t, "RAMJET_TLS_KEY", key)
	setEnv(t, "RAMJET_TLS_CA", ca)
	w.record(t)
}

// newRecordedWorld has two devices of addresses of the loopback interface.
func newRecordedWorld(kind string, fabric capture.Fabric) recordedWorld {
	a, b := loopback.Next().String(), loopback.Next().String()
	return recordedWorld{kind: kind, a: kind + a, b: kind + b, at: a, fabric: fabric, tcp: a}
}

// Of RoCE v1 as well, between two interfaces of one network namespace.
func TestPcapRoCE1(t *testing.T) {
	t.Parallel()
	loopback.NeedIP(t)
	if !loopback.InNamespace(t, 65536) {
		return
	}
	loopback.SetUp(t, "link add left type veth peer name right")
	for i, iface := range []string{"left", "right"} {
		loopback.IP(t, "address add 10.93.0.%d/24 dev %s", i+1, iface)
		loopback.IP(t, "link set %s up", iface)
	}
	w := recordedWorld{kind: "roce1:", a: "roce1:left", b: "roce1:right", fabric: capture.RoCEv1, tcp: "10.93.0.1"}
	w.record(t)
}

// record runs all commands, and reads their recordings.
func (w recordedWorld) record(t *testing.T) {
	var all []recording
	of := t.TempDir()
	for _, c := range recordedCommands {
		t.Run(c.name, func(t *testing.T) {
			if w.kind != "roce:" && c.name != "ping" && c.name != "pingpong" {
				testrun.SkipUnlessLong(t, "each command with devices of each kind")
			}
			var files []string
			c.run(t, w, func(side string) string {
				files = append(files, filepath.Join(of, c.name+" "+side+".pcapng"))
				return files[len(files)-1]
			})
			for _, f := range files {
				all = append(all, readRecording(t, f, w.fabric))
			}
		})
	}
	if _, err := exec.LookPath("tshark"); err != nil || len(all) == 0 {
		return
	}
	if w.fabric == capture.IWARP {
		for _, r := range all {
			r.dissectStreams(t)
		}
		return
	}
	dissectPackets(t, all)
}

// recording is a file that a command has recorded.
type recording struct {
	file   string
	frames int // in it
	pdus   int // of MPA: requests, replies and FPDUs
}

// leastPackets are in each recording.
const leastPackets = 5

// readRecording reads a recording of a fabric.
func readRecording(t *testing.T, file string, fabric capture.Fabric) recording {
	t.Helper()
	r, packets := recording{file: file}, 0
	counts, err := capture.Read(file, func(p *capture.Packet) {
		if p.Stream != nil && (p.Stream.Kind == capture.SetUp || p.Stream.Kind == capture.Segment) {
			r.pdus++
		}
		if packets++; p.Fabric != fabric || p.BadCRC || p.Broken != "" || p.Missing != 0 {
			t.Errorf("%s, frame %d: %v, bad CRC %v, broken: %s, %d bytes missing", filepath.Base(file), p.Frame,
				p.Fabric, p.BadCRC, p.Broken, p.Missing)
		}
	})
	if err != nil || packets < leastPackets {
		t.Errorf("%s: %v, %d packets in %+v, want %d at least", filepath.Base(file), err, packets, counts, leastPackets)
	}
	r.frames = counts.Frames
	return r
}

// dissectStreams has Wireshark read a recording of iWARP.
func (r recording) dissectStreams(t *testing.T) {
	t.Helper()
	// A frame is a TCP segment here, and holds as many FPDUs as came together.
	fields := tshark.Read(t, r.file, "-T", "fields", "-e", "iwarp_mpa.key.req", "-e", "iwarp_mpa.key.rep", "-e",
		"iwarp_mpa.ulpdulength")
	isSeparator := func(r rune) bool { return strings.ContainsRune(",\t\n", r) }
	if seen := len(strings.FieldsFunc(fields, isSeparator)); seen != r.pdus {
		t.Errorf("%s: tshark finds %d MPA requests, replies and FPDUs, want %d", filepath.Base(r.file), seen, r.pdus)
	}
}

// dissectPackets has Wireshark read recordings of packets, all in one file, as its start takes longer than they do.
func dissectPackets(t *testing.T, all []recording) {
	t.Helper()
	var joined []byte // a file may have several sections
	for _, r := range all {
		section, err := os.ReadFile(r.file)
		if err != nil {
			t.Fatal(err)
		}
		joined = append(joined, section...)
	}
	file := filepath.Join(t.TempDir(), "all.pcapng")
	if err := os.WriteFile(file, joined, 0o600); err != nil {
		t.Fatal(err)
	}
	seen, of, end := make([]int, len(all)), 0, 0 // end is the last frame of recording of
	frames := tshark.Read(t, file, "-Y", "infiniband", "-T", "fields", "-e", "frame.number")
	for frame := range strings.FieldsSeq(frames) {
		n, err := strconv.Atoi(frame)
		if err != nil {
			t.Fatal(err)
		}
		for of < len(all) && n > end+all[of].frames {
			end += all[of].frames
			of++
		}
		if of == len(all) {
			t.Fatalf("tshark finds a frame %d, and there are %d", n, end)
		}
		seen[of]++
	}
	for i, r := range all {
		if seen[i] < leastPackets {
			t.Errorf("%s: tshark finds %d frames with infiniband, want %d at least", filepath.Base(r.file), seen[i],
				leastPackets)
		}
	}
}

// Devices without packets of their own are an error with an alternative, and leave no file.
func TestPcapRefused(t *testing.T) {
	t.Parallel()
	for device, want := range map[string]string{
		"shm:":          "shared memory has no packets to record",
		"kernel:mlx5_0": "tcpdump -i DEVICE",
	} {
		for _, args := range []string{"ping -s", "pingpong rc", "pipe -l 7000", "serve .", "ls 127.0.0.1:",
			"cp pcap_linux_test.go 127.0.0.1:", "perf send bw", "bench registration"} {
			file := filepath.Join(t.TempDir(), "a.pcapng")
			ramjetCmd(t, append(strings.Fields(args), "-d", device, "--pcap", file)...).wantError(t, cli.ExitUsage,
				want)
			if _, err := os.Stat(file); err == nil {
				t.Errorf("%s leaves a file", args)
			}
		}
	}
	for _, args := range []string{"demo", "bench notification", "perf send bw --loopback"} {
		ramjetCmd(t, append(strings.Fields(args), "-d", "shm:", "--pcap",
			filepath.Join(t.TempDir(), "a"))...).wantError(t, cli.ExitUsage, "shared memory has no packets to record")
	}
}

// The last line on standard error has the file's contents.
func TestPcapSays(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "a.pcapng")
	r := ramjetCmd(t, "perf", "send", "lat", "--loopback", "-n", "10", "--pcap", file)
	r.wantSuccess(t)
	if want := regexp.MustCompile(fmt.Sprintf(`%s: [1-9]\d* packets written, 0 left out\n$`,
		regexp.QuoteMeta(file))); !want.MatchString(r.stderr) {
		t.Errorf("%q", r.stderr)
	}
}
