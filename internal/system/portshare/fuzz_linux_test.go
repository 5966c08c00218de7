// SPDX-License-Identifier: Apache-2.0

package portshare

import (
	"net"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// FuzzBoard is a board into which another member has written anything. Every answer is valid, and the next claim is
// found.
func FuzzBoard(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add(make([]byte, claimsAt))
	full := make([]byte, claimsAt+2*claimSize)
	for i := range full {
		full[i] = 0xff
	}
	f.Add(full)
	full[0], full[1], full[2], full[3], full[4], full[5], full[6], full[7] = 2, 0, 0, 0, 0, 0, 0, 0
	f.Add(full)
	f.Fuzz(func(t *testing.T, content []byte) {
		fd, err := newBoard()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
		b, err := openBoard(fd)
		if err != nil {
			t.Fatal(err)
		}
		defer b.close()
		if err := unix.Ftruncate(fd, int64(len(content))); err != nil {
			t.Fatal(err)
		}
		if _, err := b.file.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		if slot, err := b.leader(); slot < 0 || slot >= Slots {
			t.Errorf("the leader is in slot %d, %v", slot, err)
		}
		if slot, ok := b.owner(7); ok && (slot < 0 || slot >= Slots) {
			t.Errorf("slot %d has a service", slot)
		}
		for slot := range Slots {
			b.controlNumber(slot)
		}
		mine, err := b.takeSlot()
		if err != nil {
			return // the board cannot be read
		}
		if err := b.claim(claim{7, ^uint64(0), mine}); err == nil {
			if slot, ok := b.owner(7); !ok || slot != mine {
				t.Errorf("the service that slot %d has just claimed is slot %d's, %v", mine, slot, ok)
			}
		}
	})
}

// FuzzControl takes the bytes that a caller sends to a control socket, and a member's answers to a caller: with as many
// descriptors as the first byte says.
func FuzzControl(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	f.Add([]byte{0, version})
	f.Add([]byte{0, version, wantDescriptors})
	f.Add([]byte{1, version})
	f.Add([]byte{descriptors, version})
	f.Add([]byte{descriptors + 1, version})
	f.Fuzz(func(t *testing.T, in []byte) {
		if len(in) == 0 {
			return
		}
		ours, theirs := seqpair(t)
		var fds []int
		for range min(int(in[0]), 100) {
			fds = append(fds, 2)
		}
		var oob []byte
		if len(fds) > 0 {
			oob = unix.UnixRights(fds...)
		}
		message := in[1:min(len(in), 1000)]
		for range 2 {
			if _, _, err := theirs.WriteMsgUnix(message, oob, nil); err != nil {
				t.Skip(err)
			}
		}
		theirs.Close()
		want, ok := answer(ours)
		if ok && (len(message) < 2 || message[0] != version || want != message[1]) {
			t.Errorf("%x is taken for a request of %q", message, want)
		}
		got, err := receiveDescriptors(ours, descriptors)
		if (err == nil) != (len(got) == descriptors) {
			t.Errorf("%d descriptors, %v", len(got), err)
		}
		closeAll(got)
	})
}

// seqpair returns two connected sockets that keep messages apart.
func seqpair(t *testing.T) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return ends[0], ends[1]
}
