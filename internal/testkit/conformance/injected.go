// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"fmt"
	"io"

	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/core/faults"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// injectedTests hold docs/faults.md to each fault: it has the described effect on every device, or is refused by its
// name.
var injectedTests = []test{
	{name: "Injected/Packets", run: testInjectedPackets, needs: []Ability{Injection}},
	{name: "Injected/Corrupt", run: testInjectedCorruption, needs: []Ability{Injection}},
	{name: "Injected/Down", run: testInjectedDown, needs: []Ability{Injection}},
	{name: "Injected/Partition", run: testInjectedPartition, needs: []Ability{Injection}},
	{name: "Injected/RNR", run: testInjectedRNR, needs: []Ability{Injection}},
	{name: "Injected/Selectors", run: testInjectedSelectors, needs: []Ability{Injection}},
	{name: "Injected/Calls", run: testInjectedCalls, needs: []Ability{Injection}},
	{name: "Injected/Completions", run: testInjectedCompletions, needs: []Ability{Injection}},
	{name: "Injected/Late", run: testInjectedLateness, needs: []Ability{Injection}},
	{name: "Injected/Events", run: testInjectedEvents, needs: []Ability{Injection}},
	{name: "Injected/NoObject", run: testInjectedIntoNothing, needs: []Ability{Injection}},
	{name: "Injected/Fatal", run: testInjectedFatal, needs: []Ability{Injection}},
	{name: "Injected/Connections", run: testInjectedConnections, needs: []Ability{Connections, Injection}},
}

// medium is the network between two devices.
type medium int

const (
	packetMedium medium = iota
	streamMedium
	memoryMedium
)

func (t *T) medium() medium {
	switch {
	case t.late():
		return streamMedium
	case t.lacking(GeneralServices):
		return memoryMedium
	}
	return packetMedium
}

// unfitting says why a device does not take faults of a kind; media that take them are not there.
var unfitting = map[faults.Kind]map[medium]string{
	faults.Loss:      {streamMedium: "TCP, or SCTP", memoryMedium: "no packets"},
	faults.Duplicate: {streamMedium: "TCP, or SCTP", memoryMedium: "no packets"},
	faults.Reorder:   {streamMedium: "TCP, or SCTP", memoryMedium: "no packets"},
	faults.Corrupt:   {memoryMedium: "no packets"},
	faults.Delay:     {memoryMedium: "no packets"},
	faults.Rate:      {memoryMedium: "no packets"},
	faults.Partition: {memoryMedium: "no packets"},
	faults.Down:      {memoryMedium: "no packets"},
	faults.RNR:       {streamMedium: "no RNR NAKs"},
}

// target returns the target of injected faults. It skips the test on devices that are not in software.
func (t *T) target(dev *verbs.Device) faults.Target {
	t.Helper()
	to, ok := driver.DeviceOf(dev).(faults.Target)
	if !ok {
		t.Skip("faults are injected into devices in software only")
	}
	return to
}

// inject has faults strike a device from now on. It returns false if the device refuses them, by name and with the
// right reason, and skips the test on devices that are not of software.
func (t *T) inject(dev *verbs.Device, text string) bool {
	t.Helper()
	to := t.target(dev)
	set, err := faults.Parse(text)
	t.ok(err)
	if !set.Seeded {
		set.Seed, set.Seeded = 1, true
	}
	err = set.Set(to, dev.Name(), faults.NewLog(io.Discard))
	for i := range set.Faults {
		f := &set.Faults[i]
		if why, refused := unfitting[f.Kind][t.medium()]; refused {
			t.unfit(err, f.String(), why)
			return false
		}
	}
	t.ok(err)
	return true
}

// unfit ends the test unless err names a fault, and says why the device does not take it.
func (t *T) unfit(err error, fault, why string) {
	t.Helper()
	if !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "`"+fault+"`") ||
		!strings.Contains(err.Error(), why) {
		t.Fatalf("%s: error %v, want that it is not supported, because of %q", fault, err, why)
	}
}

// struck returns how often each of the device's faults has struck.
func struck(dev *verbs.Device) []faults.Result {
	return driver.DeviceOf(dev).(faults.Target).Faults().Results()
}

// strikes fails the test unless each of the device's faults has struck.
func (t *T) strikes(dev *verbs.Device) {
	t.Helper()
	for _, r := range struck(dev) {
		if r.Struck == 0 {
			t.Errorf("%s", r.String())
		}
	}
}

