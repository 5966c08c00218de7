// SPDX-License-Identifier: Apache-2.0

package localca

import (
	"crypto/x509"
	"net/netip"
	"testing"
)

// TestParse gives a CA to another process, whose certificates the first one takes.
func TestParse(t *testing.T) {
	a, err := New()
	if err != nil {
		t.Fatal(err)
	}
	text, err := a.PEM()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	issued, err := b.Issue(nil, netip.MustParseAddr("192.0.2.7"))
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(issued.Certificate[0])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := leaf.Verify(x509.VerifyOptions{Roots: a.Pool, DNSName: "192.0.2.7"}); err != nil {
		t.Error(err)
	}
	for n := range len(text) {
		if _, err := Parse(text[:n]); err == nil && n < len(text)-1 {
			t.Errorf("the first %d bytes of %d are taken", n, len(text))
		}
	}
}
