// SPDX-License-Identifier: Apache-2.0

package nvme_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// raw is a connection on which a test sends what capsules it likes.
type raw struct {
	t    *testing.T
	c    *cm.Conn
	data *verbs.MR // memory that the target may use
	cid  uint16
}

// connect connects a queue with private data, and leaves everything else to the test.
func connect(t *testing.T, s *setting, private []byte) (*raw, error) {
	pd, err := s.dev.AllocPD()
	ok(t, err)
	data, err := pd.AllocMR(64<<10, verbs.LocalWrite|verbs.RemoteRead|verbs.RemoteWrite|verbs.MWBind)
	ok(t, err)
	c, err := cm.Dial(within(t), s.dev, s.addr(), cm.WithPD(pd), cm.WithPrivateData(private), cm.WithDepth(64, 64))
	t.Cleanup(func() {
		if c != nil {
			c.Close()
		}
		data.Close()
		pd.Close()
	})
	return &raw{t: t, c: c, data: data}, err
}

func admin() []byte { return (&wire.Request{HostRecvs: 32, HostSends: 31}).Append(nil) }

// ask sends a command with data in the capsule, and returns the response.
func (r *raw) ask(c wire.Command, inline []byte) wire.Completion {
	r.t.Helper()
	r.cid++
	c.CID, c.Flags = r.cid, c.Flags|wire.FlagSGL
	ok(r.t, r.c.Send(within(r.t), append(c.Append(nil), inline...)))
	return r.hear()
}

func (r *raw) hear() (done wire.Completion) {
	r.t.Helper()
	b, err := r.c.Recv(within(r.t))
	ok(r.t, err)
	defer b.Release()
	if !done.Decode(b.Bytes()) || done.CID != r.cid {
		r.t.Fatalf("%+v, to command %d", done, r.cid)
	}
	return done
}

// keyed describes n bytes of the memory.
func (r *raw) keyed(n int) wire.SGL {
	at := r.data.Remote()
	return wire.Keyed(wire.SGLKeyed, at.Addr, n, uint32(at.Key))
}

// connectTo sends Connect.
func (r *raw) connectTo(p wire.ConnectParams, d wire.ConnectData) wire.Completion {
	r.t.Helper()
	b := d.Append(nil)
	copy(r.data.Bytes(), b)
	c := wire.Command{SGL: r.keyed(len(b))}
	c.SetConnect(&p)
	return r.ask(c, nil)
}

func (r *raw) enable() {
	r.t.Helper()
	var c wire.Command
	c.SetProperty(wire.PropertySet, wire.PropertyCC, 4, wire.CCDefaultEnable)
	if done := r.ask(c, nil); done.Status != wire.Success {
		r.t.Fatal(done)
	}
}

var connectData = wire.ConnectData{HostID: [16]byte{1}, Controller: wire.DynamicController, SubNQN: diskNQN,
	HostNQN: hostNQN}

// Private data of every length, and with every field out of bounds, is rejected with its reason.
func TestPrivateData(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{Queues: 4, QueueDepth: 64})
	refused := func(b []byte, want wire.RejectStatus) {
		t.Helper()
		_, err := connect(t, s, b)
		var rejected *cm.RejectError
		var r wire.Reject
		if !errors.As(err, &rejected) || !r.Decode(rejected.PrivateData) || r.Status != want {
			t.Errorf("% x: %v, %v, not %v", b, err, r.Status, want)
		}
	}
	for n := range wire.RequestSize { // over shared memory nothing fills private data up
		refused(admin()[:n], wire.RejectPrivateData)
	}
	for _, c := range []struct {
		r    wire.Request
		want wire.RejectStatus
	}{
		{wire.Request{Format: 1, HostRecvs: 32, HostSends: 31}, wire.RejectFormat},
		{wire.Request{QID: 5, HostRecvs: 32, HostSends: 31}, wire.RejectQID},
		{wire.Request{QID: 0xffff, HostRecvs: 32, HostSends: 31}, wire.RejectQID},
		{wire.Request{HostRecvs: 32, HostSends: 0}, wire.RejectHostSends},
		{wire.Request{HostRecvs: 32, HostSends: 64}, wire.RejectHostSends},
		{wire.Request{HostRecvs: 32, HostSends: 0xffff}, wire.RejectHostSends},
		{wire.Request{HostRecvs: 0, HostSends: 31}, wire.RejectHostRecvs},
	} {
		refused(c.r.Append(nil), c.want)
	}
	_, err := connect(t, s, (&wire.Request{QID: 4, HostRecvs: 1, HostSends: 1}).Append(nil))
	ok(t, err)
}

