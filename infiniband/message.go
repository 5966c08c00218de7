// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"slices"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
)

// A program and the process that runs its fabric exchange messages over a local stream socket. Packets are as in
// the fabric, LRH to ICRC; everything else is JSON.
//
//	+--------------------+------+------------------------+
//	| length of the rest | kind | content, by the kind   |
//	+--------------------+------+------------------------+
//
// The length is four bytes, least significant first.
type messageKind uint8

const (
	kindHello   messageKind = iota + 1 // the program's first message: hello
	kindWelcome                        // the response: welcome
	kindRefused                        // or this one: refusal
	kindPacket                         // port, whether the ICRC is left out, packet
	kindRequest                        // of a program: request
	kindAnswer                         // answer
	kindChanged                        // changed
	kindView                           // the response to a hello with View: fabric.View
	kindRoute                          // the response to a hello with Route: route
	kindOutput                         // the response to a hello with Line: output
)

// protocolVersion is raised with every incompatible change.
const protocolVersion = 1

const (
	messageHeader = 5
	packetHeader  = messageHeader + 2
	maxMessage    = 64 << 20             // of a fabric's process: the view of a large fabric
	maxRequest    = 1 + 2 + ib.MaxPacket // of a program: a packet; everything else is shorter
)

// hello begins a connection.
type hello struct {
	Version int
	Adapter string // name, description or IP address; empty: any
	View    bool   // asks for a view instead of an adapter
	Route   *ends  `json:",omitempty"` // asks for a route instead of an adapter
	Line    string `json:",omitempty"` // is for the console instead
}

// ends are the ends of a route.
type ends struct{ From, To End }

// route is the path of packets: see [Fabric.Route].
type route struct {
	Hops    []End
	Arrives bool
}

// welcome describes the adapter to a program that has attached.
type welcome struct {
	Name      string
	GUID      uint64
	Slot      int
	Ports     []*info
	Addr      netip.Addr
	Neighbors map[netip.Addr]ib.GID
}

// valid reports whether the fields describe an adapter that a program can have.
func (w *welcome) valid() bool {
	return len(w.Ports) > 0 && len(w.Ports) <= maxPorts && w.Slot >= 0 && w.Slot < steer.Slots &&
		!slices.ContainsFunc(w.Ports, invalidInfo)
}

// invalidInfo reports whether the state is none that a port can have.
func invalidInfo(i *info) bool {
	return i == nil || i.LMC > 7 || !verbs.MTU(i.MaxMTU).Valid() || i.MTU > uint8(verbs.MTU4096) || len(i.GIDs) == 0 ||
		len(i.GIDs) > maxGIDs ||
		len(i.PKeys) == 0 || len(i.PKeys) > maxPKeys
}

// Limits of an adapter: the ports of a node (section 14.2.5.3), and the tables of a port (sections 10.2.4 and
// 14.2.5.6).
const (
	maxPorts = 254
	maxGIDs  = 256
	maxPKeys = 1 << 16
)

type refusal struct{ Error string }

// output is the text that a line for the console has written, and its error; empty: none.
type output struct{ Text, Error string }

// operation is the kind of a request.
type operation string

const (
	opClaim    operation = "claim" // service ids
	opUnclaim  operation = "unclaim"
	opServe    operation = "serve" // a management class
	opSetSM    operation = "set-sm"
	opViolated operation = "violated" // a packet had a wrong key
	opDropped  operation = "dropped"  // the device has dropped packets
	opLosses   operation = "losses"   // asks how many packets were lost
)

// request is an operation with its parameters; the parameters of other operations are zero.
type request struct {
	ID        uint64 // repeated in the answer; 0: no answer is wanted
	Op        operation
	Service   uint64
	Mask      uint64
	Class     uint8
	On        bool
	Violation *violation `json:",omitempty"`
	Packets   uint64     `json:",omitempty"`
}

type answer struct {
	ID     uint64
	Error  string  // empty: done
	Losses *losses `json:",omitempty"`
}

// losses is how many packets the fabric has lost; Known is false if it may have lost others.
type losses struct {
	Packets uint64
	Known   bool
}

