// SPDX-License-Identifier: Apache-2.0

package etherring

import (
	"fmt"
	"math/bits"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

const (
	// HeaderLen is the length of an Ethernet header: destination, source and type.
	HeaderLen = 14
	// MaxFrames is how many frames one Send takes.
	MaxFrames = 64
	// FrameRoom is the number of bytes before a frame in a slot, which the kernel uses.
	FrameRoom = 80
)

// Options are the sizes of a socket.
type Options struct {
	Slots      int // frames that the ring holds
	FrameBytes int // of the longest frame, its header included; longer ones are received cut
	SendBuffer int // bytes that may wait at the interface; 0: the system's default
}

// Socket is a raw socket of one interface and one type of frame. Next, Release and Send are called by
// one goroutine at a time; the other methods by any.
type Socket struct {
	fd    int
	index int32
	ring  []byte
	block int // bytes, a power of two
	inOne int // slots of a block
	size  int // bytes of a slot
	slots int
	next  int

	out    [MaxFrames]message
	pieces [2 * MaxFrames]unix.Iovec

	wait   waiter
	closed sync.Once
}

// Open opens a socket for the frames of a type, 0x0600 or more, at the interface of an index. The
// error wraps EPERM where the process may not.
func Open(index int, etherType uint16, o Options) (_ *Socket, err error) {
	// No frame comes before the ring is there and the socket is bound: it has no type until then.
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	forkmark.Set(fd)
	s := &Socket{fd: fd, index: int32(index)}
	defer func() {
		if err != nil {
			unix.Munmap(s.ring)
			unix.Close(fd)
		}
	}()
	if o.SendBuffer > 0 && unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUFFORCE, o.SendBuffer) != nil {
		_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_SNDBUF, o.SendBuffer) // as much as the system allows
	}
	if err := s.mapRing(o); err != nil {
		return nil, err
	}
	if err := s.wait.init(); err != nil {
		return nil, err
	}
	big := etherType<<8 | etherType>>8
	if err := unix.Bind(fd, &unix.SockaddrLinklayer{Protocol: big, Ifindex: index}); err != nil {
		s.wait.close()
		return nil, os.NewSyscallError("bind", err)
	}
	return s, nil
}

// Permitted reports whether the process may open such sockets: nil, or an error like that of Open.
func Permitted() error {
	fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("socket", err)
	}
	return unix.Close(fd)
}

