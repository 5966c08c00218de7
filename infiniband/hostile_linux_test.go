// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"bytes"
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/ibta"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
)

// localPair returns two connected sockets, as a fabric's process and a program have them.
func localPair(t testing.TB) (a, b *net.UnixConn) {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	var ends [2]*net.UnixConn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "pair")
		c, err := net.FileConn(f)
		f.Close()
		if err != nil {
			t.Fatal(err)
		}
		ends[i] = c.(*net.UnixConn)
		t.Cleanup(func() { c.Close() })
	}
	return ends[0], ends[1]
}

// pairFabric is two adapters at a switch, up.
func pairFabric(t testing.TB) *Fabric {
	t.Helper()
	f, err := GenerateFabric("pair", nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := f.AwaitActive(ctx); err != nil {
		t.Fatal(err)
	}
	return f
}

// appendPacket appends the message of a packet.
func appendPacket(b []byte, port int, omitted bool, packet []byte) []byte {
	p := link.New(link.Config{}).Alloc(len(packet))
	p.NoICRC = omitted
	return append(appendPacketHeader(bytes.Clone(b), port, p), packet...)
}

// A program that sends packets without a header, or with half of one, gets nothing through, and the fabric goes on for
// others.
func TestShortPackets(t *testing.T) {
	f := pairFabric(t)
	program, server := localPair(t)
	go f.serve(t.Context(), server, &greetings{})
	b := appendMessage(nil, kindHello, hello{Version: protocolVersion, Adapter: "host-1"})
	for n := range ib.LRHLen + ib.GRHLen + ib.BTHLen + ib.ICRCLen {
		packet := make([]byte, n)
		if n > 1 {
			packet[1] = 3 // a GRH follows
		}
		b = appendPacket(b, 1, false, packet)
	}
	b = appendMessage(b, kindRequest, request{ID: 7, Op: opClaim, Service: 1, Mask: 1})
	if _, err := program.Write(b); err != nil {
		t.Fatal(err)
	}
	program.SetReadDeadline(time.Now().Add(time.Minute))
	for r := newReader(program, maxMessage); ; {
		k, m, err := r.next()
		if err != nil {
			t.Fatal("before the answer to what came after the packets: ", err)
		}
		var a answer
		if k == kindAnswer && decode(m, &a) == nil && a.ID == 7 {
			break
		}
	}
}

// FuzzServe is a program that connects to a fabric's process, and sends anything.
func FuzzServe(f *testing.F) {
	begin := appendMessage(nil, kindHello, hello{Version: protocolVersion, Adapter: "host-1"})
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add(appendMessage(nil, kindHello, hello{Version: protocolVersion, View: true}))
	f.Add(appendMessage(nil, kindHello, hello{Version: protocolVersion,
		Route: &ends{End{Node: "host-1", Port: 1}, End{Node: "host-2", Port: 1}}}))
	f.Add([]byte{0, 0, 0, 4, byte(kindHello)})
	for n := range 2 {
		f.Add(appendPacket(begin, 1, false, make([]byte, n)))
		f.Add(appendPacket(begin, 1, true, make([]byte, n)))
	}
	for _, d := range []link.Datagram{
		{SLID: node.PermissiveLID, DLID: node.PermissiveLID},
		{SLID: 2, DLID: 1, Source: ib.QP1, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI},
		{SLID: 2, DLID: 3, Source: ib.QP1, Dest: ib.QP1, PKey: ib.DefaultPKey, QKey: ib.QKeyGSI},
	} {
		p := link.New(link.Config{}).NewMAD(d, []byte{1, 0x81, 1, 1})
		f.Add(appendPacket(begin, 1, true, p.Bytes()))
	}
	for _, q := range []request{{ID: 1, Op: opClaim, Service: 5, Mask: 0xff}, {Op: opUnclaim},
		{Op: opServe, Class: 9, On: true}, {ID: 2, Op: opSetSM, On: true},
		{Op: opViolated, Violation: &violation{Port: 1, Trap: mad.TrapPKey}}, {Op: "nothing"}} {
		f.Add(appendMessage(bytes.Clone(begin), kindRequest, q))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		f := pairFabric(t)
		program, server := localPair(t)
		done := make(chan struct{})
		go func() {
			defer close(done)
			f.serve(context.Background(), server, &greetings{viewing: make(chan struct{}, 1)})
		}()
		go func() {
			program.Write(b) // as much as is wanted
			program.CloseWrite()
		}()
		io.Copy(io.Discard, program)
		<-done
		for _, n := range f.View().Nodes {
			if n.Programs != 0 {
				t.Errorf("%d programs are left at %s", n.Programs, n.Name)
			}
		}
	})
}