// There are no more connections than the target has room for.
func TestConnections(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{Connections: 2})
	for range 2 {
		_, err := connect(t, s, admin())
		ok(t, err)
	}
	_, err := connect(t, s, admin())
	var rejected *cm.RejectError
	var r wire.Reject
	if !errors.As(err, &rejected) || !r.Decode(rejected.PrivateData) || r.Status != wire.RejectNoResources {
		t.Error(err)
	}
}

// Connect commands with wrong fields are refused, and say which field it is.
func TestWrongConnect(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{})
	with := func(f func(*wire.ConnectParams, *wire.ConnectData)) (wire.ConnectParams, wire.ConnectData) {
		p, d := wire.ConnectParams{SQSize: 31}, connectData
		f(&p, &d)
		return p, d
	}
	for _, c := range []struct {
		name string
		f    func(*wire.ConnectParams, *wire.ConnectData)
		want wire.Status
		at   uint64
	}{
		{"format", func(p *wire.ConnectParams, d *wire.ConnectData) { p.Format = 1 }, wire.ConnectIncompatibleFormat,
			0},
		{"queue", func(p *wire.ConnectParams, d *wire.ConnectData) { p.QID = 1 }, wire.ConnectInvalidParameters, 42},
		{"size 1", func(p *wire.ConnectParams, d *wire.ConnectData) { p.SQSize = 0 }, wire.ConnectInvalidParameters,
			44},
		{"size", func(p *wire.ConnectParams, d *wire.ConnectData) { p.SQSize = 0xffff }, wire.ConnectInvalidParameters,
			44},
		{"no NQN", func(p *wire.ConnectParams, d *wire.ConnectData) { d.SubNQN = "" }, wire.ConnectInvalidParameters,
			1<<16 | 256},
		{"NQN", func(p *wire.ConnectParams, d *wire.ConnectData) { d.SubNQN += "x" }, wire.ConnectInvalidParameters,
			1<<16 | 256},
		{"no host ID", func(p *wire.ConnectParams, d *wire.ConnectData) { d.HostID = [16]byte{} },
			wire.ConnectInvalidParameters, 1 << 16},
		{"no host NQN", func(p *wire.ConnectParams, d *wire.ConnectData) { d.HostNQN = "" },
			wire.ConnectInvalidParameters, 1<<16 | 512},
		{"controller", func(p *wire.ConnectParams, d *wire.ConnectData) { d.Controller = 1 },
			wire.ConnectInvalidParameters, 1<<16 | 16},
	} {
		r, err := connect(t, s, admin())
		ok(t, err)
		p, d := with(c.f)
		if done := r.connectTo(p, d); done.Status != c.want || done.Result != c.at {
			t.Errorf("%s: %+v", c.name, done)
		}
		if done := r.connectTo(wire.ConnectParams{SQSize: 31}, connectData); done.Status != wire.Success {
			t.Errorf("%s, and then a right one: %+v", c.name, done)
		}
		if done := r.connectTo(wire.ConnectParams{SQSize: 31}, connectData); done.Status != wire.CommandSequenceError {
			t.Errorf("%s, and then a second one: %+v", c.name, done)
		}
	}
	// An I/O queue of nobody's controller, and of somebody else's.
	a, err := connect(t, s, admin())
	ok(t, err)
	done := a.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	io, err := connect(t, s, (&wire.Request{QID: 1, HostRecvs: 32, HostSends: 31}).Append(nil))
	ok(t, err)
	d := connectData
	d.Controller = uint16(done.Result)
	if done := io.connectTo(wire.ConnectParams{QID: 1, SQSize: 31}, d); done.Status != wire.CommandSequenceError {
		t.Errorf("before the controller is enabled: %+v", done)
	}
	a.enable()
	other := d
	other.HostNQN += "x"
	if done := io.connectTo(wire.ConnectParams{QID: 1, SQSize: 31},
		other); done.Status != wire.ConnectInvalidParameters {
		t.Errorf("another host: %+v", done)
	}
	other = d
	other.Controller++
	if done := io.connectTo(wire.ConnectParams{QID: 1, SQSize: 31},
		other); done.Status != wire.ConnectInvalidParameters {
		t.Errorf("another controller: %+v", done)
	}
	if done := io.connectTo(wire.ConnectParams{QID: 1, SQSize: 31}, d); done.Status != wire.Success {
		t.Errorf("%+v", done)
	}
}

