// SPDX-License-Identifier: Apache-2.0

package etherring

import (
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// message is struct mmsghdr.
type message struct {
	hdr unix.Msghdr
	len uint32
	_   [4]byte
}

// Out is a frame to be sent: Head, which begins with the Ethernet header, and Body after it.
type Out struct{ Head, Body []byte }

// Send sends frames, MaxFrames at most, in one system call. It returns how many were sent. If that is
// not all, the error says why: EAGAIN, that as much is waiting as may; see [Socket.Wait].
func (s *Socket) Send(frames []Out) (sent int, err error) {
	for i := range frames {
		pieces := s.pieces[2*i : 2*i+2]
		for j, b := range [2][]byte{frames[i].Head, frames[i].Body} {
			pieces[j].Base = unsafe.SliceData(b)
			pieces[j].SetLen(len(b))
		}
		m := &s.out[i]
		m.hdr.Iov = &pieces[0]
		m.hdr.SetIovlen(len(pieces))
	}
	for sent < len(frames) {
		n, _, errno := syscall.Syscall6(unix.SYS_SENDMMSG, uintptr(s.fd), uintptr(unsafe.Pointer(&s.out[sent])),
			uintptr(len(frames)-sent), unix.MSG_DONTWAIT, 0, 0)
		switch {
		case errno == unix.EINTR:
		case errno == unix.EAGAIN:
			err = unix.EAGAIN
		case errno != 0:
			err = os.NewSyscallError("sendmmsg", errno)
		default:
			sent += int(n)
		}
		if err != nil {
			break
		}
	}
	clear(s.pieces[:2*len(frames)])
	return sent, err
}
