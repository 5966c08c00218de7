// SPDX-License-Identifier: Apache-2.0

package simcmd

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/ramjet-rdma/ramjet/cmd/ramjet/internal/cli"
	"github.com/ramjet-rdma/ramjet/internal/app/sim"
	"github.com/ramjet-rdma/ramjet/trace"
)

// simPackets records the packets at chosen nodes and links, as pcapng and as text.
type simPackets struct {
	pcap, text string
	at         []string

	recording *cli.Recording
	lines     *bufio.Writer
	file      *os.File
	packet    []byte
	unflushed int
	err       error
}

// open creates the files, and has the simulation call for each packet.
func (p *simPackets) open(s *sim.Sim) (err error) {
	if p.pcap == "" && p.text == "" {
		return nil
	}
	for _, where := range p.at {
		if err := s.Observe(where, p.see); err != nil {
			return cli.Usagef("--at: %w", err)
		}
	}
	if p.recording, err = cli.NewRecording(p.pcap, "sim"); err != nil || p.text == "" {
		return err
	}
	if p.file, err = os.Create(p.text); err != nil {
		p.recording.Discard()
		return cli.Usagef("--packets: %w: give a file that can be written", err)
	}
	p.lines = bufio.NewWriter(p.file)
	return nil
}

// flushAfter is how many packets are recorded before the file is waited for: fewer than a recording drops.
const flushAfter = 1000

func (p *simPackets) see(o *sim.Sighting) {
	if p.lines != nil {
		fmt.Fprintln(p.lines, o)
	}
	if p.recording == nil || p.err != nil || o.What != sim.Sent && o.What != sim.Arrived {
		return
	}
	w, at, direction := p.recording.Writer, time.Unix(0, int64(o.At/sim.Nanosecond)), trace.Outbound
	if o.What == sim.Arrived {
		direction = trace.Inbound
	}
	if o.Credits() { // no frame of Ethernet, as which other packets are written
		return
	}
	if pause, begins := o.Pause(); pause {
		p.err = w.WriteEthernet(&trace.Ethernet{At: at, Direction: direction, Comment: o.Node}, pauseFrame(begins))
	} else {
		src, dst := o.Addrs()
		p.packet = o.Append(p.packet[:0])
		p.err = w.WriteUDP(&trace.UDP{At: at, Src: src, Dst: dst, DontFragment: true, TTL: 64, TOS: o.TOS(),
			Direction: direction, Comment: o.Node}, p.packet)
	}
	if p.unflushed++; p.unflushed == flushAfter {
		p.unflushed = 0
		p.err = errors.Join(p.err, w.Flush())
	}
}

// pauseFrame returns a frame of PFC (IEEE 802.1Q clause 36) that begins or ends a pause of priority 3.
func pauseFrame(begins bool) []byte {
	b := make([]byte, 60)
	copy(b, "\x01\x80\xc2\x00\x00\x01\x02\x00\x00\x00\x00\x01\x88\x08\x01\x01\x00\x08")
	if begins {
		const quanta = 18 + 2*3
		b[quanta], b[quanta+1] = 0xff, 0xff
	}
	return b
}

// close completes the files.
func (p *simPackets) close(log io.Writer) error {
	err := errors.Join(p.err, p.recording.Finish(log))
	if p.lines != nil {
		err = errors.Join(err, p.lines.Flush(), p.file.Close())
	}
	return err
}