// Commands with wrong SGLs, ranges and fields are refused with their status, and the queue goes on.
func TestWrongCommands(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{}, disk(1, 64<<10))
		a, err := connect(t, s, admin())
		ok(t, err)
		if done := a.ask(wire.Command{Opcode: wire.AdminKeepAlive}, nil); done.Status != wire.CommandSequenceError {
			t.Errorf("before Connect: %+v", done)
		}
		q := ioQueue(t, s, a)
		io := func(op wire.Opcode, slba uint64, n uint32, sgl wire.SGL) wire.Command {
			c := wire.Command{Opcode: op, NSID: 1, SGL: sgl}
			c.SetLBA(slba, n)
			return c
		}
		at := q.data.Remote()
		for _, c := range []struct {
			name   string
			cmd    wire.Command
			inline int
			want   wire.Status
		}{
			{"right", io(wire.Read, 0, 1, q.keyed(512)), 0, wire.Success},
			{"opcode", io(0x55, 0, 1, q.keyed(512)), 0, wire.InvalidOpcode},
			{"fused", wire.Command{Opcode: wire.Flush, Flags: 1, NSID: 1}, 0, wire.InvalidField},
			{"PRP", wire.Command{Opcode: wire.Flush, Flags: 0x80, NSID: 1}, 0, wire.InvalidField},
			{"namespace 0", wire.Command{Opcode: wire.Flush}, 0, wire.InvalidNamespace},
			{"all namespaces", wire.Command{Opcode: wire.Flush, NSID: 0xffffffff}, 0, wire.InvalidNamespace},
			{"past the end", io(wire.Read, 128, 1, q.keyed(512)), 0, wire.LBAOutOfRange},
			{"over the end", io(wire.Write, 127, 2, q.keyed(1024)), 0, wire.LBAOutOfRange},
			{"the highest block", io(wire.Read, 1<<64-1, 1<<16, q.keyed(512)), 0, wire.LBAOutOfRange},
			{"zeros over the end", io(wire.WriteZeroes, 127, 2, wire.SGL{}), 0, wire.LBAOutOfRange},
			{"short memory", io(wire.Read, 0, 2, q.keyed(512)), 0, wire.SGLLengthInvalid},
			{"long memory", io(wire.Read, 0, 1, q.keyed(1024)), 0, wire.SGLLengthInvalid},
			{"no memory", io(wire.Write, 0, 1, q.keyed(0)), 0, wire.SGLLengthInvalid},
			{"a PRP", io(wire.Read, 0, 1, wire.SGL{}), 0, wire.SGLTypeInvalid},
			{"read into the capsule", io(wire.Read, 0, 1, wire.InCapsule(0, 512)), 512, wire.SGLTypeInvalid},
			{"in the capsule", io(wire.Write, 0, 1, wire.InCapsule(0, 512)), 512, wire.Success},
			{"in the capsule, behind", io(wire.Write, 0, 1, wire.InCapsule(512, 512)), 1024, wire.Success},
			{"capsule too short", io(wire.Write, 0, 1, wire.InCapsule(0, 512)), 511, wire.SGLLengthInvalid},
			{"an empty capsule", io(wire.Write, 0, 1, wire.InCapsule(0, 512)), 0, wire.SGLLengthInvalid},
			{"offset", io(wire.Write, 0, 1, wire.InCapsule(513, 512)), 512, wire.SGLOffsetInvalid},
			{"a huge offset", io(wire.Write, 0, 1, wire.InCapsule(1<<64-1, 512)), 512, wire.SGLOffsetInvalid},
			{"a huge length", io(wire.Write, 0, 1, wire.InCapsule(1, 0xffffffff)), 512, wire.SGLLengthInvalid},
			{"ranges", wire.Command{Opcode: wire.DatasetManagement, NSID: 1, CDW10: 0xff, CDW11: 4, SGL: q.keyed(16)},
				0, wire.SGLLengthInvalid},
			{"more memory than ranges", wire.Command{Opcode: wire.DatasetManagement, NSID: 1, CDW11: 4,
				SGL: q.keyed(4096)}, 0, wire.Success},
			{"too much memory", wire.Command{Opcode: wire.DatasetManagement, NSID: 1, CDW11: 4, SGL: q.keyed(4112)}, 0,
				wire.SGLLengthInvalid},
			{"connect", wire.Command{Opcode: wire.Fabrics, NSID: uint32(wire.PropertyGet)}, 0, wire.InvalidOpcode},
			{"right again", io(wire.Read, 0, 1, wire.Keyed(wire.SGLKeyed, at.Addr, 512, uint32(at.Key))), 0,
				wire.Success},
		} {
			if done := q.ask(c.cmd, make([]byte, c.inline)); done.Status != c.want {
				t.Errorf("%s: %+v, not %v", c.name, done, c.want)
			}
		}
		for _, c := range []struct {
			name string
			cmd  wire.Command
			want wire.Status
		}{
			{"identify", wire.Command{Opcode: wire.AdminIdentify, CDW10: 1, SGL: q.keyed(4096)}, wire.SGLLengthInvalid},
			{"CNS", wire.Command{Opcode: wire.AdminIdentify, CDW10: 0xff, SGL: a.keyed(4096)}, wire.InvalidField},
			{"all namespaces", wire.Command{Opcode: wire.AdminIdentify, NSID: 0xffffffff, SGL: a.keyed(4096)},
				wire.InvalidNamespace},
			{"log page", wire.Command{Opcode: wire.AdminGetLogPage, CDW10: 0xee | 1023<<16, SGL: a.keyed(4096)},
				wire.InvalidLogPage},
			{"a long log page", wire.Command{Opcode: wire.AdminGetLogPage, CDW10: 1 | 0xffff<<16, CDW11: 0xffff,
				SGL: a.keyed(4096)}, wire.InvalidField},
			{"offset in a log", wire.Command{Opcode: wire.AdminGetLogPage, CDW10: 2, CDW12: 516, SGL: a.keyed(4)},
				wire.InvalidField},
			{"feature", wire.Command{Opcode: wire.AdminGetFeatures, CDW10: 0x33}, wire.InvalidField},
			{"saved feature", wire.Command{Opcode: wire.AdminSetFeatures, CDW10: 1<<31 | 7}, wire.FeatureNotSaveable},
			{"no queues", wire.Command{Opcode: wire.AdminSetFeatures, CDW10: 7, CDW11: 0xffff}, wire.InvalidField},
			{"property", wire.Command{Opcode: wire.Fabrics, NSID: uint32(wire.PropertyGet), CDW11: 0x1000},
				wire.InvalidField},
			{"property of 8 bytes", wire.Command{Opcode: wire.Fabrics, NSID: uint32(wire.PropertySet), CDW10: 1,
				CDW11: 0x14}, wire.InvalidField},
			{"fabrics", wire.Command{Opcode: wire.Fabrics, NSID: 0x77}, wire.InvalidOpcode},
			{"format", wire.Command{Opcode: 0x80}, wire.InvalidOpcode},
			{"power state", wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeaturePower), CDW11: 1},
				wire.InvalidField},
			{"host identifier", wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureHostID)},
				wire.CommandSequenceError},
			{"host identifier of 8 bytes", wire.Command{Opcode: wire.AdminGetFeatures,
				CDW10: uint32(wire.FeatureHostID),
				SGL:   a.keyed(8)}, wire.InvalidField},
			{"abort", wire.Command{Opcode: wire.AdminAbort, CDW10: 0xffffffff}, wire.Success},
		} {
			if c.name == "identify" {
				c.cmd.SGL = a.keyed(512)
			}
			if done := a.ask(c.cmd, nil); done.Status != c.want {
				t.Errorf("admin: %s: %+v, not %v", c.name, done, c.want)
			}
		}
		log := wire.Command{Opcode: wire.AdminGetLogPage, SGL: a.keyed(64)}
		log.SetLogPage(wire.LogErrors, 0, 64)
		if done := a.ask(log, nil); done.Status != wire.Success || a.data.Bytes()[0] == 0 {
			t.Errorf("%+v: the error log has no entry", done)
		}
		log.SetLogPage(wire.LogFirmware, 0, 64)
		if done := a.ask(log, nil); done.Status != wire.Success ||
			string(a.data.Bytes()[:16]) != "\x01\x00\x00\x00\x00\x00\x00\x001       " {
			t.Errorf("%+v: the firmware log begins with %q", done, a.data.Bytes()[:16])
		}
	})
}

