// SPDX-License-Identifier: Apache-2.0

package ladder

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// nvmeRequest is the private data of a connection request for a queue.
func nvmeRequest(qid uint16) []byte {
	b := make([]byte, 32)
	for i, v := range []uint16{0, qid, 32, 31, 1} {
		binary.LittleEndian.PutUint16(b[2*i:], v)
	}
	return b
}

// sqe is a submission queue entry of command 7 for 8 blocks from 100 on, with data at a key.
func sqe(opcode byte, namespace uint32) []byte {
	b := make([]byte, 64)
	b[0], b[1] = opcode, 0x40
	le := binary.LittleEndian
	le.PutUint16(b[2:], 7)
	le.PutUint32(b[4:], namespace)
	le.PutUint64(b[24:], 0x7000)
	le.PutUint32(b[32:], 4096)
	le.PutUint32(b[35:], 0x1234)
	b[39] = 0x40
	le.PutUint64(b[40:], 100)
	le.PutUint16(b[48:], 7)
	return b
}

// cqe is a completion queue entry of command 7.
func cqe(status uint16) []byte {
	b := make([]byte, 16)
	binary.LittleEndian.PutUint16(b[12:], 7)
	binary.LittleEndian.PutUint16(b[14:], status)
	return b
}

// Commands and responses of NVMe have their names where the request for the connection was NVMe's, and only there.
func TestNVMe(t *testing.T) {
	const data = "data: 4096 B at va 0x7000, rkey 0x00001234"
	capsule := func(psn ib.PSN, b []byte) ib.Packet {
		return ib.Packet{BTH: ib.BTH{Opcode: ib.RCSendOnly, PSN: psn}, Payload: b}
	}
	for _, c := range []struct {
		name          string
		private, b, r []byte
		command, note string
		response      string
	}{
		{"read", nvmeRequest(1), sqe(2, 3), cqe(0), "NVMe Read CID 7 NSID 3 LBA 100 blocks 8", data,
			"NVMe response CID 7 success"},
		{"refused", nvmeRequest(1), sqe(1, 3), cqe(0x80<<1 | 1<<15), "NVMe Write CID 7 NSID 3 LBA 100 blocks 8", data,
			"NVMe response CID 7 LBA out of range"},
		{"unknown", nvmeRequest(1), sqe(0x99, 3), cqe(0x2ff << 1), "NVMe opcode 0x99 CID 7 NSID 3", data,
			"NVMe response CID 7 status type 2, code 0xff"},
		{"admin", nvmeRequest(0), sqe(6, 0), cqe(0), "NVMe Identify CID 7", data, "NVMe response CID 7 success"},
		{"fabrics", nvmeRequest(0), sqe(0x7f, 1), cqe(0), "NVMe Connect CID 7", data, "NVMe response CID 7 success"},
		{"in a capsule", nvmeRequest(1), append(sqe(0, 3), make([]byte, 4096)...), cqe(0), "NVMe Flush CID 7 NSID 3",
			data, "NVMe response CID 7 success"},
		{"short", nvmeRequest(1), sqe(2, 3)[:63], cqe(0)[:15], "Send Only", "", "Send Only"},
		{"another program's", []byte("other"), sqe(2, 3), cqe(0), "Send Only", "", "Send Only"},
		{"no private data", nil, sqe(2, 3), cqe(0), "Send Only", "", "Send Only"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := newRecording(t)
			req := &mad.REQ{LocalCommID: 1, LocalQPN: 0xa, PathMTU: 5}
			copy(req.Private[mad.IPAddressLen:], c.private)
			r.from('A', cmMessage(t, mad.AttrREQ, req))
			r.from('B', cmMessage(t, mad.AttrREP, &mad.REP{LocalCommID: 2, RemoteCommID: 1, LocalQPN: 0xb}))
			r.from('A', capsule(1, c.b))
			r.from('B', capsule(1, c.r))
			_, l := r.rows()
			words := func(row *Row) string {
				facts := slices.DeleteFunc(slices.Clone(row.Facts), func(f string) bool {
					return strings.HasPrefix(f, "PSN ") || strings.HasSuffix(f, " B")
				})
				return strings.TrimSpace(row.Op + " " + strings.Join(facts, " "))
			}
			if got := words(&l.Rows[0]); got != "CM REQ QP 0x00000a" {
				t.Errorf("the request: %q", got)
			}
			command, response := &l.Rows[2], &l.Rows[3]
			if got := words(command); got != c.command {
				t.Errorf("%q, want %q", got, c.command)
			}
			if got := strings.Join(command.Notes, ";"); got != c.note {
				t.Errorf("%q, want %q", got, c.note)
			}
			if got := words(response); got != c.response {
				t.Errorf("%q, want %q", got, c.response)
			}
		})
	}
}

// Private data is NVMe's by its form.
func TestNVMeConnection(t *testing.T) {
	for i, b := range [][]byte{nvmeRequest(0)[:31], make([]byte, 32), append([]byte{1, 0}, nvmeRequest(0)[2:]...),
		append(nvmeRequest(0)[:31:31], 1), []byte(fmt.Sprintf("%032d", 1))} {
		if nvmeConnection(b) != nil {
			t.Errorf("%d: private data of another protocol is taken for NVMe's", i)
		}
	}
	if q := nvmeConnection(append(nvmeRequest(3), 1, 2)); q == nil || q.admin {
		t.Error(q)
	}
	if q := nvmeConnection(nvmeRequest(0)); q == nil || !q.admin {
		t.Error(q)
	}
}