// exchange sends messages both ways, and checks the received ones.
func (t *T) exchange(a, b *end, n int) {
	t.Helper()
	const size = 5000
	for i := range n {
		for _, way := range [][2]*end{{a, b}, {b, a}} {
			from, to := way[0], way[1]
			from.fill(0, size, i)
			to.recv(uint64(i), 8192, size)
			from.do(verbs.SendWR{Op: verbs.OpSend, SGL: from.sgl(0, size)})
			to.received(verbs.StatusSuccess)
			to.holds(8192, size, i)
		}
	}
}

// testInjectedPackets: reliable queue pairs survive all faults of packets.
func testInjectedPackets(t *T) {
	a, b := t.pair(setup{})
	for _, text := range []string{
		"loss every 5 sent", "loss every 5 received", "duplicate every 3", "reorder 200us every 3", "delay 100us 50us",
		"rate 100mbit",
	} {
		if t.inject(a.dev, text) {
			t.exchange(a, b, 5)
			t.strikes(a.dev)
		}
	}
}

// testInjectedCorruption: a corrupt packet is lost, and a corrupt stream ends.
func testInjectedCorruption(t *T) {
	for _, way := range []string{"sent", "received"} {
		a, b := t.pair(setup{})
		t.exchange(a, b, 1)
		if t.medium() != streamMedium {
			if t.inject(a.dev, "corrupt every 5 "+way) {
				t.exchange(a, b, 5)
				t.strikes(a.dev)
			}
			continue
		}
		text := "corrupt " + way
		set, err := faults.Parse(text)
		t.ok(err)
		if err := set.Set(t.target(a.dev), a.dev.Name(), faults.NewLog(io.Discard)); err != nil { // no effect here
			t.unfit(err, text, "without a CRC")
			return
		}
		from := a
		if way == "received" {
			from = b
		}
		from.post(verbs.SendWR{Op: verbs.OpSend, SGL: from.sgl(0, 1000)})
		a.state(verbs.StateError)
		b.state(verbs.StateError)
		t.strikes(a.dev)
	}
}

// testInjectedDown: a port that goes down and comes back raises two events, and messages sent meanwhile arrive.
func testInjectedDown(t *T) {
	a, b := t.pair(setup{})
	if !t.inject(a.dev, "down for 20ms") {
		return
	}
	a.event(verbs.EventPortError)
	t.exchange(a, b, 2)
	a.event(verbs.EventPortActive)
	t.strikes(a.dev)
}

// testInjectedPartition: nothing passes to and from a peer, until it does again.
func testInjectedPartition(t *T) {
	a, b := t.pair(setup{})
	peer := "peer " + b.ep.GID.Addr().Unmap().WithZone("").String()
	if b.ep.LID != 0 {
		peer = fmt.Sprintf("lid %d", b.ep.LID)
	}
	if !t.inject(a.dev, "partition "+peer) {
		return
	}
	b.recv(1, 0, 64)
	a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
	t.eventually(func() bool { return struck(a.dev)[0].Struck > 0 }, "the partition strikes")
	t.none(b.rcq)
	t.inject(a.dev, "fail reg_mr EIO nth 1000")
	a.sent(verbs.StatusSuccess)
	b.received(verbs.StatusSuccess)
	t.exchange(a, b, 2)
}

// testInjectedRNR: a message finds no receive at first, although there is one.
func testInjectedRNR(t *T) {
	a, b := t.pair(setup{})
	if t.inject(a.dev, "rnr times 2") {
		t.exchange(a, b, 5)
		t.strikes(a.dev)
	}
}

// testInjectedSelectors: a selector that can select nothing on a device is refused.
func testInjectedSelectors(t *T) {
	dev, _ := t.devices()
	to := t.target(dev)
	port := value(dev.Port(1))(t)
	for text, why := range map[string]string{
		"delay 1ms of send": "no sort", "delay 1ms lid 7": "no LIDs",
	} {
		set, err := faults.Parse(text)
		t.ok(err)
		err = set.Set(to, dev.Name(), faults.NewLog(io.Discard))
		switch lid := strings.Contains(text, "lid"); {
		case t.medium() == memoryMedium:
			t.unfit(err, text, "no packets")
		case t.medium() == streamMedium, lid && port.Link != verbs.LinkInfiniBand:
			t.unfit(err, text, why)
		default:
			t.ok(err)
		}
	}
}