// changed is the new state of a port.
type changed struct {
	Port   int
	Info   *info
	Events []verbs.EventType
}

// appendMessage appends a message other than a packet.
func appendMessage(b []byte, k messageKind, v any) []byte {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // all of them can be encoded
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(1+len(body)))
	return append(append(b, byte(k)), body...)
}

// appendPacketHeader appends the header of a packet's message.
func appendPacketHeader(b []byte, port int, p *link.Packet) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(packetHeader-4+len(p.Bytes())))
	omitted := byte(0)
	if p.NoICRC {
		omitted = 1
	}
	return append(b, byte(kindPacket), byte(port), omitted)
}

// reader reads messages from a stream. Its buffer grows with the bytes that come, not with announced lengths.
type reader struct {
	from   io.Reader
	most   int // the longest message, without its length
	buf    []byte
	start  int  // of the bytes that are not consumed yet
	end    int  // of the bytes that have come
	filled bool // the last read has filled the buffer
}

// A reader's buffer begins with firstBuffer bytes, and has up to readBuffer, or as many as a longer message takes.
const (
	firstBuffer = 4 << 10
	readBuffer  = 256 << 10
)

func newReader(from io.Reader, most int) *reader {
	return &reader{from: from, most: most, buf: make([]byte, firstBuffer)}
}

var errMessage = errors.New(
	"infiniband: what came over the socket of an adapter is no message: both sides must be of one version")

// next returns the next message. Its bytes stay valid while pending returns true, and until the next read.
func (r *reader) next() (messageKind, []byte, error) {
	for {
		have := r.buf[r.start:r.end]
		need := messageHeader
		if len(have) >= 4 {
			n := binary.LittleEndian.Uint32(have)
			if n < 1 || int64(n) > int64(r.most) {
				return 0, nil, errMessage
			}
			need = 4 + int(n)
		}
		if len(have) >= need && need >= messageHeader {
			r.start += need
			return messageKind(have[4]), have[messageHeader:need], nil
		}
		if err := r.fill(need); err != nil {
			return 0, nil, err
		}
	}
}

// pending reports whether the next message has been read completely.
func (r *reader) pending() bool {
	have := r.buf[r.start:r.end]
	return len(have) >= 4 && len(have) >= 4+int(min(binary.LittleEndian.Uint32(have), uint32(r.most)))
}

// fill reads more of a message of need bytes.
func (r *reader) fill(need int) error {
	if r.start == r.end || r.start+need > len(r.buf) {
		r.end = copy(r.buf, r.buf[r.start:r.end])
		r.start = 0
	}
	if r.end == len(r.buf) || r.filled && len(r.buf) < readBuffer {
		r.buf = append(r.buf, make([]byte, len(r.buf))...)
	}
	n, err := r.from.Read(r.buf[r.end:])
	r.end += n
	r.filled = r.end == len(r.buf)
	if n > 0 {
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// decodePacket decodes the message of a packet.
func decodePacket(b []byte) (port int, omitted bool, packet []byte, err error) {
	if len(b) < 2 || len(b) > 2+ib.MaxPacket {
		return 0, false, nil, errMessage
	}
	return int(b[0]), b[1] != 0, b[2:], nil
}

// decode decodes any other message.
func decode(b []byte, v any) error {
	if err := json.Unmarshal(b, v); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}

// run carries out a request, and puts its result into the answer.
func (r *request) run(s *fabric.Attachment, a *answer) error {
	switch r.Op {
	case opDropped:
		s.Dropped(r.Packets)
	case opLosses:
		n, known := s.Losses()
		a.Losses = &losses{n, known}
	case opClaim:
		return s.Claim(r.Service, r.Mask)
	case opUnclaim:
		s.Unclaim(r.Service, r.Mask)
	case opServe:
		s.Serve(r.Class, r.On)
	case opViolated:
		if v := r.Violation; v != nil {
			s.Violated(v.Port, v.Trap, v.Details)
		}
	case opSetSM:
		return s.SetSM(r.On)
	default:
		return fmt.Errorf("unknown request %q: both sides must be of one version", r.Op)
	}
	return nil
}
