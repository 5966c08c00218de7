// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
)

// forKinds runs a test for each kind of iWARP device, with two addresses, whose certificates
// are there.
func forKinds(t *testing.T, run func(t *testing.T, kind, a, b string)) {
	if runtime.GOOS != "linux" {
		t.Skip("iWARP over TCP needs Linux")
	}
	t.Parallel()
	for _, kind := range []string{"iwarp:", "iwarps:", "iwarp+sctp:"} {
		t.Run(strings.TrimSuffix(kind, ":"), func(t *testing.T) {
			t.Parallel()
			a, b := host(testDevice(t)), host(testDevice(t))
			cert, key, ca := tlsFilesFor(t, a, b)
			setEnv(t, "RAMJET_TLS_CERT", cert)
			setEnv(t, "RAMJET_TLS_KEY", key)
			setEnv(t, "RAMJET_TLS_CA", ca)
			run(t, kind, a, b)
		})
	}
}

func tlsFilesFor(t *testing.T, addrs ...string) (cert, key, root string) {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	var all []netip.Addr
	for _, a := range addrs {
		all = append(all, netip.MustParseAddr(a))
	}
	if cert, key, root, err = ca.Write(t.TempDir(), all...); err != nil {
		t.Fatal(err)
	}
	return cert, key, root
}

func TestKindsPing(t *testing.T) {
	forKinds(t, func(t *testing.T, kind, a, b string) {
		pcap := filepath.Join(t.TempDir(), "server.pcapng")
		server := startReady(t, "waiting for clients", "ping", "-s", "-V", "-d", kind+a, "--pcap", pcap)
		ramjetCmd(t, "ping", "-c", "-d", kind+b, "-a", a, "-C", "20", "-S", "30000", "-V").wantSuccess(t)
		r := server.wait()
		r.wantSuccess(t)
		const least = 20 * 2 * 30000
		if info, err := os.Stat(pcap); err != nil || info.Size() < least ||
			!strings.Contains(r.stderr, " packets written, 0 left out") {
			t.Errorf("%v, %v recorded, want %d bytes at least: %s", err, info, least, r.stderr)
		}
	})
}

func TestKindsCp(t *testing.T) {
	forKinds(t, func(t *testing.T, kind, a, b string) {
		dir, src := t.TempDir(), filepath.Join(t.TempDir(), "file")
		writeRandom(t, src, 9<<20+5)
		startReady(t, ": serving ", "serve", "-d", kind+a, dir)
		ramjetCmd(t, "cp", "-d", kind+b, src, a+":").wantSuccess(t)
		want, _ := os.ReadFile(src)
		if got, err := os.ReadFile(filepath.Join(dir, "file")); err != nil || string(got) != string(want) {
			t.Errorf("%d bytes of %d, %v", len(got), len(want), err)
		}
	})
}

func TestKindsPipe(t *testing.T) {
	forKinds(t, func(t *testing.T, kind, a, b string) {
		server, serverIn := startPipe(t, "-l", "-v", "-d", kind+a, "7000")
		client, clientIn := startPipe(t, "-d", kind+b, a, "7000")
		data := strings.Repeat("over and out\n", 100_000)
		clientIn.Write([]byte(data))
		clientIn.Close()
		serverIn.Close()
		if r := server.wait(); r.status != 0 || r.stdout != data {
			t.Errorf("server: %d bytes of %d, %s", len(r.stdout), len(data), r.stderr)
		}
		client.wait().wantSuccess(t)
	})
}

func TestKindsPerf(t *testing.T) {
	forKinds(t, func(t *testing.T, kind, _, _ string) {
		for _, op := range []string{"send lat", "write bw", "read bw", "atomic lat"} {
			args := append(append([]string{"perf"}, strings.Fields(op)...), "--loopback", "-n", "100", "-d", kind)
			if !strings.HasPrefix(op, "atomic") {
				args = append(args, "-s", "20000")
			}
			ramjetCmd(t, args...).wantSuccess(t)
		}
	})
}

// TestKindsDemo has the whole demo, of two processes, over each kind; internal/app/demo has it in one process.
func TestKindsDemo(t *testing.T) {
	testrun.SkipUnlessLong(t, "three demos, which measure for seconds")
	forKinds(t, func(t *testing.T, kind, _, _ string) {
		r := ramjetCmd(t, "demo", "-d", kind)
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "over iWARP: ") ||
			!strings.Contains(r.stdout, "both compared every byte: no error") {
			t.Errorf("%s", r.stdout)
		}
		ramjetCmd(t, "demo", "-d", kind+"127.0.0.1").wantError(t, cli.ExitUsage, "chooses the addresses")
	})
}

func TestKindsDevices(t *testing.T) {
	if runtime.GOOS == "linux" {
		if r := ramjetCmd(t, "devices"); !strings.Contains(r.stdout, "\niwarp:127.0.0.1 ") {
			t.Errorf("%s", r.stdout)
		}
	}
	forKinds(t, func(t *testing.T, kind, a, _ string) {
		r := ramjetCmd(t, "devices", "-v", kind+a)
		r.wantSuccess(t)
		if !strings.Contains(r.stdout, "iWARP (1)") || !strings.Contains(r.stdout, kind+a) {
			t.Errorf("%s", r.stdout)
		}
	})
}

// TestTLSFlags names the files by flags, wrongly and not.
func TestTLSFlags(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("iWARP over TCP needs Linux")
	}
	a, b := host(testDevice(t)), host(testDevice(t))
	cert, key, ca := tlsFilesFor(t, a)
	flags := []string{"--tls-cert", cert, "--tls-key", key, "--tls-ca", ca}
	ramjetCmd(t, "devices", "iwarps:"+a).wantError(t, cli.ExitUsage, "RAMJET_TLS_CERT")
	ramjetCmd(t, "devices", "iwarps:"+a, "--tls-cert", cert, "--tls-key", key).wantError(t, cli.ExitUsage,
		"no file for the CA")
	ramjetCmd(t, "devices", "iwarps:"+a, "--tls-cert", ca, "--tls-key", key, "--tls-ca", ca).wantError(t, cli.ExitUsage,
		"does not match")
	ramjetCmd(t, append(flags, "devices", "iwarps:"+a)...).wantSuccess(t)
	server := startReady(t, "waiting for clients", append(flags, "ping", "-s", "-d", "iwarps:"+a)...)
	// The server's certificate is good for another address as well, as servers do not check that of clients.
	ramjetCmd(t, append(flags, "ping", "-c", "-d", "iwarps:"+b, "-a", a, "-C", "2")...).wantSuccess(t)
	server.wait().wantSuccess(t)

	server = startReady(t, "waiting for clients", append(flags, "ping", "-s", "-P", "-d", "iwarps:"+a)...)
	otherCert, otherKey, _ := tlsFilesFor(t, b)
	ramjetCmd(t, "ping", "-c", "-d", "iwarps:"+b, "-a", a, "-C", "2", "--tls-cert", otherCert, "--tls-key", otherKey,
		"--tls-ca", ca).
		wantError(t, cli.ExitFailed, "does not take this side's certificate")
	ramjetCmd(t, "ping", "-c", "-d", "iwarp:"+b, "-a", a, "-C", "2").wantError(t, cli.ExitFailed, "wants TLS")
	server.interrupt()
	if r := server.wait(); !strings.Contains(r.stderr, "refused: TLS with "+b) ||
		!strings.Contains(r.stderr, "unknown authority") {
		t.Errorf("%s", r.stderr)
	}
}
