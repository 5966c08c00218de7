// SPDX-License-Identifier: Apache-2.0

package iwarp_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/internal/testkit/pair"
	"github.com/ramjet-rdma/ramjet/iwarp"
	"github.com/ramjet-rdma/ramjet/verbs"
)

func newCA(t testing.TB) *localca.CA {
	t.Helper()
	ca, err := localca.New()
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t testing.TB, ca *localca.CA, change func(*x509.Certificate), addrs ...netip.Addr) []tls.Certificate {
	t.Helper()
	c, err := ca.Issue(change, addrs...)
	if err != nil {
		t.Fatal(err)
	}
	return []tls.Certificate{c}
}

// openTLS opens a device with a certificate of a CA.
func openTLS(t testing.TB, ca *localca.CA, change func(o *iwarp.Options, addr string)) (*verbs.Device, netip.Addr) {
	t.Helper()
	return loopback.Open(t, func(addr string) (*verbs.Device, error) {
		o := &iwarp.Options{TLS: &tls.Config{Certificates: issue(t, ca, nil, netip.MustParseAddr(addr)),
			RootCAs: ca.Pool}}
		if change != nil {
			change(o, addr)
		}
		return iwarp.Open(addr, o)
	})
}

// bounded is a context for short operations, on a machine that is busy.
func bounded(t testing.TB) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// echoes sends messages of many lengths to a peer that sends them back, and wants them back.
func echoes(ctx context.Context, t *testing.T, c *cm.Conn) {
	t.Helper()
	for n := 1; n <= cm.DefaultRecvSize; n *= 2 {
		msg := bytes.Repeat([]byte{byte(n), 3}, n/2+1)[:n]
		if err := c.Send(ctx, msg); err != nil {
			t.Fatal(err)
		}
		m, err := c.Recv(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(m.Bytes(), msg) {
			t.Fatalf("%d bytes: not what was sent", n)
		}
		m.Release()
	}
}

// TestTLSConformance runs the suite inside TLS.
func TestTLSConformance(t *testing.T) {
	ca := newCA(t)
	suite(t, func(t testing.TB) *verbs.Device {
		dev, _ := openTLS(t, ca, nil)
		return dev
	}, map[string]string{"Measure/Allocations": "crypto/tls allocates for each record",
		"Measure/IdleQP": "TLS has state of its own"})
}

// TestTLS sends messages both ways.
func TestTLS(t *testing.T) {
	ca := newCA(t)
	a, _ := openTLS(t, ca, nil)
	b, addr := openTLS(t, ca, nil)
	if want := "iwarps:" + addr.String(); b.Name() != want {
		t.Errorf("the device is called %s, not %s", b.Name(), want)
	}
	ctx := bounded(t)
	c, err := cm.Dial(ctx, a, pair.EchoAddress(t, b))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	echoes(ctx, t, c)
}

// TestTLSRefused has handshakes fail, and says why on both sides.
func TestTLSRefused(t *testing.T) {
	ca, other := newCA(t), newCA(t)
	issued := func(from *localca.CA, change func(*x509.Certificate)) func(*iwarp.Options, string) {
		return func(o *iwarp.Options, addr string) {
			o.TLS.Certificates = issue(t, from, change, netip.MustParseAddr(addr))
		}
	}
	expired := func(c *x509.Certificate) {
		c.NotBefore, c.NotAfter = time.Now().Add(-48*time.Hour), time.Now().Add(-24*time.Hour)
	}
	elsewhere := func(c *x509.Certificate) { c.IPAddresses = []net.IP{net.IPv4(192, 0, 2, 7)} }
	plain := func(o *iwarp.Options, _ string) { o.TLS = nil }
	for name, c := range map[string]struct {
		dialer, listener func(*iwarp.Options, string)
		want, refused    string
	}{
		"listener's CA":    {nil, issued(other, nil), "the peer's certificate: .*unknown authority", ""},
		"listener expired": {nil, issued(ca, expired), "the peer's certificate: .*expired", ""},
		"listener's name":  {nil, issued(ca, elsewhere), "the peer's certificate: .*valid for 192.0.2.7", ""},
		"listener nameless": {nil, issued(ca, func(c *x509.Certificate) { c.IPAddresses = nil }),
			"the peer's certificate: .*IP SANs", ""},
		"dialer's CA": {issued(other, nil), nil, "does not take this side's certificate",
			"the peer's certificate: .*unknown authority"},
		"dialer expired": {issued(ca, expired), nil, "does not take this side's certificate",
			"the peer's certificate: .*expired"},
		"dialer is bare": {func(o *iwarp.Options, _ string) {
			o.TLS.Certificates, o.TLS.GetCertificate = nil, func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
				return nil, nil
			}
		}, nil, "does not take this side's certificate", "didn't provide a certificate"},
		"dialer is plain":   {plain, nil, "iwarps:", "the peer does not speak it"},
		"listener is plain": {nil, plain, "does it speak iwarps: there", ""},
	} {
		t.Run(name, func(t *testing.T) {
			refused := make(chan error, 1)
			a, _ := openTLS(t, ca, c.dialer)
			b, _ := openTLS(t, ca, func(o *iwarp.Options, addr string) {
				o.Refused = func(_ netip.AddrPort, err error) {
					select {
					case refused <- err:
					default:
					}
				}
				if c.listener != nil {
					c.listener(o, addr)
				}
			})
			ctx := bounded(t)
			conn, err := cm.Dial(ctx, a, pair.EchoAddress(t, b))
			if err == nil {
				conn.Close()
				t.Fatal("there is a connection")
			}
			matches(t, err, c.want)
			if c.refused != "" {
				select {
				case err := <-refused:
					matches(t, err, c.refused)
				case <-ctx.Done():
					t.Error("the listener hears of nothing")
				}
			}
		})
	}
}