// A peer that breaks the transport loses its connection, and the target goes on.
func TestBrokenPeers(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{}, disk(1, 64<<10))
		for name, do := range map[string]func(r *raw){
			"an empty capsule": func(r *raw) { r.c.Send(within(t), nil) },
			"63 bytes":         func(r *raw) { r.c.Send(within(t), make([]byte, 63)) },
			"too long":         func(r *raw) { r.c.Send(within(t), make([]byte, 64+8<<10+64)) },
			"a key that is not": func(r *raw) {
				c := wire.Command{Flags: wire.FlagSGL, SGL: wire.Keyed(wire.SGLKeyed, 12345, wire.ConnectDataSize,
					0x12345678)}
				c.SetConnect(&wire.ConnectParams{SQSize: 31})
				r.c.Send(within(t), c.Append(nil))
			},
			"memory that ends": func(r *raw) {
				at := r.data.Remote().At(64 << 10)
				c := wire.Command{Flags: wire.FlagSGL, SGL: wire.Keyed(wire.SGLKeyed, at.Addr, wire.ConnectDataSize,
					uint32(at.Key))}
				c.SetConnect(&wire.ConnectParams{SQSize: 31})
				r.c.Send(within(t), c.Append(nil))
			},
		} {
			r, err := connect(t, s, admin())
			ok(t, err)
			do(r)
			select {
			case <-r.c.Done():
			case <-time.After(patience):
				t.Errorf("%s: the connection stays", name)
			}
		}
		d, err := s.dial(t, nvme.HostOptions{}).Open(within(t), 1)
		ok(t, err)
		_, err = d.ReadAt(make([]byte, 4096), 0)
		ok(t, err)
	})
}