// anyInfo is the state of a port, for messages.
func anyInfo() *info {
	return &info{State: node.Active, LID: 1, MaxMTU: 5, MTU: 5, VLs: 8, GIDs: []ib.GID{{0: 0xfe, 1: 0x80, 15: 1}},
		PKeys: []ib.PKey{ib.DefaultPKey}}
}

// FuzzAttach is a process that a program takes for its fabric's, and that sends anything.
func FuzzAttach(f *testing.F) {
	welcomes := appendMessage(nil, kindWelcome, welcome{Name: "host-1", GUID: 1, Ports: []*info{anyInfo()},
		Neighbors: map[netip.Addr]ib.GID{netip.MustParseAddr("198.18.0.2"): {15: 2}}})
	f.Add([]byte{})
	f.Add([]byte{1})
	f.Add(appendMessage(nil, kindRefused, refusal{"no"}))
	f.Add(appendMessage(nil, kindWelcome, welcome{Slot: 1 << 20, Ports: []*info{nil}}))
	f.Add(appendMessage(bytes.Clone(welcomes), kindChanged,
		changed{1, anyInfo(), []verbs.EventType{verbs.EventGIDChange}}))
	f.Add(appendMessage(bytes.Clone(welcomes), kindChanged, changed{1, &info{LMC: 200}, nil}))
	f.Add(appendMessage(bytes.Clone(welcomes), kindAnswer, answer{ID: 1}))
	for _, n := range []int{0, 1, ib.LRHLen, ib.LRHLen + ib.BTHLen + ib.ICRCLen, ib.LRHLen + ib.GRHLen + ib.BTHLen} {
		packet := make([]byte, n)
		if n > 1 {
			packet[1] = byte(n & 3)
		}
		f.Add(appendPacket(welcomes, 1, false, packet))
		f.Add(appendPacket(welcomes, 1, true, packet))
	}
	full := ib.LRH{LNH: ib.LNHGlobal, DLID: 1, SLID: 2, PktLen: 20}.Append(nil)
	full = (&ib.GRH{IPVer: 6, NxtHdr: ib.GRHNextHeader}).Append(full)
	full = append(ib.BTH{Opcode: ib.UDSendOnly, PKey: ib.DefaultPKey, DestQP: 2}.Append(full),
		make([]byte, ib.DETHLen+8+ib.ICRCLen)...)
	f.Add(appendPacket(welcomes, 1, true, full))
	f.Fuzz(func(t *testing.T, b []byte) {
		program, server := localPair(t)
		go func() {
			server.Write(b)
			server.CloseWrite()
			io.Copy(io.Discard, server)
		}()
		record, err := trace.NewWriter(io.Discard, "port")
		if err != nil {
			t.Fatal(err)
		}
		p := newPort(fabric.NewWaiter(), &Options{Trace: record})
		a, err := attachTo(t.Context(), program, "", p)
		if err != nil {
			return
		}
		p.adapter = a
		<-a.ended
		for n := 1; n <= a.Ports(); n++ {
			p.Info(n)
			p.Resolve(&verbs.AHAttr{Port: n, DLID: 1, SrcPathBits: 1})
		}
		var counters ibta.Counters
		for a.Ready() {
			if n, err := p.Receive(&counters, func(*ib.Packet, *ibta.Arrival) {}); n == 0 {
				if err == nil {
					t.Error("the adapter has packets, and gives none")
				}
				break
			}
		}
		p.Close()
	})
}

