// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/internal/testkit/testrun"
	"github.com/ramjet-rdma/ramjet/verbs"
)

var connectionTests = []test{
	{name: "Connections/Order", run: testConnectionOrder, needs: []Ability{Connections}},
	{name: "Connections/OrderOfDeviceRemoval", run: testRemovalOrder, needs: []Ability{Connections}},
}

// follows says which events of an id may come after which. It is the same for all devices and both sides.
// DeviceRemoval may come after each other event, and none after it.
var follows = map[cm.EventType][]cm.EventType{
	cm.AddrResolved:   {cm.RouteResolved, cm.RouteError},
	cm.RouteResolved:  {cm.Established, cm.Rejected, cm.Unreachable, cm.ConnectError},
	cm.ConnectRequest: {cm.Established, cm.Rejected, cm.Unreachable, cm.ConnectError},
	cm.Established:    {cm.Disconnected},
	cm.Disconnected:   {cm.TimewaitExit},
}

// ends are the events after which an id has no connection, outcomes the events that report the outcome of
// a request.
var (
	ends     = []cm.EventType{cm.Disconnected, cm.Rejected, cm.Unreachable, cm.ConnectError, cm.DeviceRemoval}
	outcomes = append([]cm.EventType{cm.Established}, ends...)
)

// history has the events of each id of a channel, so far.
type history struct {
	t    *T
	mu   sync.Mutex
	of   map[*cm.ID][]cm.EventType
	more chan struct{} // closed and replaced with each event

	enough chan struct{} // closed when nobody waits for events any more
}

// add checks that an event may come now.
func (h *history) add(e *cm.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := h.of[e.ID]
	allowed := []cm.EventType{cm.AddrResolved, cm.AddrError, cm.ConnectRequest}
	if len(all) > 0 {
		allowed = follows[all[len(all)-1]]
	}
	if !slices.Contains(allowed, e.Type) && (e.Type != cm.DeviceRemoval || slices.Contains(all, cm.DeviceRemoval)) {
		h.t.Errorf("event %v after %v", e.Type, all)
	}
	h.of[e.ID] = append(all, e.Type)
	close(h.more)
	h.more = make(chan struct{})
}

// await waits until an id has had one of the events.
func (h *history) await(ctx context.Context, id *cm.ID, want ...cm.EventType) bool {
	for {
		h.mu.Lock()
		all, more := slices.Clone(h.of[id]), h.more
		h.mu.Unlock()
		if slices.ContainsFunc(all, func(t cm.EventType) bool { return slices.Contains(want, t) }) {
			return true
		}
		select {
		case <-more:
		case <-h.enough:
			return false
		case <-ctx.Done():
			h.t.Errorf("after %v: none of %v", all, want)
			return false
		}
	}
}

func (h *history) has(id *cm.ID, t cm.EventType) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Contains(h.of[id], t)
}

// caller is a side of connections that come and go.
type caller struct {
	dev *verbs.Device
	ch  *cm.EventChannel
	pd  *verbs.PD
	cq  *verbs.CQ
	mr  *verbs.MR
	history
}

// newCaller starts to follow the events of a device's ids. The function that it returns ends that.
func (t *T) newCaller(dev *verbs.Device, enough chan struct{}, requested func(*cm.ID)) (c *caller, stop func()) {
	c = &caller{dev: dev, ch: cm.NewEventChannel(), pd: value(dev.AllocPD())(t), cq: value(dev.CreateCQ(1024, nil))(t)}
	c.mr = value(c.pd.RegMR(make([]byte, 64), verbs.LocalWrite))(t)
	c.history = history{t: t, of: map[*cm.ID][]cm.EventType{}, more: make(chan struct{}), enough: enough}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			e, err := c.ch.Get(context.Background())
			if err != nil {
				return
			}
			c.add(e)
			if e.Type == cm.ConnectRequest {
				requested(e.ID)
			}
		}
	}()
	return c, func() { c.ch.Close(); <-done }
}

func (c *caller) addQP(id *cm.ID) error {
	_, err := id.CreateQP(c.pd, verbs.QPInit{SendCQ: c.cq, RecvCQ: c.cq,
		Cap: verbs.QPCap{MaxSendWR: 4, MaxRecvWR: 4, MaxSendSGE: 1, MaxRecvSGE: 1}})
	return err
}

// act does something with a connection that may end it. It fails if the other side was first.
func (c *caller) act(rng *rand.Rand, id *cm.ID) {
	switch rng.IntN(5) {
	case 0:
		id.Disconnect()
	case 1: // the other side refuses the request
		id.QP().PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{c.mr.SGE(0, 8)},
			Remote: verbs.Remote{Addr: 1, Key: 1}})
	case 2: // this side does
		id.QP().PostSend(&verbs.SendWR{Op: verbs.OpWrite, SGL: []verbs.SGE{{Addr: 1, Length: 8, LKey: 1}}})
	case 3:
		id.QP().Modify(verbs.QPAttr{State: verbs.StateError}, verbs.MaskState)
	case 4:
		for range rng.IntN(100) {
			runtime.Gosched()
		}
	}
}

// answer rejects a request, passes it over, or accepts it and stays until the connection has ended.
func (c *caller) answer(ctx context.Context, rng *rand.Rand, id *cm.ID) {
	defer id.Close()
	switch rng.IntN(20) {
	case 0:
		return
	case 1:
		id.Reject(nil)
		return
	}
	if c.addQP(id) != nil || id.Accept(nil) != nil {
		return // the peer has gone, or the device
	}
	when := rng.IntN(3)
	if when == 0 {
		c.act(rng, id)
	}
	if !c.await(ctx, id, outcomes...) {
		return
	}
	if when == 1 {
		c.act(rng, id)
	}
	if !c.await(ctx, id, ends...) {
		return
	}
	if when == 2 {
		id.Disconnect()
	}
	if c.has(id, cm.Disconnected) && rng.IntN(4) == 0 {
		c.await(ctx, id, cm.TimewaitExit, cm.DeviceRemoval)
	}
}

