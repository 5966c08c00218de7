// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

func random(n int) []byte {
	b := make([]byte, n)
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], rand.Uint64())
	rand.NewChaCha8(seed).Read(b)
	return b
}

// A host reads the data that it has written, in all sizes: in the capsule, in one command, in several.
func TestReadWrite(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{}, disk(1, 4<<20))
		d, err := s.dial(t, nvme.HostOptions{Queues: 2}).Open(within(t), 1)
		ok(t, err)
		if d.Size() != 4<<20 || d.BlockSize() != 512 || d.ReadOnly() || d.ID() != 1 {
			t.Errorf("%d bytes, blocks of %d, read-only %t", d.Size(), d.BlockSize(), d.ReadOnly())
		}
		ctx := within(t)
		for _, n := range []int{512, 4096, 8192, 8704, 65536, 131072, 131584, 1 << 20, 3 << 20} {
			want := random(n)
			at := int64(rand.IntN(int(d.Size())-n)) &^ 511
			_, err := d.Write(ctx, want, at)
			ok(t, err)
			got := make([]byte, n)
			_, err = d.Read(ctx, got, at)
			ok(t, err)
			if !bytes.Equal(got, want) {
				t.Fatalf("%d bytes at %d are others", n, at)
			}
			ok(t, d.Compare(ctx, want, at))
			from, to := rand.IntN(n), 0
			to = from + rand.IntN(n-from)
			if _, err := d.Read(ctx, got[from:to], at+int64(from)); err != nil || !bytes.Equal(got, want) {
				t.Fatalf("bytes %d to %d of %d: %v", from, to, n, err)
			}
			want[n-1]++
			if err := d.Compare(ctx, want, at); !errors.Is(err, wire.CompareFailure) {
				t.Fatal(err)
			}
		}
		ok(t, d.Flush(ctx))
		_, err = d.WriteThrough(ctx, random(1024), 512)
		ok(t, err)
		ok(t, d.WriteZeroes(ctx, 512, 1024))
		got := random(1024)
		_, err = d.Read(ctx, got, 512)
		ok(t, err)
		if !bytes.Equal(got, make([]byte, 1024)) {
			t.Error("what was written with zeros is not zero")
		}
		ok(t, d.Deallocate(ctx, 0, d.Size()))
		if n, err := d.ReadAt(make([]byte, 100), d.Size()-10); n != 10 || err != io.EOF {
			t.Error(n, err)
		}
		if n, err := d.ReadAt(make([]byte, 1), d.Size()); n != 0 || err != io.EOF {
			t.Error(n, err)
		}
		for _, bad := range []struct{ n, at int }{{511, 0}, {512, 1}, {512, 4 << 20}, {1024, 4<<20 - 512},
			{512, -512}} {
			if _, err := d.WriteAt(make([]byte, bad.n), int64(bad.at)); err == nil {
				t.Error(bad, "was written")
			}
		}
	})
}

// Many goroutines on several queues, each in a part of its own.
func TestMany(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		const parts, part = 16, 64 << 10
		s := set(t, kind, nvme.TargetOptions{}, disk(1, parts*part))
		c := s.dial(t, nvme.HostOptions{Queues: 3, QueueDepth: 8})
		d, err := c.Open(within(t), 1)
		ok(t, err)
		ctx := t.Context() // each command has its bound
		var all sync.WaitGroup
		for i := range parts {
			all.Go(func() {
				r := rand.New(rand.NewPCG(1, uint64(i)))
				for range 20 {
					n := 512 * (1 + r.IntN(part/512))
					at := int64(i*part + 512*r.IntN((part-n)/512+1))
					want, got := random(n), make([]byte, n)
					if _, err := d.Write(ctx, want, at); err != nil {
						t.Error(err)
						return
					}
					if _, err := d.Read(ctx, got, at); err != nil || !bytes.Equal(got, want) {
						t.Errorf("%d bytes at %d: %v", n, at, err)
						return
					}
				}
			})
		}
		all.Wait()
	})
}

// A host finds the subsystems that let it in, and no others.
func TestDiscovery(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{}, disk(1, 4096), disk(7, 8192))
		_, err := s.target.AddSubsystem(nvme.SubsystemOptions{NQN: "nqn.2026-01.org.example:mine",
			Hosts: []string{hostNQN}})
		ok(t, err)
		_, err = s.target.AddSubsystem(nvme.SubsystemOptions{NQN: "nqn.2026-01.org.example:nobody"})
		ok(t, err)
		names := func(host string) (list []string) {
			entries, err := nvme.Discover(within(t), s.dev, s.addr(), nvme.HostOptions{NQN: host})
			ok(t, err)
			for i := range entries {
				if list = append(list, entries[i].SubNQN); nvme.EntryAddress(&entries[i]) != s.addr() {
					t.Error(entries[i])
				}
			}
			return list
		}
		if got := names(hostNQN); !slices.Equal(got, []string{diskNQN, "nqn.2026-01.org.example:mine"}) {
			t.Error(got)
		}
		if got := names("nqn.2026-01.org.example:other"); !slices.Equal(got, []string{diskNQN}) {
			t.Error(got)
		}
		other := netip.MustParseAddrPort("192.0.2.9:8009")
		ok(t, s.target.AddReferral(other))
		if err := s.target.AddReferral(other); err == nil {
			t.Error("a referral twice")
		}
		if err := s.target.AddReferral(netip.MustParseAddrPort("0.0.0.0:8009")); err == nil {
			t.Error("a referral to no address")
		}
		entries, err := nvme.Discover(within(t), s.dev, s.addr(), nvme.HostOptions{NQN: hostNQN})
		ok(t, err)
		last := entries[len(entries)-1]
		if last.Type != wire.EntryReferral || last.SubNQN != wire.DiscoveryNQN ||
			nvme.EntryAddress(&last) != other.String() {
			t.Errorf("%+v", last)
		}
		ok(t, s.target.RemoveReferral(other))
		if err := s.target.RemoveReferral(other); err == nil {
			t.Error("a referral removed twice")
		}
		if got := names(hostNQN); len(got) != 2 {
			t.Error(got)
		}
		ids, err := s.dial(t, nvme.HostOptions{}).Namespaces(within(t))
		if err != nil || !slices.Equal(ids, []uint32{1, 7}) {
			t.Error(ids, err)
		}
		_, err = nvme.Dial(within(t), s.dev, s.addr(), "nqn.2026-01.org.example:nobody", nvme.HostOptions{NQN: hostNQN})
		if !errors.Is(err, wire.ConnectInvalidHost) {
			t.Error(err)
		}
		_, err = nvme.Dial(within(t), s.dev, s.addr(), "nqn.2026-01.org.example:nothing",
			nvme.HostOptions{NQN: hostNQN})
		if !errors.Is(err, wire.ConnectInvalidParameters) {
			t.Error(err)
		}
	})
}
