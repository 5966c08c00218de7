// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/tshark"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// A device's streams are recorded as TCP, over each transport. tshark decodes the recording to the last FPDU,
// and finds nothing wrong with it.
func TestTrace(t *testing.T) {
	tshark.Need(t)
	ca := newCA(t)
	for name, opt := range map[string]iwarp.Options{
		"TCP":      {},
		"segments": {FPDU: 1460},
		"TLS":      {TLS: &tls.Config{}},
		"SCTP":     {SCTP: true},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "iwarp.pcapng")
			out, err := os.Create(file)
			if err != nil {
				t.Fatal(err)
			}
			defer out.Close()
			w, err := trace.NewWriter(out, name)
			if err != nil {
				t.Fatal(err)
			}
			device := func(w *trace.Writer) *verbs.Device {
				dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) {
					o := opt
					o.Trace = w
					if opt.TLS != nil {
						o.TLS = &tls.Config{Certificates: issue(t, ca, nil, netip.MustParseAddr(addr)),
							RootCAs: ca.Pool}
					}
					return iwarp.Open(addr, &o)
				})
				return dev
			}
			dev := device(w)
			talk(t, dev, device(nil))
			if err := w.Close(); err != nil || w.Dropped() > 0 {
				t.Fatalf("%v, %d packets left out", err, w.Dropped())
			}
			// tshark takes every SEND for RPC over RDMA, which these messages are not.
			got := tsharkFields(t, file, "--disable-protocol", "rpcordma", "-o", "tcp.check_checksum:TRUE",
				"-e", "_ws.expert", "-e", "iwarp_mpa.key.req", "-e", "iwarp_mpa.key.rep", "-e", "iwarp_rdma.opcode",
				"-e", "tcp.checksum.status", "-e", "tcp.flags.fin")
			for _, e := range got["_ws.expert"] {
				if strings.Contains(e, "(Warning/") || strings.Contains(e, "(Error/") {
					t.Errorf("tshark says %q", e)
				}
			}
			if len(got["iwarp_mpa.key.req"]) != 1 || len(got["iwarp_mpa.key.rep"]) != 1 {
				t.Errorf("requests %q, replies %q", got["iwarp_mpa.key.req"], got["iwarp_mpa.key.rep"])
			}
			// a WRITE of nothing, which is repeated until the peer answers the first SEND; then SENDs
			sends := 0
			for i, opcode := range got["iwarp_rdma.opcode"] {
				switch {
				case opcode == "0x03" && i > 0:
					sends++
				case opcode != "0x00" || sends > 1:
					t.Errorf("message %d: opcode %s, after %d SENDs", i, opcode, sends)
				}
			}
			fpdus := func() int {
				return int(loopback.Counter(t, dev, "sent_fpdus") + loopback.Counter(t, dev, "rcvd_fpdus"))
			}
			n := len(got["iwarp_rdma.opcode"])
			// devices publish their counters later
			for end := time.Now().Add(time.Minute); fpdus() < n && time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
			if counted := fpdus(); n != counted {
				t.Errorf("%d FPDUs, the device counted %d", n, counted)
			}
			if slices.ContainsFunc(got["tcp.checksum.status"], func(s string) bool { return s != "1" }) {
				t.Error("checksums are wrong")
			}
			if !slices.Contains(got["tcp.flags.fin"], "1") {
				t.Error("the stream does not end")
			}
		})
	}
}

// tsharkFields returns the values of the fields that args ask for, of all packets.
func tsharkFields(t *testing.T, file string, args ...string) map[string][]string {
	t.Helper()
	args = append(args, "-T", "fields", "-E", "separator=|", "-E", "occurrence=a", "-E", "aggregator=;")
	var names []string
	for i, a := range args {
		if a == "-e" {
			names = append(names, args[i+1])
		}
	}
	values := make(map[string][]string)
	for line := range strings.Lines(tshark.Read(t, file, args...)) {
		for i, field := range strings.Split(strings.TrimSuffix(line, "\n"), "|") {
			if field != "" {
				values[names[i]] = append(values[names[i]], strings.Split(field, ";")...)
			}
		}
	}
	return values
}

// talk has a device dial another one and exchange messages of several lengths with it.
func talk(t *testing.T, from, to *verbs.Device) {
	t.Helper()
	ctx := bounded(t)
	l, err := cm.Listen(ctx, to, ":0", cm.WithRecvSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	echoed := make(chan error, 1)
	go func() {
		echoed <- func() error {
			c, err := l.Accept(ctx)
			if err != nil {
				return err
			}
			defer c.Close()
			for {
				b, err := c.Recv(ctx)
				if err == io.EOF {
					return nil
				}
				if err == nil {
					err = c.Send(ctx, b.Bytes())
					b.Release()
				}
				if err != nil {
					return err
				}
			}
		}()
	}()
	c, err := cm.Dial(ctx, from, l.Addr().String(), cm.WithRecvSize(1<<20))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for i, n := range []int{5, 70_000, 1 << 20, 1} {
		want := bytes.Repeat([]byte{byte(i + 1)}, n)
		if err := c.Send(ctx, want); err != nil {
			t.Fatal(err)
		}
		b, err := c.Recv(ctx)
		if err != nil || !bytes.Equal(b.Bytes(), want) {
			t.Fatalf("message %d: not what was sent, or %v", i, err)
		}
		b.Release()
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-echoed; err != nil {
		t.Error(err)
	}
}