// ask makes a connection and ends it, unless the other side does.
func (c *caller) ask(ctx context.Context, rng *rand.Rand, to netip.AddrPort) {
	id, err := cm.NewID(c.ch, c.dev, cm.TCP)
	if err != nil {
		return // the device is gone
	}
	defer id.Close()
	if id.ResolveAddr(netip.AddrPort{}, to, patience) != nil ||
		!c.await(ctx, id, cm.AddrResolved, cm.AddrError, cm.DeviceRemoval) ||
		id.ResolveRoute(patience) != nil || !c.await(ctx, id, cm.RouteResolved, cm.RouteError, cm.DeviceRemoval) {
		return // the listener is gone, or its device
	}
	if c.addQP(id) != nil || id.Connect(nil) != nil {
		return
	}
	if rng.IntN(10) == 0 {
		return // withdraws its request
	}
	if !c.await(ctx, id, outcomes...) || !c.has(id, cm.Established) {
		return
	}
	if rng.IntN(3) == 0 {
		return
	}
	c.act(rng, id)
	if rng.IntN(3) == 0 {
		return
	}
	id.Disconnect()
	if c.await(ctx, id, ends...) && c.has(id, cm.Disconnected) && rng.IntN(4) == 0 {
		c.await(ctx, id, cm.TimewaitExit, cm.DeviceRemoval)
	}
}

// exchange is a listener, and callers that ask it.
type exchange struct {
	t               *T
	seed            uint64
	active, passive *caller
	listener        *cm.ID
	stops           []func()
	enough          chan struct{} // see history

	mu      sync.Mutex
	answers sync.WaitGroup
	over    bool     // the listener does not answer any more
	late    []*cm.ID // requests since then
}

// answer has a request answered, or keeps it for the end.
func (x *exchange) answer(ctx context.Context, rng *rand.Rand, id *cm.ID) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.over {
		x.late = append(x.late, id)
		return
	}
	x.answers.Go(func() { x.passive.answer(ctx, rng, id) })
}

func (t *T) newExchange(a, b *verbs.Device) *exchange {
	x := &exchange{t: t, seed: rand.Uint64(), enough: make(chan struct{})}
	t.Logf("seed %d", x.seed)
	ctx := t.within()
	var stopA, stopB func()
	x.active, stopA = t.newCaller(a, x.enough, nil)
	n := uint64(0)
	x.passive, stopB = t.newCaller(b, x.enough, func(id *cm.ID) {
		n++
		x.answer(ctx, rand.New(rand.NewPCG(x.seed, n)), id)
	})
	x.stops = []func(){stopA, stopB}
	x.listener = value(cm.NewID(x.passive.ch, b, cm.TCP))(t)
	t.ok(x.listener.Bind(netip.AddrPort{}))
	t.ok(x.listener.Listen(0))
	return x
}

// run has several goroutines ask, each for some rounds, and do something meanwhile.
func (x *exchange) run(rounds int, meanwhile func()) {
	const askers = 4
	ctx, to := x.t.within(), x.listener.LocalAddr()
	var over atomic.Bool
	var asking sync.WaitGroup
	for i := range askers {
		asking.Go(func() {
			rng := rand.New(rand.NewPCG(x.seed, 1<<32+uint64(i)))
			for n := 0; n < rounds && !over.Load(); n++ {
				x.active.ask(ctx, rng, to)
			}
		})
	}
	if meanwhile != nil {
		meanwhile()
		over.Store(true)
		if x.t.f.Within == nil && !testrun.Long() {
			// A peer that has asked for time and is gone then is given up after 17 s: long runs wait for that, and
			// runs in virtual time. Here the request is withdrawn.
			late := time.AfterFunc(closingTime, func() { close(x.enough) })
			defer late.Stop()
		}
	}
	asking.Wait()
	x.mu.Lock()
	x.over = true
	x.mu.Unlock()
	x.answers.Wait()
	x.listener.Close()
	for _, stop := range x.stops {
		stop()
	}
	for _, id := range x.late {
		id.Close()
	}
}

// testConnectionOrder has both sides of many connections do things in any order, and looks at the events of
// each id.
func testConnectionOrder(t *T) {
	rounds := 8
	if testrun.Long() {
		rounds = 500
	}
	a, b := t.devices()
	t.newExchange(a, b).run(rounds, nil)
}

// closingTime is how long the sides of an exchange in a quick run stay after the end of one.
const closingTime = 2 * time.Second

// testRemovalOrder closes the listener, or the device of either side, while connections come and go. The three cases
// run at the same time, as they wait for peers that are gone.
func testRemovalOrder(t *T) {
	var cases sync.WaitGroup
	for _, what := range []string{"the listener", "the active side's device", "the passive side's device"} {
		a, b := t.f.Open(t), t.f.Open(t)
		x := t.newExchange(a, b)
		cases.Go(func() {
			x.run(16, func() {
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				var err error
				switch what {
				case "the listener":
					err = x.listener.Close()
				case "the active side's device":
					err = a.Close()
				default:
					err = b.Close()
				}
				if err != nil {
					t.Errorf("closing %s: %v", what, err)
				}
			})
		})
	}
	cases.Wait()
}
