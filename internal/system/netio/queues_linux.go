// SPDX-License-Identifier: Apache-2.0

package netio

import (
	"encoding/binary"
	"net/netip"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Queues asks the system how much waits in the receive buffers of this host's UDP sockets
// (sock_diag(7), as ss does). The zero value is ready.
type Queues struct {
	mu     sync.Mutex
	fd     int // a netlink socket; 0: none yet
	closed bool
	seq    uint32
	buf    [1 << 10]byte
}

// Layout of requests and answers: struct nlmsghdr, then struct inet_diag_req_v2 or struct
// inet_diag_msg, which both have a struct inet_diag_sockid.
const (
	sockDiagByFamily = 20
	diagRequestLen   = 16 + 56
	diagSockID       = 16 + 8 // in the request
	diagRQueue       = 16 + 56
	diagUID          = diagRQueue + 8
)

// Received returns how many bytes of the kernel's memory wait in the receive buffer of the socket
// that takes datagrams from one address and port to another. It returns false if there is none on
// this host, or the system does not tell.
func (q *Queues) Received(from, to netip.AddrPort) (bytes int, ok bool) {
	return q.field(diagRQueue, from, to)
}

// Owner returns the user that has the UDP socket of a local address and port. It returns false if
// there is none, or the system does not report it.
func Owner(local netip.AddrPort) (uid int, ok bool) {
	var q Queues
	defer q.Close()
	return q.field(diagUID, netip.AddrPortFrom(local.Addr(), 0), local)
}

// field returns a word of the kernel's answer about the socket that takes datagrams from one
// address and port to another.
func (q *Queues) field(at int, from, to netip.AddrPort) (word int, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fd == 0 && !q.closed {
		fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK,
			unix.NETLINK_SOCK_DIAG)
		q.fd, q.closed = fd, err != nil
	}
	if q.closed {
		return 0, false
	}
	q.ask(from, to)
	if _, _, errno := syscall.RawSyscall6(unix.SYS_SENDTO, uintptr(q.fd), uintptr(unsafe.Pointer(&q.buf)),
		diagRequestLen, 0, 0, 0); errno != 0 {
		return 0, false
	}
	// The kernel's answer is there once the request is sent.
	n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(q.fd), uintptr(unsafe.Pointer(&q.buf)),
		uintptr(len(q.buf)), 0, 0, 0)
	if errno != 0 || int(n) < at+4 || binary.NativeEndian.Uint16(q.buf[4:]) != sockDiagByFamily ||
		binary.NativeEndian.Uint32(q.buf[8:]) != q.seq {
		return 0, false
	}
	return int(binary.NativeEndian.Uint32(q.buf[at:])), true
}

// ask builds a request.
func (q *Queues) ask(from, to netip.AddrPort) {
	b := q.buf[:diagRequestLen]
	clear(b)
	q.seq++
	binary.NativeEndian.PutUint32(b[0:], diagRequestLen)
	binary.NativeEndian.PutUint16(b[4:], sockDiagByFamily)
	binary.NativeEndian.PutUint16(b[6:], unix.NLM_F_REQUEST)
	binary.NativeEndian.PutUint32(b[8:], q.seq)
	b[16], b[17] = unix.AF_INET, unix.IPPROTO_UDP
	if to.Addr().Is6() {
		b[16] = unix.AF_INET6
	}
	binary.NativeEndian.PutUint32(b[20:], ^uint32(0)) // states
	id := b[diagSockID:]
	binary.BigEndian.PutUint16(id[0:], from.Port())
	binary.BigEndian.PutUint16(id[2:], to.Port())
	copy(id[4:], from.Addr().AsSlice())
	copy(id[20:], to.Addr().AsSlice())
	binary.NativeEndian.PutUint64(id[40:], ^uint64(0)) // any cookie
}

// Close closes the netlink socket.
func (q *Queues) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.fd > 0 && !q.closed {
		unix.Close(q.fd)
	}
	q.closed = true
}
