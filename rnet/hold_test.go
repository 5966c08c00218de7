// SPDX-License-Identifier: Apache-2.0

package rnet

import (
	"io"
	"testing"
)

// A message that is held back leaves with the next call of the program, and without one after a while.
func TestHeld(t *testing.T) {
	const text = "what a Write has left"
	for name, next := range map[string]func(*Conn) error{
		"nothing":    func(c *Conn) error { c.mu.Lock(); defer c.mu.Unlock(); c.keep(); return nil },
		"Close":      (*Conn).Close,
		"CloseWrite": (*Conn).CloseWrite,
		"Disconnect": (*Conn).Disconnect,
		"Arm":        func(c *Conn) error { c.Arm(); return nil },
		"Ready":      func(c *Conn) error { c.Ready(); return nil }, // nothing is under way
		"WriteAt":    func(c *Conn) error { _, err := c.WriteAt([]byte("x"), 0); return err },
		"TryWriteAt": func(c *Conn) error { _, err := c.TryWriteAt([]byte("x"), 0); return err },
		"TryWrite":   func(c *Conn) error { _, err := c.TryWrite([]byte("x")); return err },
		"Map":        func(c *Conn) error { _, err := c.Map(make([]byte, 1), 0); return err },
		"Read": func(c *Conn) error {
			go c.Read(make([]byte, 1))
			return nil
		},
		"a Write that fills the ring": func(c *Conn) error {
			_, err := c.Write(make([]byte, 2*DefaultBuffer))
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := testPair(t, Options{IOMaps: 1, KeepAlive: -1})
			deadline(t, a, b)
			if _, err := b.Map(make([]byte, 1), 0); err != nil { // for WriteAt
				t.Fatal(err)
			}
			b.Write([]byte("mapped"))
			if _, err := io.ReadFull(a, make([]byte, len("mapped"))); err != nil {
				t.Fatal(err)
			}
			a.mu.Lock()
			off, n := a.stream.Room()
			if n < len(text) {
				t.Fatalf("room for %d bytes", n)
			}
			a.ep.fill(off, []byte(text))
			a.stream.Stage(len(text))
			a.mu.Unlock()
			done := make(chan error, 1)
			go func() { done <- next(a) }()
			got := make([]byte, len(text))
			if _, err := io.ReadFull(b, got); err != nil || string(got) != text {
				t.Fatalf("%q, %v", got, err)
			}
			go io.Copy(io.Discard, b)
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
	}
}

// The end of a long Write is not held back if nothing was under way, nor for ever if something was.
func TestLoneWrites(t *testing.T) {
	a, b := testPair(t, Options{KeepAlive: -1})
	for _, size := range []int{1, 300, 5000, 61436, 61437, 65536, 200_001} {
		for _, times := range []int{1, 2, 5} {
			deadline(t, a, b)
			buf := make([]byte, size)
			read := make(chan error, 1)
			go func() {
				_, err := io.CopyN(io.Discard, b, int64(times*size))
				read <- err
			}()
			for range times {
				if n, err := a.Write(buf); n != size || err != nil {
					t.Fatal(n, err)
				}
			}
			if times == 1 {
				a.mu.Lock()
				if n := a.stream.Staged(); n > 0 && !a.stream.Busy() {
					t.Errorf("%d bytes of a single Write of %d are held back", n, size)
				}
				a.mu.Unlock()
			}
			if err := <-read; err != nil {
				t.Fatalf("%d times %d bytes: %v", times, size, err)
			}
		}
	}
}

// A call that wants the held message to leave while a Write copies is not forgotten.
func TestHeldWhileCopying(t *testing.T) {
	a, b := testPair(t, Options{})
	deadline(t, a, b)
	a.mu.Lock()
	off, _ := a.stream.Room()
	a.ep.fill(off, []byte("ab"))
	a.stream.Stage(1)
	a.held.copying = true
	a.mu.Unlock()
	a.release()
	a.mu.Lock()
	if a.stream.Staged() != 1 || !a.held.due {
		t.Error("it left under the Write's hands")
	}
	a.held.copying = false
	a.mu.Unlock()
	if _, err := a.Write([]byte("b")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 2)
	if _, err := io.ReadFull(b, got); err != nil || string(got) != "ab" {
		t.Fatalf("%q, %v", got, err)
	}
}