// Requests for events beyond the limit are refused, and waiting ones can be aborted.
func TestEventRequests(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{})
	r, err := connect(t, s, admin())
	ok(t, err)
	r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	r.enable()
	for range 4 {
		r.cid++
		c := wire.Command{Opcode: wire.AdminAsyncEvent, Flags: wire.FlagSGL, CID: r.cid}
		ok(t, r.c.Send(within(t), c.Append(nil)))
	}
	// Commands run beside each other: which of five is refused is open.
	r.cid++
	c := wire.Command{Opcode: wire.AdminAsyncEvent, Flags: wire.FlagSGL, CID: r.cid}
	ok(t, r.c.Send(within(t), c.Append(nil)))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	b, err := r.c.Recv(ctx)
	ok(t, err)
	var done wire.Completion
	if !done.Decode(b.Bytes()) || done.Status != wire.AsyncEventLimitExceeded {
		t.Errorf("%+v", done)
	}
	b.Release()
	waits := uint16(r.cid)
	if done.CID == waits {
		waits--
	}
	r.cid++
	abort := wire.Command{Opcode: wire.AdminAbort, Flags: wire.FlagSGL, CID: r.cid, CDW10: uint32(waits) << 16}
	ok(t, r.c.Send(within(t), abort.Append(nil)))
	for range 2 {
		b, err := r.c.Recv(within(t))
		ok(t, err)
		done.Decode(b.Bytes())
		b.Release()
		if done.CID == waits && done.Status != wire.AbortRequested || done.CID == r.cid &&
			(done.Status != wire.Success || done.Result != 0) {
			t.Errorf("%+v", done)
		}
	}
}