// mapRing makes the ring. Its blocks are contiguous in the kernel, and no slot crosses their ends.
func (s *Socket) mapRing(o Options) error {
	const align, leastBlock = 16, 64 << 10 // TPACKET_ALIGNMENT
	s.size = (FrameRoom + o.FrameBytes + align - 1) &^ (align - 1)
	s.block = max(leastBlock, 1<<bits.Len(uint(s.size-1)))
	s.inOne = s.block / s.size
	blocks := max(1, (o.Slots+s.inOne-1)/s.inOne)
	s.slots = blocks * s.inOne
	if err := unix.SetsockoptInt(s.fd, unix.SOL_PACKET, unix.PACKET_VERSION, unix.TPACKET_V2); err != nil {
		return os.NewSyscallError("setsockopt PACKET_VERSION", err)
	}
	req := unix.TpacketReq{Block_size: uint32(s.block), Block_nr: uint32(blocks), Frame_size: uint32(s.size),
		Frame_nr: uint32(s.slots)}
	if err := unix.SetsockoptTpacketReq(s.fd, unix.SOL_PACKET, unix.PACKET_RX_RING, &req); err != nil {
		return fmt.Errorf("a ring of %d bytes: %w", s.block*blocks,
			os.NewSyscallError("setsockopt PACKET_RX_RING", err))
	}
	var err error
	s.ring, err = unix.Mmap(s.fd, 0, s.block*blocks, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return os.NewSyscallError("mmap", err)
}

// Slots returns how many frames the ring holds.
func (s *Socket) Slots() int { return s.slots }

// Frame is a received frame. Its memory is that of the ring, until Release.
type Frame struct {
	Data    []byte // from its Ethernet header on, without a VLAN tag
	Cut     bool   // it was longer than a slot
	Foreign bool   // it is for another host or another VLAN: only promiscuous interfaces have such
	Lost    bool   // the ring has lost frames that Drops has not returned yet
}

// The header of a slot, struct tpacket2_hdr of linux/if_packet.h in 32-bit words, and struct
// sockaddr_ll after it.
const (
	slotStatus   = 0
	slotLen      = 4
	slotSnapLen  = 8
	slotMAC      = 12 // 16 bits: where the frame begins
	slotTCI      = 24 // 16 bits: of the VLAN tag
	slotAddress  = 32
	addrIndex    = slotAddress + 4
	addrPacket   = slotAddress + 10 // 8 bits: sent to this host, to all, to a group or to another host
	slotHeadSize = slotAddress + 20
	vlanID       = 0xfff
)

// at returns the slot of a number.
func (s *Socket) at(i int) []byte {
	off := i/s.inOne*s.block + i%s.inOne*s.size
	return s.ring[off : off+s.size : off+s.size]
}

func status(slot []byte) *uint32 { return (*uint32)(unsafe.Pointer(&slot[slotStatus])) }

// Next returns the oldest frame; false: none has come. Until it is released, Next returns it again.
func (s *Socket) Next() (f Frame, ok bool) {
	slot := s.at(s.next)
	st := atomic.LoadUint32(status(slot))
	if st&unix.TP_STATUS_USER == 0 {
		return f, false
	}
	return decodeSlot(slot, st, s.index), true
}

// decodeSlot reads a slot with a frame.
func decodeSlot(slot []byte, st uint32, index int32) (f Frame) {
	word := func(at int) uint32 { return *(*uint32)(unsafe.Pointer(&slot[at])) }
	half := func(at int) int { return int(*(*uint16)(unsafe.Pointer(&slot[at]))) }
	n, from := int(word(slotSnapLen)), half(slotMAC)
	if from > len(slot) || n > len(slot)-from {
		from, n = 0, 0 // the kernel does not write this
	}
	f.Data = slot[from : from+n : from+n]
	f.Cut = word(slotLen) > word(slotSnapLen)
	f.Lost = st&unix.TP_STATUS_LOSING != 0
	// A frame of a VLAN that has an interface comes with that interface's index, one of another VLAN
	// with its tag or as for another host. VLAN 0 means none (IEEE 802.1Q-2018 section 9.6).
	typ := slot[addrPacket]
	f.Foreign = int32(word(addrIndex)) != index || typ != unix.PACKET_HOST && typ != unix.PACKET_MULTICAST ||
		st&unix.TP_STATUS_VLAN_VALID != 0 && half(slotTCI)&vlanID != 0
	return f
}

// Release gives the slot of the oldest frame back.
func (s *Socket) Release() {
	atomic.StoreUint32(status(s.at(s.next)), unix.TP_STATUS_KERNEL)
	if s.next++; s.next == s.slots {
		s.next = 0
	}
}

// Drops returns how many frames the ring has lost since the last call.
func (s *Socket) Drops() uint64 {
	st, err := unix.GetsockoptTpacketStats(s.fd, unix.SOL_PACKET, unix.PACKET_STATISTICS)
	if err != nil {
		return 0
	}
	return uint64(st.Drops)
}

// Join has the interface take frames to a multicast address, and Leave no more. The kernel counts.
func (s *Socket) Join(mac [6]byte) error  { return s.membership(unix.PACKET_ADD_MEMBERSHIP, mac) }
func (s *Socket) Leave(mac [6]byte) error { return s.membership(unix.PACKET_DROP_MEMBERSHIP, mac) }

func (s *Socket) membership(what int, mac [6]byte) error {
	m := unix.PacketMreq{Ifindex: s.index, Type: unix.PACKET_MR_MULTICAST, Alen: uint16(len(mac))}
	copy(m.Address[:], mac[:])
	return os.NewSyscallError("setsockopt PACKET_MEMBERSHIP",
		unix.SetsockoptPacketMreq(s.fd, unix.SOL_PACKET, what, &m))
}

// Unsent returns how many bytes of the system's memory wait to leave this host.
func (s *Socket) Unsent() int {
	n, err := unix.IoctlGetInt(s.fd, unix.SIOCOUTQ)
	if err != nil {
		return 0
	}
	return n
}

// Close ends the waits, for good, and closes the socket. No goroutine is in Next or Send. Closing twice is
// harmless.
func (s *Socket) Close() error {
	err := net.ErrClosed
	s.closed.Do(func() {
		s.wait.close()
		unix.Munmap(s.ring)
		s.ring = nil
		err = os.NewSyscallError("close", unix.Close(s.fd))
	})
	return err
}
