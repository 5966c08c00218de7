// SPDX-License-Identifier: Apache-2.0

package dhchap

import (
	"crypto/rand"
	"fmt"
	"math/big"
	"sync"
)

// Group is the identifier of a Diffie-Hellman group (base 2.0, figure 425).
type Group uint8

// Groups. Null is none: an eavesdropper of a proof can then try secrets.
const (
	Null Group = iota
	FFDHE2048
	FFDHE3072
	FFDHE4096
	FFDHE6144
	FFDHE8192
)

// groups are the groups of RFC 7919, appendix A: p is 2^b - 2^(b-64) + ([2^(b-130) e] + x) 2^64 - 1.
var groups = [...]struct {
	bits int
	x    int64
}{FFDHE2048: {2048, 560316}, FFDHE3072: {3072, 2625351}, FFDHE4096: {4096, 5736041}, FFDHE6144: {6144, 15705020},
	FFDHE8192: {8192, 10965728}}

// Known reports whether there is such a group.
func (g Group) Known() bool { return int(g) < len(groups) }

// Size returns the length of the group's public values in bytes.
func (g Group) Size() int { return groups[g].bits / 8 }

// String returns the group's name.
func (g Group) String() string {
	switch {
	case g == Null:
		return "no group"
	case g.Known():
		return fmt.Sprintf("ffdhe%d", groups[g].bits)
	}
	return fmt.Sprintf("group %d", uint8(g))
}

var primes [len(groups)]func() *big.Int

func init() {
	for g := range primes {
		primes[g] = sync.OnceValue(func() *big.Int { return prime(groups[g].bits, groups[g].x) })
	}
}

// prime computes the prime of a group.
func prime(bits int, x int64) *big.Int {
	const guard = 64 // bits behind the bits of e that are needed
	// e is the sum of 1/k!.
	e, term := new(big.Int), new(big.Int).Lsh(big.NewInt(1), uint(bits-130+guard))
	for k := int64(1); term.Sign() > 0; k++ {
		e.Add(e, term)
		term.Quo(term, big.NewInt(k))
	}
	p := e.Rsh(e, guard)
	p.Add(p, big.NewInt(x)).Lsh(p, 64)
	one := big.NewInt(1)
	p.Add(p, new(big.Int).Lsh(one, uint(bits)))
	p.Sub(p, new(big.Int).Lsh(one, uint(bits-64)))
	return p.Sub(p, one)
}

// exponentSize is the length of an exponent in bytes: twice the strength of the strongest group, and more.
const exponentSize = 64

// exchange is one side of a Diffie-Hellman exchange.
type exchange struct {
	group    Group
	exponent *big.Int
	public   []byte // empty for Null
}

func newExchange(g Group) *exchange {
	x := &exchange{group: g}
	if g == Null {
		return x
	}
	b := make([]byte, exponentSize)
	rand.Read(b)
	b[0] |= 0x80
	x.exponent = new(big.Int).SetBytes(b)
	x.public = new(big.Int).Exp(big.NewInt(2), x.exponent, primes[g]()).FillBytes(make([]byte, g.Size()))
	return x
}

// secret returns the common secret with a peer; false: its public value is none (RFC 7919, 5.1).
func (x *exchange) secret(public []byte) ([]byte, bool) {
	if len(public) != x.group.Size() {
		return nil, false
	}
	if x.group == Null {
		return nil, true
	}
	p, y, one := primes[x.group](), new(big.Int).SetBytes(public), big.NewInt(1)
	if y.Cmp(one) <= 0 || y.Cmp(new(big.Int).Sub(p, one)) >= 0 {
		return nil, false
	}
	return y.Exp(y, x.exponent, p).FillBytes(make([]byte, len(public))), true
}