// matches wants words of a pattern in an error, in their order.
func matches(t *testing.T, err error, pattern string) {
	t.Helper()
	rest := err.Error()
	for word := range strings.SplitSeq(pattern, ".*") {
		_, after, ok := strings.Cut(rest, word)
		if !ok {
			t.Errorf("%q lacks %q", err, word)
			return
		}
		rest = after
	}
}

// TestTLSOnly13 offers older versions than TLS 1.3.
func TestTLSOnly13(t *testing.T) {
	ca := newCA(t)
	b, _ := openTLS(t, ca, nil)
	address := pair.EchoAddress(t, b)
	raw := dialRaw(t, address)
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, MaxVersion: tls.VersionTLS12})
	if err := c.Handshake(); err == nil || !strings.Contains(err.Error(), "version") {
		t.Errorf("TLS 1.2: %v", err)
	}
}

// TestTLSRaw is a peer that breaks the protocol: it ends TCP alone, sends bytes that are no record,
// half of a ClientHello, or nothing.
func TestTLSRaw(t *testing.T) {
	ca := newCA(t)
	b, addr := openTLS(t, ca, nil)
	address := pair.EchoAddress(t, b)
	for name, do := range map[string]func(raw net.Conn, c *tls.Conn){
		"no MPA":      func(_ net.Conn, c *tls.Conn) { c.Write([]byte("GET / HTTP/1.1\r\n\r\n        ")) },
		"no record":   func(raw net.Conn, _ *tls.Conn) { raw.Write(bytes.Repeat([]byte{0x17, 3, 3, 0, 20}, 50)) },
		"half closed": func(raw net.Conn, _ *tls.Conn) { raw.(*net.TCPConn).CloseWrite() },
		"cut record": func(raw net.Conn,
			_ *tls.Conn) {
			raw.Write([]byte{0x17, 3, 3, 1})
			raw.(*net.TCPConn).CloseWrite()
		},
	} {
		raw := dialRaw(t, address)
		raw.SetDeadline(time.Now().Add(3 * time.Minute))
		c := tls.Client(raw, &tls.Config{RootCAs: ca.Pool, ServerName: addr.String(), Certificates: issue(t, ca, nil)})
		if err := c.Handshake(); err != nil {
			t.Fatal(err)
		}
		do(raw, c)
		if n, err := c.Read(make([]byte, 1)); n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %d bytes, %v", name, n, err)
		}
	}
	hello := dialRaw(t, address)
	hello.Write([]byte{0x16, 3, 1, 2, 0, 1, 0})
	dialRaw(t, address) // silent
	other, _ := openTLS(t, ca, nil)
	c, err := cm.Dial(bounded(t), other, address)
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

// TestTLSOptions refuses options that make no sense.
func TestTLSOptions(t *testing.T) {
	ca := newCA(t)
	for want, c := range map[string]*tls.Config{
		"no certificate":      {RootCAs: ca.Pool},
		"no RootCAs":          {Certificates: issue(t, ca, nil)},
		"MaxVersion is below": {Certificates: issue(t, ca, nil), RootCAs: ca.Pool, MaxVersion: tls.VersionTLS12},
	} {
		if dev, err := iwarp.Open("127.0.0.1", &iwarp.Options{TLS: c}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
			if err == nil {
				dev.Close()
			}
		}
	}
	cert, key, root, err := ca.Write(t.TempDir(), netip.MustParseAddr("192.0.2.7"))
	if err != nil {
		t.Fatal(err)
	}
	none, bad := filepath.Join(t.TempDir(), "none"), filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(bad, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := iwarp.LoadTLS(cert, key, root); err != nil {
		t.Error(err)
	}
	for _, f := range [][3]string{{"", key, root}, {cert, "", root}, {cert, key, ""}, {none, key, root},
		{cert, none, root}, {cert, key, none},
		{bad, key, root}, {cert, cert, root}, {cert, key, bad}, {cert, key, key}} {
		if _, err := iwarp.LoadTLS(f[0], f[1], f[2]); err == nil {
			t.Errorf("%v: no error", f)
		}
	}
}