// A host that has no receives for responses keeps its queue busy, and not goroutines that change namespaces.
func TestNoReceives(t *testing.T) {
	s := set(t, "shm", nvme.TargetOptions{})
	r, err := connect(t, s, admin())
	ok(t, err)
	r.connectTo(wire.ConnectParams{SQSize: 31}, connectData)
	r.enable()
	r.ask(wire.Command{Opcode: wire.AdminSetFeatures, CDW10: uint32(wire.FeatureAsyncEvents),
		CDW11: wire.EventNamespace}, nil)
	send := func(op wire.Opcode) {
		r.cid++
		c := wire.Command{Opcode: op, Flags: wire.FlagSGL, CID: r.cid}
		ok(t, r.c.Send(within(t), c.Append(nil)))
	}
	send(wire.AdminAsyncEvent)
	for range 64 + 64 { // as many as there are receives, and as many responses as wait for one
		send(wire.AdminKeepAlive)
	}
	added := make(chan error, 1)
	go func() { added <- s.sub.AddNamespace(disk(1, 4096)) }()
	select {
	case err := <-added:
		ok(t, err)
	case <-time.After(patience):
		t.Fatal("AddNamespace waits for the host")
	}
	closed := make(chan error, 1)
	go func() { closed <- s.target.Close() }()
	select {
	case err := <-closed:
		ok(t, err)
	case <-time.After(patience):
		t.Fatal("Close waits for the host")
	}
}

// A response invalidates the key of its command where the host asks for that, whether the command succeeds or not, and
// not otherwise.
func TestInvalidate(t *testing.T) {
	kinds(t, func(t *testing.T, kind string) {
		s := set(t, kind, nvme.TargetOptions{})
		r, err := connect(t, s, admin())
		ok(t, err)
		mw, err := r.c.PD().AllocMW(verbs.MWType2)
		ok(t, err)
		defer mw.Close()
		for _, c := range []struct {
			nqn  string
			want wire.Status
		}{{diskNQN + "x", wire.ConnectInvalidParameters}, {diskNQN, wire.Success}} {
			d := connectData
			d.SubNQN = c.nqn
			copy(r.data.Bytes(), d.Append(nil))
			_, err := r.c.Do(within(t), (&verbs.SendWR{}).BindMW(&verbs.MWBindInfo{MW: mw, MR: r.data,
				RKey: mw.NextRKey(),
				Addr: r.data.Addr(), Length: wire.ConnectDataSize, Access: verbs.RemoteRead}))
			ok(t, err)
			key := mw.RKey()
			cmd := wire.Command{Flags: wire.FlagSGL, SGL: wire.Keyed(wire.SGLKeyedInvalidate, r.data.Addr(),
				wire.ConnectDataSize, uint32(key))}
			cmd.SetConnect(&wire.ConnectParams{SQSize: 31})
			ok(t, r.c.Send(within(t), cmd.Append(nil)))
			b, err := r.c.Recv(within(t))
			ok(t, err)
			var done wire.Completion
			if !done.Decode(b.Bytes()) || done.Status != c.want {
				t.Errorf("%+v, not %v", done, c.want)
			}
			if b.WC.Flags&verbs.WithInv == 0 || b.WC.InvKey != key {
				t.Errorf("flags %v, key %#x, not %#x", b.WC.Flags, b.WC.InvKey, key)
			}
			b.Release()
		}
		r.cid++
		cmd := wire.Command{Opcode: wire.Fabrics, NSID: uint32(wire.PropertyGet), Flags: wire.FlagSGL, CID: r.cid,
			CDW11: uint32(wire.PropertyCSTS)}
		ok(t, r.c.Send(within(t), cmd.Append(nil)))
		b, err := r.c.Recv(within(t))
		ok(t, err)
		if b.WC.Flags&verbs.WithInv != 0 {
			t.Error("the key of a command without one is invalidated")
		}
		b.Release()
	})
}
