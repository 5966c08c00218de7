// SPDX-License-Identifier: Apache-2.0

package simnet

import (
	"fmt"
	"hash/crc32"
	"io"
	"net/netip"
	"time"

	"github.com/ramjet-rdma/ramjet/trace"
)

// Log is the record of a network: a line for each packet and segment as it leaves and arrives,
// with its time and the CRC of its bytes. Two runs of a seed write the same.
type Log struct {
	// Text has the lines.
	Text []byte
	// Packets says that packets are kept too, for WritePackets.
	Packets bool

	packets []packet
}

// packet is a packet as it left.
type packet struct {
	at       instant
	src, dst netip.AddrPort
	id       uint16
	frame    []byte
	lost     bool
	// infiniBand is that the frame is an adapter's, LRH to VCRC, and there are no addresses.
	infiniBand bool
	// flags is not 0 if it is a segment of a stream, whose data the frame is.
	flags    trace.TCPFlags
	seq, ack uint32
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// note writes that something befell hosts; the lock is held.
func (n *Net) note(what string, a, b netip.Addr, on bool) {
	if n.log != nil {
		n.log.Text = fmt.Appendf(n.log.Text, "%d %s %v %v %v\n", n.now(), what, a, b, on)
	}
}

// line writes that bytes left or arrived; the lock is held.
func (n *Net) line(what string, src, dst netip.AddrPort, b []byte) {
	l := n.log
	if l == nil {
		return
	}
	t := l.Text
	t = fmt.Appendf(t, "%d %s ", n.now(), what)
	t = src.AppendTo(t)
	t = append(t, " > "...)
	t = dst.AppendTo(t)
	l.Text = fmt.Appendf(t, " %d %08x\n", len(b), crc32.Checksum(b, castagnoli))
}

// WritePackets writes the packets that were kept as a pcapng, with virtual times from the beginning of
// 2020 on. Segments of streams are there as they leave first, and not as they are sent again.
func (l *Log) WritePackets(out io.Writer) error {
	w, err := trace.NewWriter(out, "simnet")
	if err != nil {
		return err
	}
	for i := range l.packets {
		if err := l.packets[i].write(w); err != nil {
			return err
		}
		if i%100 == 99 { // or it drops packets that it has no room for
			if err := w.Flush(); err != nil {
				return err
			}
		}
	}
	return w.Close()
}

// write records a packet.
func (p *packet) write(w *trace.Writer) error {
	at, comment := time.Unix(1577836800, int64(p.at)), ""
	if p.lost {
		comment = "lost"
	}
	if p.infiniBand {
		return w.WriteInfiniBand(&trace.InfiniBand{At: at, Direction: trace.Outbound, Comment: comment}, p.frame)
	}
	if p.flags != 0 {
		return w.WriteTCP(&trace.TCP{At: at, Src: p.src, Dst: p.dst, Seq: p.seq, Ack: p.ack, Flags: p.flags}, p.frame)
	}
	u := trace.UDP{At: at, Src: p.src, Dst: p.dst, ID: p.id, DontFragment: true, TTL: 64, Comment: comment}
	return w.WriteUDP(&u, p.frame)
}

// keepSegment keeps a segment that one end of a stream sends; the lock is held.
func (n *Net) keepSegment(l *link, flags trace.TCPFlags, data []byte) {
	if n.log == nil || !n.log.Packets {
		return
	}
	p := packet{at: n.now(), src: l.from, dst: l.to, flags: flags, seq: l.sent, frame: append([]byte(nil), data...)}
	if flags&trace.ACK != 0 {
		p.ack = l.got
	}
	n.log.packets = append(n.log.packets, p)
	l.sent += uint32(len(data))
	if flags&(trace.SYN|trace.FIN) != 0 {
		l.sent++
	}
}
