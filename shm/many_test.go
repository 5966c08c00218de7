// SPDX-License-Identifier: Apache-2.0

//go:build linux

package shm_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// TestMany has many connections send messages back and forth, and pause now and then: far more than a
// device looks at in each pass, so most peers have to ring its doorbell. No message is left lying.
func TestMany(t *testing.T) {
	t.Run("spin", func(t *testing.T) { testMany(t, open) })
	t.Run("events", func(t *testing.T) { testMany(t, openEvents) })
}

func testMany(t *testing.T, open func(testing.TB) *verbs.Device) {
	const connections, messages = 60, 60
	a, b := open(t), open(t)
	ln, err := cm.Listen(t.Context(), b, ":0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	go func() {
		for {
			c, err := ln.Accept(ctx)
			if err != nil {
				return
			}
			go func() { // what comes goes back
				defer c.Close()
				for {
					m, err := c.Recv(ctx)
					if err != nil || c.Send(ctx, m.Bytes()) != nil {
						return
					}
					m.Release()
				}
			}()
		}
	}()
	failed := make(chan error, connections)
	for i := range connections {
		go func() {
			failed <- func() error {
				c, err := cm.Dial(ctx, a, ln.Addr().String())
				if err != nil {
					return err
				}
				defer c.Close()
				for k := range messages {
					want := fmt.Sprint(i, k, string(make([]byte, k*97%3000)))
					if err := c.Send(ctx, []byte(want)); err != nil {
						return fmt.Errorf("connection %d, message %d: %w", i, k, err)
					}
					m, err := c.Recv(ctx)
					if err != nil {
						return fmt.Errorf("connection %d, answer %d: %w", i, k, err)
					}
					if string(m.Bytes()) != want {
						return fmt.Errorf("connection %d, answer %d is another's", i, k)
					}
					m.Release()
					if k%20 == i%20 {
						time.Sleep(time.Duration(i) * 50 * time.Microsecond)
					}
				}
				return nil
			}()
		}()
	}
	for range connections {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
