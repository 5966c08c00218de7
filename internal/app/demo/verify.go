// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/ramjet-rdma/ramjet/verbs"
)

// expectation is the expected contents of the peer's messages.
type expectation struct {
	size int
	data []byte
}

// expected returns the data that should arrive at r, for steps that check it while they run.
func (st *step) expected(r role) expectation {
	e := expectation{size: st.Size}
	if st.Op == verbs.OpWrite {
		e.data = make([]byte, st.total())
		st.seed(!r).fill(e.data)
	}
	return e
}

func (e *expectation) message(i int) []byte {
	if e.data == nil {
		return nil
	}
	return e.data[i*e.size:][:e.size]
}

// verify compares every byte after a step: the data that arrived, the bytes behind it, and the source,
// which must not have changed. It returns how many bytes arrived.
func (s *side) verify(st *step) (n int64, err error) {
	if st.sources(s.role) {
		s.out.Do(func(b []byte) { err = st.seed(s.role).check(b[:st.total()]) })
		if err != nil {
			return 0, fmt.Errorf("the source changed: %w", err)
		}
	}
	s.in.Do(func(b []byte) {
		landed := 0
		switch {
		case st.lands(s.role):
			landed = st.total()
			err = st.seed(!s.role).check(b[:landed])
		case st.atomic() && s.role == first:
			landed = st.total()
			err = st.checkResults(b)
		}
		n = int64(landed)
		if err == nil && bytes.ContainsFunc(b[landed:landed+guardLen], func(r rune) bool { return r != 0 }) {
			err = errors.New("bytes behind the buffer changed")
		}
	})
	if err != nil || !st.atomic() || s.role == first {
		return n, err
	}
	s.words.Do(func(b []byte) { err = st.checkWord(b) })
	return 8, err
}

// checkResults compares the results of atomics.
func (st *step) checkResults(b []byte) error {
	before, _, _, _ := st.atomicWant()
	for i, want := range before {
		if got := binary.NativeEndian.Uint64(b[8*i:]); got != want {
			return fmt.Errorf("operation %d returned %#x instead of %#x", i, got, want)
		}
	}
	return nil
}

// checkWord compares the word that atomics worked on, and its neighbors.
func (st *step) checkWord(b []byte) error {
	_, _, _, after := st.atomicWant()
	if got := binary.NativeEndian.Uint64(b[wordOffset:]); got != after {
		return fmt.Errorf("the word is %#x instead of %#x", got, after)
	}
	if binary.NativeEndian.Uint64(b) != 0 || binary.NativeEndian.Uint64(b[wordOffset+8:]) != 0 {
		return errors.New("the word's neighbours changed")
	}
	return nil
}
