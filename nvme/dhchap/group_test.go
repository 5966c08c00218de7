// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"bytes"
	"fmt"
	"math/big"
	"strings"
	"testing"
)

// The groups are RFC 7919's: safe primes whose ends are as printed there.
func TestGroups(t *testing.T) {
	ends := map[Group]string{FFDHE2048: "886b423861285c97", FFDHE3072: "25e41d2b66c62e37",
		FFDHE4096: "c68a007e5e655f6a", FFDHE6144: "a40e329cd0e40e65", FFDHE8192: "d68c8bb7c5c6424c"}
	for g, end := range ends {
		p := primes[g]()
		text := fmt.Sprintf("%x", p)
		const begin = "ffffffffffffffffadf85458a2bb4a9aafdc5620273d3cf1d8b9c583ce2d3695"
		if len(text) != 2*g.Size() || !strings.HasPrefix(text, begin) ||
			!strings.HasSuffix(text, end+"ffffffffffffffff") {
			t.Errorf("%v: %s", g, text)
		}
		if g > FFDHE3072 {
			continue // the others take their time
		}
		if q := new(big.Int).Rsh(p, 1); !p.ProbablyPrime(1) || !q.ProbablyPrime(1) {
			t.Errorf("%v is no safe prime", g)
		}
	}
}

// Both sides of an exchange have the same secret, and values that give it away are refused.
func TestExchange(t *testing.T) {
	for g := range FFDHE8192 + 1 {
		a, b := newExchange(g), newExchange(g)
		s, ok := a.secret(b.public)
		r, ok2 := b.secret(a.public)
		if !ok || !ok2 || !bytes.Equal(s, r) || len(s) != g.Size() {
			t.Errorf("%v: %x, %x", g, s, r)
		}
		if g == Null {
			continue
		}
		p := primes[g]()
		for name, y := range map[string]*big.Int{"0": big.NewInt(0), "1": big.NewInt(1),
			"p - 1": new(big.Int).Sub(p, big.NewInt(1)), "p": p} {
			if _, ok := a.secret(y.FillBytes(make([]byte, g.Size()))); ok {
				t.Errorf("%v: the public value %s", g, name)
			}
		}
		for _, n := range []int{0, 1, g.Size() - 1, g.Size() + 1} {
			if _, ok := a.secret(make([]byte, n)); ok {
				t.Errorf("%v: a public value of %d bytes", g, n)
			}
		}
	}
}
