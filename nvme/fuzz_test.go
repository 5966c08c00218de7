// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"bytes"
	"encoding/binary"
	"runtime"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
)

// A host with a controller sends any capsules on its two queues. Each queue answers a right command after them, or has
// ended. The target writes nothing outside the memory that the commands offer, and has a controller for the host that
// comes next.
func FuzzTarget(f *testing.F) {
	if runtime.GOOS != "linux" {
		f.Skip("127.0.0.0/8 is local as a whole on Linux only")
	}
	s := set(f, "shm", nvme.TargetOptions{InCapsule: 512}, disk(1, 64<<10))
	// An input is parts of a head, a length, and a capsule: bit 0 of the head is the queue, bit 1 has the descriptor
	// name the memory that there is, up to 16 KiB of it.
	const inIO, mapped, offered = 1, 2, 16 << 10
	part := func(head byte, capsule []byte) []byte {
		return append(binary.LittleEndian.AppendUint16([]byte{head}, uint16(len(capsule))), capsule...)
	}
	command := func(op wire.Opcode, blocks uint32, sgl wire.SGL) []byte {
		c := wire.Command{Opcode: op, Flags: wire.FlagSGL, NSID: 1, SGL: sgl}
		c.SetLBA(3, blocks)
		return c.Append(nil)
	}
	memory := func(n int) wire.SGL { return wire.Keyed(wire.SGLKeyed, 0, n, 0) }
	identify := wire.Command{Opcode: wire.AdminIdentify, Flags: wire.FlagSGL, CDW10: 1, SGL: memory(4096)}
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(part(inIO, nil))
	f.Add(part(0, []byte{0}))
	f.Add(part(mapped, identify.Append(nil)))
	f.Add(bytes.Join([][]byte{part(inIO|mapped, command(wire.Read, 2, memory(1024))),
		part(inIO|mapped, command(wire.Write, 4, memory(2048))),
		part(inIO, append(command(wire.Write, 1, wire.InCapsule(0, 512)), make([]byte, 512)...)),
		part(inIO|mapped, command(wire.Compare, 1, memory(512))),
		part(inIO|mapped, command(wire.DatasetManagement, 1, memory(16))),
		part(inIO, command(wire.Read, 1, wire.Keyed(wire.SGLKeyedInvalidate, 1, 512, 2)))}, nil))
	f.Fuzz(func(t *testing.T, in []byte) {
		a, err := connect(t, s, admin())
		ok(t, err)
		q := ioQueue(t, s, a)
		queues := []*raw{a, q}
		for _, r := range queues {
			clear(r.data.Bytes())
		}
		for range 16 {
			if len(in) < 3 {
				break
			}
			head, n := in[0], min(int(binary.LittleEndian.Uint16(in[1:])), len(in)-3, 1024)
			capsule := bytes.Clone(in[3 : 3+n])
			in = in[3+n:]
			r := queues[head&inIO]
			if n >= wire.CommandSize {
				capsule[3] &= 0x7f // the command at the end has another ID
				if head&mapped != 0 {
					at := r.data.Remote()
					binary.LittleEndian.PutUint64(capsule[24:], at.Addr)
					capsule[33], capsule[34] = capsule[33]%(offered>>8), 0
					binary.LittleEndian.PutUint32(capsule[35:], uint32(at.Key))
				}
			}
			if r.c.Send(within(t), capsule) != nil {
				break
			}
		}
		for _, r := range queues {
			last := wire.Command{Opcode: wire.Flush, Flags: wire.FlagSGL, CID: 0xffff, NSID: 1}
			if r == a {
				last.Opcode = wire.AdminKeepAlive
			}
			answers(t, r, &last)
			if b := r.data.Bytes()[offered:]; !bytes.Equal(b, make([]byte, len(b))) {
				t.Error("the target has written where no command told it to")
			}
		}
	})
}

// answers waits until the target answers a command, however, or has ended the connection.
func answers(t *testing.T, r *raw, c *wire.Command) {
	if r.c.Send(within(t), c.Append(nil)) != nil {
		return
	}
	for {
		b, err := r.c.Recv(within(t))
		if err != nil {
			select {
			case <-r.c.Done():
			case <-time.After(patience):
				t.Error("no answer, and the connection stays:", err)
			}
			return
		}
		var done wire.Completion
		if !done.Decode(b.Bytes()) {
			t.Errorf("a response of %d bytes", len(b.Bytes()))
		}
		b.Release()
		if done.CID == c.CID {
			return
		}
	}
}
