// SPDX-License-Identifier: Apache-2.0

//go:build cabi && linux

package main

import (
	"bytes"
	"io"
	"os"
)

// mapped makes sure that memory is mapped, readable, and writable if need be: what pinning
// it would find out. What is registered may be unmapped later; see package memory.
func mapped(addr uintptr, length uint64, write bool) error {
	if !addressable(addr, length) {
		return efault
	}
	end := uint64(addr) + length
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return nil // no way to know
	}
	defer f.Close()
	text, err := io.ReadAll(f)
	if err != nil {
		return nil
	}
	at := uint64(addr)
	for line := range bytes.Lines(text) {
		from, to, mode, ok := mapping(line)
		if !ok || to <= at {
			continue
		}
		if from > at || mode[0] != 'r' || write && mode[1] != 'w' {
			return efault
		}
		if at = to; at >= end {
			return nil
		}
	}
	return efault
}

// addressable says whether there can be such memory in a program.
func addressable(addr uintptr, length uint64) bool {
	const most = 1 << 57
	return uint64(addr) < most && length <= most-uint64(addr)
}

// mapping reads the beginning of a line of /proc/self/maps: 7f00-7f01 rw-p …
func mapping(line []byte) (from, to uint64, mode []byte, ok bool) {
	a, rest, ok1 := bytes.Cut(line, []byte("-"))
	b, rest, ok2 := bytes.Cut(rest, []byte(" "))
	if !ok1 || !ok2 || len(rest) < 4 {
		return 0, 0, nil, false
	}
	return hex(a), hex(b), rest[:4], true
}

func hex(b []byte) (v uint64) {
	for _, c := range b {
		d := c - '0'
		if c >= 'a' {
			d = c - 'a' + 10
		}
		v = v<<4 | uint64(d)
	}
	return v
}