// testInjectedCalls: each call fails that is to fail, and the next one does not.
func testInjectedCalls(t *T) {
	dev, _ := t.devices()
	t.target(dev) // before a call fails that the device does not have
	e := t.newEnd(dev, setup{})
	e.addQP(verbs.QPInit{})
	srq, err := e.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	t.ok(err)
	for name, call := range map[string]func() error{
		"alloc_pd":   func() error { _, err := dev.AllocPD(); return err },
		"reg_mr":     func() error { _, err := e.pd.RegMR(make([]byte, 64), verbs.LocalWrite); return err },
		"rereg_mr":   func() error { return e.mr.Rereg(verbs.ReregAccess, nil, nil, everything) },
		"alloc_mw":   func() error { _, err := e.pd.AllocMW(verbs.MWType2); return err },
		"create_ah":  func() error { _, err := e.pd.CreateAH(way(e.ep)); return err },
		"create_cq":  func() error { _, err := dev.CreateCQ(8, nil); return err },
		"resize_cq":  func() error { return e.scq.Resize(300) },
		"create_srq": func() error { _, err := e.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1}); return err },
		"modify_srq": func() error { return srq.Modify(verbs.SRQAttr{Limit: 1}, verbs.SRQLimit) },
		"create_qp": func() error {
			_, err := e.pd.CreateQP(verbs.QPInit{Type: verbs.RC, SendCQ: e.scq, RecvCQ: e.rcq})
			return err
		},
		"modify_qp":     func() error { return e.qp.Modify(verbs.QPAttr{State: verbs.StateReset}, verbs.MaskState) },
		"post_srq_recv": func() error { return srq.PostRecv(&verbs.RecvWR{SGL: e.sgl(0, 8)}) },
	} {
		without := call()
		if without != nil && name != "create_ah" {
			t.Errorf("%s fails by itself: %v", name, without)
		}
		t.inject(dev, "fail "+name+" EIO nth 1")
		if err := call(); !errors.Is(err, syscall.EIO) && (without == nil || !errors.Is(err, verbs.ErrNotSupported)) {
			t.Errorf("%s: %v, want EIO", name, err)
		}
		if err := call(); (err == nil) != (without == nil) {
			t.Errorf("%s fails again: %v", name, err)
		}
	}
	a, b := t.pair(setup{})
	t.inject(a.dev, "fail post_send ENOMEM nth 1; fail post_recv EIO nth 2 qp "+fmt.Sprint(a.qp.Num()))
	t.fails(a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend}), verbs.ErrQueueFull, "injected")
	a.recv(1, 0, 8)
	t.fails(a.qp.PostRecv(&verbs.RecvWR{SGL: a.sgl(0, 8)}), syscall.EIO, "injected")
	b.post(verbs.SendWR{Op: verbs.OpSend, SGL: b.sgl(0, 8)})
	a.received(verbs.StatusSuccess)
	t.strikes(a.dev)
}

// testInjectedCompletions: a work request of each operation completes as it is to, and its queue pair fails.
func testInjectedCompletions(t *T) {
	da, db := t.devices()
	for name, wr := range map[string]verbs.SendWR{
		"send": {Op: verbs.OpSend}, "write": {Op: verbs.OpWrite}, "read": {Op: verbs.OpRead},
		"compare_swap": {Op: verbs.OpCompareSwap}, "fetch_add": {Op: verbs.OpFetchAdd},
		"atomic_write": {Op: verbs.OpAtomicWrite}, "flush": {Op: verbs.OpFlush},
		"bind_mw": {Op: verbs.OpBindMW}, "local_inv": {Op: verbs.OpLocalInv}, "any": {Op: verbs.OpWrite},
	} {
		if t.without(wr.Op) || t.lacking(Windows) && (wr.Op == verbs.OpBindMW || wr.Op == verbs.OpLocalInv) {
			continue
		}
		a, b := t.pairOf(da, db, setup{})
		b.recv(1, 0, 64)
		wr.ID, wr.SGL, wr.Remote = 7, a.sgl(0, 8), b.at(0)
		switch wr.Op {
		case verbs.OpFlush:
			wr.SGL, wr.FlushLen, wr.FlushLevel = nil, 8, verbs.FlushToGlobal
		case verbs.OpBindMW, verbs.OpLocalInv:
			mw := value(a.pd.AllocMW(verbs.MWType2))(t)
			wr = verbs.SendWR{ID: 7, Op: wr.Op}
			if wr.Op == verbs.OpLocalInv {
				wr.InvKey = a.bind2(mw, windowAccess)
			} else {
				wr.Bind = &verbs.MWBindInfo{MW: mw, MR: a.mr, RKey: mw.NextRKey(), Addr: a.mr.Addr(), Length: 100,
					Access: windowAccess}
			}
		}
		t.inject(a.dev, "complete "+name+" REM_OP_ERR nth 1")
		a.post(wr)
		if wc := a.sent(verbs.StatusRemoteOperationError); wc.ID != 7 {
			t.Errorf("%s: work request %d", name, wc.ID)
		}
		a.state(verbs.StateError)
		t.strikes(a.dev)
	}
	a, b := t.pair(setup{})
	t.inject(b.dev, "complete recv LOC_PROT_ERR nth 2")
	for i, want := range []verbs.Status{verbs.StatusSuccess, verbs.StatusLocalProtectionError} {
		b.recv(uint64(i), 0, 64)
		a.post(verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)})
		if wc := b.received(want); wc.ID != uint64(i) {
			t.Errorf("receive %d, want %d", wc.ID, i)
		}
	}
	b.state(verbs.StateError)
	t.strikes(b.dev)
}

