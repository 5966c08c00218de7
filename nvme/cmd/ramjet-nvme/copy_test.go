// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

const testNQN = "nqn.2026-01.org.example:disks"

// restarting is a file during whose copying the target is started again, with a disk that has lost what it had.
type restarting struct {
	*bytes.Reader
	at      int64
	restart func()
}

func (r *restarting) Read(b []byte) (int, error) {
	if n, _ := r.Seek(0, io.SeekCurrent); n >= r.at && r.restart != nil {
		r.restart()
		r.restart = nil
	}
	return r.Reader.Read(b)
}

// A copy goes on when the target is started again, and writes again what was lost; what cannot be read again is an
// error.
func TestCopyAgain(t *testing.T) {
	for _, seekable := range []bool{true, false} {
		targets, hosts := rdmatest.PairOf(t, "shm")
		var target *nvme.Target
		var memory *nvme.Memory
		serve := func(address string) string {
			if target != nil {
				target.Close()
			}
			memory, target = nvme.NewMemory(8<<20), nvme.NewTarget(nvme.TargetOptions{})
			sub, err := target.AddSubsystem(nvme.SubsystemOptions{NQN: testNQN, AnyHost: true})
			if err != nil {
				t.Fatal(err)
			}
			if err := sub.AddNamespace(nvme.Namespace{ID: 1, Disk: memory, Size: 8 << 20, Writable: true}); err != nil {
				t.Fatal(err)
			}
			port, err := target.Listen(t.Context(), targets, address)
			if err != nil {
				t.Fatal(err)
			}
			return port.Addr().String()
		}
		address := serve(":0")
		defer func() { target.Close() }()
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		defer cancel()
		c, err := nvme.Dial(ctx, hosts, address, testNQN, nvme.HostOptions{KeepAlive: 100 * time.Millisecond,
			Timeout: patience, ReconnectDelay: time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		d, err := c.Open(ctx, 1)
		if err != nil {
			t.Fatal(err)
		}
		image := make([]byte, 5<<20+100)
		for i := range image {
			image[i] = byte(rand.Uint32())
		}
		file := &restarting{bytes.NewReader(image), 3 << 20, func() { serve(address) }}
		var in io.Reader = file
		if !seekable {
			in = io.MultiReader(file)
		}
		err = copyTo(ctx, d, in, 512)
		if !seekable {
			if !errors.Is(err, nvme.ErrWriteCacheLost) {
				t.Error("what cannot be read again:", err)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, len(image))
		if _, err := memory.ReadAt(got, 512); err != nil || !bytes.Equal(got, image) {
			t.Error("the disk has other bytes:", err)
		}
	}
}
