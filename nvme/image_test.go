// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// An image is read as it is, in all sizes, by several hosts, and refuses writes. Further images come and go while hosts
// are connected.
func TestImage(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		image := nvme.Image(random(3 << 20))
		list := func(id uint32, m nvme.Image) nvme.Namespace {
			return nvme.Namespace{ID: id, Disk: m, Size: int64(len(m))}
		}
		s := set(t, kind, nvme.TargetOptions{QueueMemory: 2 << 20}, list(1, image))
		for range 2 {
			c := s.dial(t, nvme.HostOptions{Queues: 2, QueueDepth: 8})
			d, err := c.Open(within(t), 1)
			ok(t, err)
			for _, n := range []int{512, 4096, 1000, 131072, 1 << 20, len(image)} {
				got, at := make([]byte, n), rand.IntN(len(image)-n+1)
				_, err := d.Read(within(t), got, int64(at))
				ok(t, err)
				if !bytes.Equal(got, image[at:at+n]) {
					t.Fatalf("%d bytes at %d are others", n, at)
				}
			}
			if _, err := d.WriteAt(make([]byte, 512), 0); err == nil {
				t.Error("an image was written")
			}
			other := nvme.Image(random(4096))
			ok(t, s.sub.AddNamespace(list(2, other)))
			d, err = c.Open(within(t), 2)
			ok(t, err)
			got := make([]byte, len(other))
			_, err = d.ReadAt(got, 0)
			ok(t, err)
			if !bytes.Equal(got, other) {
				t.Error("a namespace that is there again has another content")
			}
			ok(t, s.sub.RemoveNamespace(2))
		}
	})
}

// Reads of an image with wrong descriptors and ranges are refused as reads of another disk are.
func TestImageWrongCommands(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{}, nvme.Namespace{ID: 1, Disk: make(nvme.Image, 64<<10), Size: 32 << 10})
		a, err := connect(t, s, admin())
		ok(t, err)
		q := ioQueue(t, s, a)
		for _, c := range []struct {
			slba   uint64
			blocks uint32
			flags  uint32
			sgl    wire.SGL
			want   wire.Status
		}{
			{0, 1, 0, q.keyed(512), wire.Success},
			{0, 1, wire.ForceUnitAccess, q.keyed(512), wire.Success},
			{63, 1, 0, q.keyed(512), wire.Success},
			{64, 1, 0, q.keyed(512), wire.LBAOutOfRange},
			{63, 2, 0, q.keyed(1024), wire.LBAOutOfRange},
			{1<<64 - 1, 1, 0, q.keyed(512), wire.LBAOutOfRange},
			{0, 2, 0, q.keyed(512), wire.SGLLengthInvalid},
			{0, 1, 0, q.keyed(1024), wire.SGLLengthInvalid},
			{0, 1, 0, wire.SGL{}, wire.SGLTypeInvalid},
			{0, 1, 0, wire.InCapsule(0, 512), wire.SGLTypeInvalid},
		} {
			cmd := wire.Command{Opcode: wire.Read, NSID: 1, CDW12: c.flags, SGL: c.sgl}
			cmd.SetLBA(c.slba, c.blocks)
			if done := q.ask(cmd, nil); done.Status != c.want {
				t.Errorf("%+v: %v", c, done.Status)
			}
		}
	})
}