// testInjectedLateness: completions come later, in their order.
func testInjectedLateness(t *T) {
	a, b := t.pair(setup{})
	t.inject(a.dev, "late 3ms nth 1")
	for i := range 5 {
		a.post(verbs.SendWR{ID: uint64(i), Op: verbs.OpWrite, SGL: a.sgl(0, 8), Remote: b.at(0)})
	}
	for i := range 5 {
		if wc := a.sent(verbs.StatusSuccess); wc.ID != uint64(i) {
			t.Errorf("work request %d, want %d", wc.ID, i)
		}
	}
	t.strikes(a.dev)
}

// testInjectedEvents: each event comes with its object, and its meaning is true.
func testInjectedEvents(t *T) {
	dev, _ := t.devices()
	e := t.newEnd(dev, setup{})
	srq, err := e.pd.CreateSRQ(verbs.SRQInit{MaxWR: 8, MaxSGE: 1})
	t.ok(err)
	e.addQP(verbs.QPInit{})
	for name, want := range map[string]verbs.EventType{
		"CQ_ERR": verbs.EventCQError, "COMM_EST": verbs.EventCommEstablished, "SQ_DRAINED": verbs.EventSQDrained,
		"PATH_MIG": verbs.EventPathMigrated, "PATH_MIG_ERR": verbs.EventPathMigrateError,
		"PORT_ACTIVE": verbs.EventPortActive, "PORT_ERR": verbs.EventPortError, "LID_CHANGE": verbs.EventLIDChange,
		"PKEY_CHANGE": verbs.EventPKeyChange, "SM_CHANGE": verbs.EventSMChange, "SRQ_ERR": verbs.EventSRQError,
		"SRQ_LIMIT_REACHED": verbs.EventSRQLimitReached, "QP_LAST_WQE_REACHED": verbs.EventQPLastWQEReached,
		"CLIENT_REREGISTER": verbs.EventClientReregister, "GID_CHANGE": verbs.EventGIDChange,
	} {
		t.inject(dev, "event "+name)
		ev := e.event(want)
		switch faults.Owner(want) {
		case faults.OfQP:
			if ev.QP != e.qp {
				t.Errorf("%s is not of the queue pair", name)
			}
		case faults.OfCQ:
			if ev.CQ != e.scq && ev.CQ != e.rcq {
				t.Errorf("%s is of no completion queue", name)
			}
			e.event(want) // of the other end
		case faults.OfSRQ:
			if ev.SRQ != srq {
				t.Errorf("%s is not of the shared receive queue", name)
			}
		default:
			if ev.Port != 1 {
				t.Errorf("%s is of port %d", name, ev.Port)
			}
		}
		t.strikes(dev)
	}
	for name, want := range map[string]verbs.EventType{
		"QP_FATAL": verbs.EventQPFatal, "QP_REQ_ERR": verbs.EventQPRequestError,
		"QP_ACCESS_ERR": verbs.EventQPAccessError,
	} {
		a, _ := t.pair(setup{})
		t.inject(a.dev, fmt.Sprintf("event %s qp %d", name, a.qp.Num()))
		if ev := a.event(want, verbs.EventCommEstablished); ev.QP != a.qp {
			t.Errorf("%s is not of the queue pair", name)
		}
		a.state(verbs.StateError)
	}
}

