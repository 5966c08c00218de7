// SPDX-License-Identifier: Apache-2.0

package checkboard_test

import (
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/checkboard"
)

func open(t *testing.T) *checkboard.Board {
	t.Helper()
	b, err := checkboard.Open()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return b
}

// Other processes find a board's operations that match their query, and no others.
func TestPosted(t *testing.T) {
	one := open(t)
	two := open(t) // finds the first as it is opened
	op := checkboard.Operation{Op: 3, Source: 17, Dest: 18, GID: [16]byte{1, 15: 2}, Key: 5, Length: 4096,
		Addr: 1 << 40}
	before := two.Now()
	if at := two.Posted(&op, 0, ^uint64(0)); at != 0 {
		t.Errorf("posted at %d, but it was not", at)
	}
	one.Post(&op, one.Now())
	at := two.Posted(&op, before, ^uint64(0))
	if at < before {
		t.Fatalf("posted at %d, after %d", at, before)
	}
	if got := two.Posted(&op, at, ^uint64(0)); got != 0 {
		t.Errorf("posted at %d, not after %d", got, at)
	}
	if got := two.Posted(&op, 0, at); got != 0 {
		t.Errorf("posted at %d, not before %d", got, at)
	}
	other := op
	other.GID[0] = 9
	if got := two.Posted(&other, 0, ^uint64(0)); got != 0 {
		t.Errorf("one to another address was posted at %d", got)
	}
	if got := one.Posted(&op, 0, ^uint64(0)); got != 0 {
		t.Errorf("the board's own was posted at %d", got)
	}
	two.Post(&op, two.Now())
	one.Refresh()
	if got := one.Posted(&op, 0, ^uint64(0)); got < at {
		t.Errorf("the second board's was posted at %d, after %d", got, at)
	}
}

// Old operations make room for new ones.
func TestPostedMany(t *testing.T) {
	one, two := open(t), open(t)
	op := checkboard.Operation{Source: 1}
	one.Post(&op, one.Now())
	for i := range uint32(10000) {
		one.Post(&checkboard.Operation{Source: 2, Length: i}, one.Now())
	}
	if at := two.Posted(&op, 0, ^uint64(0)); at != 0 {
		t.Errorf("the first is remembered, posted at %d", at)
	}
	if at := two.Posted(&checkboard.Operation{Source: 2, Length: 9999}, 0, ^uint64(0)); at == 0 {
		t.Error("the last is not remembered")
	}
}

// Other processes find a board's connections of any numbers: among 200 some have the same places.
func TestConnections(t *testing.T) {
	one, two := open(t), open(t)
	op := checkboard.Operation{Op: checkboard.Noticed, Source: 1}
	one.Post(&op, one.Now())
	for n := range uint32(200) {
		c := checkboard.Connection{Source: n*7919 + 1, Dest: n*104729 + 2, GID: [16]byte{15: 1}}
		if two.Noticed(&op, &c, 0, ^uint64(0)) != 0 {
			t.Fatalf("connection %d is there before it was told of", n)
		}
		one.Connect(&c)
		one.Connect(&c)
	}
	for n := range uint32(200) {
		c := checkboard.Connection{Source: n*7919 + 1, Dest: n*104729 + 2, GID: [16]byte{15: 1}}
		if two.Noticed(&op, &c, 0, ^uint64(0)) == 0 {
			t.Errorf("connection %d was forgotten", n)
		}
	}
}