// FuzzCables sends datagrams to a socket for cables: from an unknown address, and from an end that has joined. in is
// datagrams with their lengths, two bytes each.
func FuzzCables(f *testing.F) {
	f.Add([]byte{})
	f.Add([]byte{0})
	seed := func(all ...[]byte) {
		var in []byte
		for _, b := range all {
			in = append(binary.BigEndian.AppendUint16(in, uint16(len(b))), b...)
		}
		f.Add(in)
	}
	seed([]byte{}, []byte{1}, []byte("RC"))
	credit := ib.FlowControl{FCTBS: 3, VL: 1, FCCL: 4000}.Append(nil)
	for _, d := range []datagram{
		{kind: datagramHello, from: 7, width: 2, speed: 32, port: 3, to: "switch", own: "leaf-2[4]"},
		{kind: datagramHello, from: 7, width: 2, speed: 32, port: 3},
		{kind: datagramHello, from: 7, width: 2, speed: 32, own: "pod-0[1]"},
		{kind: datagramAlive, epoch: 2, seen: 1},
		{kind: datagramFrame, epoch: 2, frame: credit},
		{kind: datagramFrame, epoch: 2, frame: []byte{0}},
		{kind: datagramFrame, epoch: 2},
		{kind: datagramBye, pulled: true},
	} {
		alive := datagram{kind: datagramAlive, epoch: 2, seen: 1}
		seed(alive.append(nil), d.append(nil))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		f, err := run(mustGenerate(t, "star:2", 2), &fabric.Options{NoManager: true})
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w, err := f.newWire("127.0.0.1:0", true)
		if err != nil {
			t.Fatal(err)
		}
		defer w.close()
		peer := netip.MustParseAddrPort("127.0.0.1:9")
		var joined *Cable
		for _, n := range f.View().Nodes {
			if c := newCable(w, End{Node: n.Name, Port: len(n.Ports)}, End{}, peer, 5); joined == nil &&
				w.start(c, "far") == nil {
				joined = c
			}
		}
		if joined == nil {
			t.Fatal("no port is free")
		}
		joined.mu.Lock()
		joined.peerToken, joined.width, joined.speed = 7, node.Width4x, node.EDR
		joined.mu.Unlock()
		w.drive()
		all := incoming{socket: w}
		var d datagram
		for len(in) >= 2 {
			n := min(int(binary.BigEndian.Uint16(in)), len(in)-2)
			b := in[2 : 2+n]
			in = in[2+n:]
			all.handle(b, peer, time.Now())
			if _, ok := d.decode(b); ok && d.kind != datagramHello { // from the other end
				joined.handle(&d, peer)
				if d.kind == datagramFrame && joined.admits(&d, peer, time.Now()) {
					joined.remote.Handle([][]byte{d.frame})
				}
			}
		}
		all.flush()
	})
}

// mustGenerate returns a topology with spare ports.
func mustGenerate(t testing.TB, shape string, spare int) *topology.Topology {
	t.Helper()
	shaped, err := topology.Generate(shape)
	if err != nil {
		t.Fatal(err)
	}
	if err := shaped.AddPorts(spare); err != nil {
		t.Fatal(err)
	}
	return shaped
}

// FuzzNames is the kernel's table of Unix sockets, in which any user of the host can have any name.
func FuzzNames(f *testing.F) {
	f.Add("0")
	const line = "0000000000000000: 00000002 00000000 00010000 0001 01 12345 "
	f.Add("")
	f.Add("\n")
	f.Add("Num       RefCount Protocol Flags    Type St Inode Path\n" + line + localPrefix() + "lab\n" + line +
		localPrefix() + "\n")
	f.Add(line + localPrefix() + "\x1b]0;x\a\n" + line + localPrefix() + "lab")
	f.Fuzz(func(t *testing.T, table string) {
		for _, name := range namesIn(table) {
			if printable(name) != name || strings.ContainsAny(name, " \n") {
				t.Errorf("%q is a fabric's name", name)
			}
		}
	})
}