// testInjectedIntoNothing: an event that finds no object has not struck, and says why.
func testInjectedIntoNothing(t *T) {
	dev, _ := t.devices()
	for _, text := range []string{"event QP_FATAL", "event SRQ_LIMIT_REACHED", "event CQ_ERR", "disconnect"} {
		t.inject(dev, text)
		t.eventually(func() bool {
			r := struck(dev)[0]
			return r.Struck == 0 && strings.Contains(r.String(), "never struck: there was no")
		}, text+" says that it has found nothing")
	}
}

// testInjectedFatal: a device that has failed sends and receives nothing, and its calls fail.
func testInjectedFatal(t *T) {
	a, b := t.pair(setup{})
	t.exchange(a, b, 1)
	b.recv(1, 0, 64)
	// hasty gives up soon. No packet of its connection is sent while the device works, so no delay of the machine ends
	// it.
	s := setup{connect: verbs.ConnectOptions{Timeout: 12, RetryCount: 2}}
	gone, hasty := t.newEnd(a.dev, s), t.newEnd(b.dev, s)
	gone.addQP(s.qp)
	hasty.addQP(s.qp)
	t.join(gone, hasty, s.connect)
	if t.medium() == memoryMedium { // where the first message sets up the link, and none has a timeout after that
		t.exchange(gone, hasty, 1)
	}
	t.inject(a.dev, "event DEVICE_FATAL")
	if ev := a.event(verbs.EventDeviceFatal); ev.QP != nil || ev.CQ != nil {
		t.Errorf("%+v", ev)
	}
	for name, call := range map[string]func() error{
		"alloc_pd":  func() error { _, err := a.dev.AllocPD(); return err },
		"create_cq": func() error { _, err := a.dev.CreateCQ(8, nil); return err },
		"reg_mr":    func() error { _, err := a.pd.RegMR(make([]byte, 8), 0); return err },
		"post_send": func() error { return a.qp.PostSend(&verbs.SendWR{Op: verbs.OpSend, SGL: a.sgl(0, 8)}) },
		"post_recv": func() error { return a.qp.PostRecv(&verbs.RecvWR{SGL: a.sgl(0, 8)}) },
	} {
		if err := call(); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s: %v, want EIO", name, err)
		}
	}
	switch {
	case a.dev == b.dev: // which sends nothing any more
	case t.medium() == streamMedium: // they have ended
		b.state(verbs.StateError)
		b.received(verbs.StatusWRFlushError)
	default:
		t.none(b.rcq)
		b.state(verbs.StateRTS)
		hasty.post(verbs.SendWR{Op: verbs.OpSend, SGL: hasty.sgl(0, 8)})
		hasty.sent(verbs.StatusRetryExceeded)
	}
	t.ok(a.qp.Close())
	t.ok(a.mr.Close())
	t.ok(a.scq.Close())
	t.ok(a.rcq.Close())
	t.ok(a.pd.Close())
}

// testInjectedConnections: requests fail as they are to, and connections end.
func testInjectedConnections(t *T) {
	a, b := t.devices()
	l, err := cm.Listen(t.within(), a, ":0")
	t.ok(err)
	ctx, cancel := context.WithCancel(t.within())
	accepted := make(chan *cm.Conn, 8)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept(ctx)
			if err != nil {
				return
			}
			accepted <- c
		}
	}()
	defer func() { cancel(); l.Close(); <-done }()
	dial := func() (*cm.Conn, error) { return cm.Dial(ctx, b, l.Addr().String()) }
	t.inject(b, "fail resolve_addr ETIMEDOUT nth 1; fail resolve_route ENODEV nth 1; reject 8 sent nth 1")
	var rejected *cm.RejectError
	if _, err := dial(); !errors.Is(err, syscall.ETIMEDOUT) {
		t.Errorf("the address: %v", err)
	}
	if _, err := dial(); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("the route: %v", err)
	}
	if _, err := dial(); !errors.As(err, &rejected) || rejected.Reason != 8 {
		t.Errorf("the request: %v", err)
	}
	t.strikes(b)
	t.inject(a, "reject 30 received nth 1")
	if _, err := dial(); !errors.As(err, &rejected) || t.medium() == packetMedium && rejected.Reason != 30 {
		t.Errorf("the request of a peer: %v", err)
	}
	t.strikes(a)
	t.inject(b, "disconnect nth 2")
	client, err := dial()
	t.ok(err)
	server := <-accepted
	for range 2 {
		_ = client.Send(ctx, []byte("hello")) // the second one ends it
	}
	for _, c := range []*cm.Conn{client, server} {
		select {
		case <-c.Done():
		case <-ctx.Done():
			t.Fatal("the connection has not ended")
		}
		c.Close()
	}
	t.strikes(b)
}
