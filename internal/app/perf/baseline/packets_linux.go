// SPDX-License-Identifier: Apache-2.0

package baseline

import (
	"context"
	"encoding/binary"
	"net/netip"
	"os"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// packetBatch is how many datagrams one sendmmsg or recvmmsg handles.
const packetBatch = 64

type mmsghdr struct {
	hdr unix.Msghdr
	_   uint32 // its length, the same for all
}

// packets are the arguments of sendmmsg and recvmmsg.
type packets struct {
	messages [packetBatch]mmsghdr
	iovecs   [packetBatch]unix.Iovec
	memory   []byte
}

// newPackets prepares for datagrams of size bytes; to is nil to receive.
func newPackets(size int, to *address) *packets {
	p := &packets{memory: make([]byte, packetBatch*size)}
	for i := range p.messages {
		p.iovecs[i].Base = &p.memory[i*size]
		p.iovecs[i].SetLen(size)
		h := &p.messages[i].hdr
		h.Iov = &p.iovecs[i]
		h.SetIovlen(1)
		if to != nil {
			h.Name, h.Namelen = (*byte)(unsafe.Pointer(&to.raw)), to.length
		}
	}
	return p
}

// call is sendmmsg or recvmmsg.
func (p *packets) call(trap uintptr, fd int) (int, error) {
	n, _, errno := syscall.RawSyscall6(trap, uintptr(fd), uintptr(unsafe.Pointer(&p.messages)), packetBatch,
		unix.MSG_DONTWAIT, 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EAGAIN, unix.ENOBUFS, unix.EINTR:
		return 0, nil
	}
	return 0, os.NewSyscallError("sendmmsg or recvmmsg", errno)
}

// reportSize is the length of the server's last message: datagrams, then
// nanoseconds from the first to the last of them.
const reportSize = 16

// servePackets counts the packets that arrive, and reports the count when the client stops.
func servePackets(ctx context.Context, raw rawSocket, size int) error {
	p := newPackets(size, nil)
	var from address
	p.messages[0].hdr.Name = (*byte)(unsafe.Pointer(&from.raw))
	var count int
	var start, last, quiet time.Time
	for empty := 0; ; {
		p.messages[0].hdr.Namelen = unix.SizeofSockaddrInet6
		n, err := p.call(unix.SYS_RECVMMSG, raw.fd)
		if err != nil {
			return err
		}
		if n == 0 {
			if empty++; empty%4096 == 0 {
				if err := checkSilence(ctx, &quiet); err != nil && (err != errSilent || count > 0) {
					return err
				}
			}
			continue
		}
		quiet = time.Time{}
		for i := range n {
			if p.memory[i*size] == stop {
				// The client's address is that of the batch's first datagram.
				from.length = p.messages[0].hdr.Namelen
				report := binary.BigEndian.AppendUint64(nil, uint64(count+i))
				report = binary.BigEndian.AppendUint64(report, uint64(last.Sub(start)))
				return raw.sendTo(report, &from)
			}
		}
		last = time.Now()
		if count == 0 {
			start = last
		}
		count += n
	}
}

// runPackets sends for the configured time and asks the server for its count.
func runPackets(ctx context.Context, raw rawSocket, c Config, remote netip.AddrPort) (Result, error) {
	to := rawAddress(remote)
	p := newPackets(c.Size, &to)
	for start := time.Now(); time.Since(start) < c.Duration && ctx.Err() == nil; {
		if _, err := p.call(unix.SYS_SENDMMSG, raw.fd); err != nil {
			return Result{}, err
		}
	}
	report, last := make([]byte, reportSize), make([]byte, c.Size)
	last[0] = stop
	for start := time.Now(); time.Since(start) < silence; time.Sleep(10 * time.Millisecond) {
		// The server's buffer may be full: ask again.
		if err := raw.sendTo(last, &to); err != nil {
			return Result{}, err
		}
		time.Sleep(10 * time.Millisecond)
		n, _, errno := syscall.RawSyscall6(unix.SYS_RECVFROM, uintptr(raw.fd), uintptr(unsafe.Pointer(&report[0])),
			reportSize, unix.MSG_DONTWAIT, 0, 0)
		if errno == 0 && n == reportSize {
			count := int(binary.BigEndian.Uint64(report))
			return Result{
				Messages: count,
				Bytes:    int64(count) * int64(c.Size),
				Elapsed:  time.Duration(binary.BigEndian.Uint64(report[8:])),
			}, ctx.Err()
		}
	}
	return Result{}, errSilent
}
