// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"encoding/binary"
	"errors"
	"os"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/system/forkmark"
)

// netlinkReader is a netlink socket and the goroutine that reads it, for one table. The socket belongs to the network
// namespace of the thread that created it, and so do its answers.
//
// It uses the standard library's parser of such messages. The well-kept netlink libraries take two
// sockets and four goroutines for this, and cannot repeat a request on the same socket after
// messages were lost.
type netlinkReader struct {
	sock *os.File
	raw  syscall.RawConn
	once sync.Once     // of start and close, whichever comes first
	done chan struct{} // closed with the goroutine's end

	handler messageHandler
	dumps   []uint16 // the dumps to request, one after the other, such as RTM_GETLINK
	tell    func()
	seq     uint32
	left    []uint16 // of dumps: the current one and later ones; none: everything has come
	again   bool     // messages were lost: dump everything again
}

// messageHandler gets the messages that a netlinkReader reads. reset comes before everything is reported again.
type messageHandler interface {
	reset()
	handle(*syscall.NetlinkMessage)
}

// newFeed subscribes to changes of some groups of rtnetlink(7). It returns nil if it cannot.
func newFeed(groups uint32, dumps []uint16, b messageHandler) *netlinkReader {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_ROUTE)
	if err != nil {
		return nil
	}
	forkmark.Set(fd)
	f := &netlinkReader{sock: os.NewFile(uintptr(fd), "netlink"), done: make(chan struct{}), handler: b, dumps: dumps}
	if f.raw, err = f.sock.SyscallConn(); err == nil {
		err = unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: groups})
	}
	if err != nil {
		f.sock.Close()
		return nil
	}
	return f
}

// start begins to read. tell is called after each change, by the goroutine that fills the table in.
func (f *netlinkReader) start(tell func()) {
	f.once.Do(func() {
		f.tell = tell
		go f.run()
	})
}

func (f *netlinkReader) close() {
	f.once.Do(func() { close(f.done) })
	f.sock.Close()
	<-f.done
}

// run reads until the socket is closed, or fails. Then the state stays as it is.
//
// The socket's buffer limits the messages that wait to be read. When it overflows everything is
// requested again, so there is at most one dump for each buffer full of changes.
func (f *netlinkReader) run() {
	defer close(f.done)
	buf := make([]byte, 32<<10) // the longest message of a dump
	f.again = true
	for {
		if f.again && len(f.left) == 0 {
			f.again = false
			f.handler.reset()
			f.left = f.dumps
			if f.ask() != nil {
				return
			}
		}
		n, err := f.receive(buf)
		switch {
		case errors.Is(err, unix.ENOBUFS) || n > len(buf):
			f.again = true
		case err != nil:
			return
		case f.take(buf[:n]) != nil:
			return
		}
		if len(f.left) == 0 && !f.again {
			f.tell()
		}
	}
}

// receive waits for the kernel's next datagram. n is its length; buf has as much of it as fits.
func (f *netlinkReader) receive(buf []byte) (n int, err error) {
	waitErr := f.raw.Read(func(fd uintptr) bool {
		var from unix.Sockaddr
		n, from, err = unix.Recvfrom(int(fd), buf, unix.MSG_TRUNC)
		if sa, ok := from.(*unix.SockaddrNetlink); ok && sa.Pid != 0 { // from another process
			n, err = 0, nil
		}
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		return 0, waitErr
	}
	return n, err
}

// take handles the messages of a datagram. A message that cannot be parsed counts as lost.
func (f *netlinkReader) take(b []byte) error {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		f.again = true
		return nil
	}
	for i := range messages {
		m := &messages[i]
		if m.Header.Flags&unix.NLM_F_DUMP_INTR != 0 { // it changed during the dump
			f.again = true
		}
		switch m.Header.Type {
		case unix.NLMSG_DONE, unix.NLMSG_ERROR:
			if m.Header.Seq != f.seq {
				continue
			}
			if m.Header.Type == unix.NLMSG_ERROR {
				return unix.EIO
			}
			if len(f.left) > 0 {
				f.left = f.left[1:]
			}
			if f.again {
				f.left = nil
			}
			if len(f.left) > 0 {
				if err := f.ask(); err != nil {
					return err
				}
			}
		default:
			f.handler.handle(m)
		}
	}
	return nil
}

// ask requests the next dump.
func (f *netlinkReader) ask() (err error) {
	f.seq++
	length := unix.NLMSG_HDRLEN + unix.SizeofRtGenmsg
	b := binary.NativeEndian.AppendUint32(nil, uint32(length))
	b = binary.NativeEndian.AppendUint16(b, f.left[0])
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|unix.NLM_F_DUMP)
	b = binary.NativeEndian.AppendUint32(b, f.seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	b = append(b, unix.AF_UNSPEC)
	controlErr := f.raw.Control(func(fd uintptr) {
		err = unix.Sendto(int(fd), b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK})
	})
	return errors.Join(controlErr, err)
}
