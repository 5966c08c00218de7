// SPDX-License-Identifier: Apache-2.0

// Package codec tests the codecs of package wire's formats of fixed length.
package codec

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// Codec is a format.
type Codec interface {
	Decode(b []byte) bool
	Append(b []byte) []byte
}

// Row is a format with its length.
type Row struct {
	Name string
	Len  int
	New  func() Codec
}

// Of returns the row of a type.
func Of[T any, P interface {
	*T
	Codec
}](name string, length int) Row {
	return Row{name, length, func() Codec { return P(new(T)) }}
}

// Test gives each format random bytes, and every number of bytes that is too small.
func Test(t *testing.T, rows []Row) {
	t.Helper()
	rng := rand.New(rand.NewPCG(1, 2))
	for _, r := range rows {
		b := make([]byte, r.Len)
		for range 200 {
			for i := range b {
				b[i] = byte(rng.Uint32())
			}
			r.Check(t, b)
		}
		b = bytes.Repeat([]byte{0xff}, r.Len)
		for n := range b {
			r.Check(t, b[:n:n])
		}
	}
}

// Check holds that bytes decode and encode back, reserved fields included, and that too few are refused and
// leave their target alone.
func (r Row) Check(t *testing.T, b []byte) {
	t.Helper()
	c, want := r.New(), make([]byte, r.Len)
	if len(b) >= r.Len {
		want = b[:r.Len]
	}
	if got := c.Decode(b); got != (len(b) >= r.Len) {
		t.Fatalf("%s decodes from %d bytes: %v", r.Name, len(b), got)
	}
	if got := c.Append(nil); !bytes.Equal(got, want) {
		t.Fatalf("%s of %d bytes encodes to\n%x, want\n%x", r.Name, len(b), got, want)
	}
}
