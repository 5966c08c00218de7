// SPDX-License-Identifier: Apache-2.0

package capture

import (
	"errors"
	"hash/maphash"
	"io"
	"os"
	"strings"

	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// Decoder turns frames into packets. Use NewDecoder.
type Decoder struct {
	Counts Counts

	to     func(*Packet)
	packet Packet // the current one
	seed   maphash.Seed
	zeros  []byte // a packet that was cut, with zeros for the missing bytes
	tcps   connections
	err    error
}

// NewDecoder returns a decoder.
func NewDecoder() *Decoder {
	return &Decoder{Counts: Counts{Links: make(map[LinkType]int)}, seed: maphash.MakeSeed(), tcps: newConnections()}
}

// Err returns why decoding cannot go on: the file makes the decoder hold too much.
func (d *Decoder) Err() error { return d.err }

// transport reads a packet of InfiniBand's transport from its BTH to its ICRC, of whole bytes, of which b was
// captured. verify checks the ICRC.
func (d *Decoder) transport(b []byte, whole int, p *Packet, verify func(t []byte) bool) {
	p.Missing = whole - len(b)
	p.Sum = maphash.Bytes(d.seed, b)
	if len(b) < ib.BTHLen || whole < ib.BTHLen+ib.ICRCLen {
		p.Broken = "shorter than its headers"
		if p.Missing > 0 {
			p.Broken = "cut before the end of its headers"
		}
		d.emit(p)
		return
	}
	t := b
	if p.Missing > 0 {
		if ib.Opcode(b[0]).Info().HeaderLen > len(b) {
			p.IB.BTH.Decode(b)
			p.Broken = "cut before the end of its headers"
			d.emit(p)
			return
		}
		d.zeros = append(append(d.zeros[:0], b...), make([]byte, p.Missing)...)
		t = d.zeros
	}
	if err := p.IB.Decode(t[:whole-ib.ICRCLen]); err != nil && !errors.Is(err, ib.ErrLength) {
		p.IB.BTH.Decode(b)
		p.Broken = strings.TrimPrefix(err.Error(), "ib: ")
	}
	p.BadCRC = p.Missing == 0 && p.Broken == "" && !verify(b)
	d.emit(p)
}

// Read passes all packets of a file to the function to, in order. With an error, the counts cover the part that was
// read; ErrCut says that the file ends early.
func Read(name string, to func(*Packet)) (Counts, error) {
	f, err := os.Open(name)
	if err != nil {
		return Counts{}, err
	}
	defer f.Close()
	return ReadFrom(f, to)
}

// ReadFrom is Read of an open file.
func ReadFrom(in io.Reader, to func(*Packet)) (Counts, error) {
	r, err := NewReader(in)
	if err != nil {
		return Counts{}, err
	}
	d := NewDecoder()
	var f Frame
	for {
		switch err := r.Next(&f); {
		case err == io.EOF:
			return d.Counts, nil
		case err != nil:
			return d.Counts, err
		}
		d.Decode(&f, to)
		if err := d.Err(); err != nil {
			return d.Counts, err
		}
	}
}
