// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// ErrNoPath is the error of commands of a [Multipath] for a namespace that none of its paths reaches.
var ErrNoPath = errors.New("no path reaches the namespace")

// IOPolicy says by which of several equally good paths a command goes. Its values are the values of Linux's iopolicy.
type IOPolicy string

// Policies.
const (
	RoundRobin IOPolicy = "round-robin" // one after the other
	QueueDepth IOPolicy = "queue-depth" // the one with the fewest commands in flight
)

// Path is an address of a subsystem, and the host's device by which it is reached.
type Path struct {
	Device  *verbs.Device
	Address string // "host:port"
}

// PathState is the state of a path, in the words of Linux's sysfs.
type PathState string

// States of paths.
const (
	PathLive       PathState = "live"
	PathConnecting PathState = "connecting"
	PathDead       PathState = "dead" // for good: the target refuses the host, or LossTimeout is over
)

// PathStatus is how a path is.
type PathStatus struct {
	Path
	State  PathState
	Access map[uint32]wire.ANAState // by namespace; nil: the path is not live, or the controller does not say
	Err    error                    // why it is not live; nil: it is

	InFlight int // commands
}

// MultipathOptions tune [DialMultipath].
type MultipathOptions struct {
	Policy IOPolicy // default RoundRobin

	// PathChanged is called when a path is lost, comes back, is given up, or reaches namespaces in another way. It is
	// not called by several goroutines at once. Close waits for it to return.
	PathChanged func(PathStatus)
}

// Multipath is a host's controllers of one subsystem, one for each path. A command goes by a path that reaches its
// namespace, an optimized one if there is any (asymmetric namespace access, base 8.20). If the path is lost or turns
// out not to reach the namespace, another one takes the command, by the rules of a [Controller] that connects again:
// writes that may have been carried out are repeated when the target has surely given up the lost controller.
//
// All its methods may be called from several goroutines.
type Multipath struct {
	nqn     string
	opt     HostOptions
	policy  IOPolicy
	changed func(PathStatus)

	ctx     context.Context // ends with Close, and when no path is left
	cancel  context.CancelCauseFunc
	running sync.WaitGroup
	opened  openNamespaces
	born    atomic.Uint64 // associations so far
	next    atomic.Uint32 // path, by RoundRobin
	telling sync.Mutex    // held for calls of changed

	mu      sync.Mutex
	paths   []*path
	change  chan struct{} // closed when a path changes
	maxData int           // of a command in bytes; 0: no path has connected yet
}

// path is a path of a Multipath.
type path struct {
	Path
	m        *Multipath
	inFlight atomic.Int32

	// The Multipath's mu guards these.
	state  PathState
	a      *association             // nil: the path is not live
	access map[uint32]wire.ANAState // nil: the controller does not say, and reaches all namespaces
	stale  bool                     // access is: the controller has refused a command
	err    error
}

// DialMultipath connects to a subsystem by several paths. It returns when one has connected and each other one has, or
// has failed to: failed ones are tried again until HostOptions.LossTimeout. HostOptions are for each path; Changed is
// called for each path that tells of a change, and not by several goroutines at once. Without a path that reaches a
// namespace, its commands wait until FastFail or LossTimeout. The context bounds the connecting.
func DialMultipath(ctx context.Context, paths []Path, subsystem string, o HostOptions, mo MultipathOptions) (*Multipath,
	error) {
	if err := CheckNQN(subsystem); err != nil {
		return nil, err
	}
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	if mo.Policy == "" {
		mo.Policy = RoundRobin
	}
	switch {
	case len(paths) == 0:
		return nil, errors.New("nvme: no paths: name at least one")
	case subsystem == wire.DiscoveryNQN:
		return nil,
			errors.New("nvme: the discovery service has no namespaces to be reached by several paths: use Discover")
	case mo.Policy != RoundRobin && mo.Policy != QueueDepth:
		return nil, fmt.Errorf("nvme: there is no I/O policy %q: take %s or %s", mo.Policy, RoundRobin, QueueDepth)
	}
	m := &Multipath{nqn: subsystem, opt: o, policy: mo.Policy, changed: mo.PathChanged, change: make(chan struct{})}
	m.opt.paths = m
	if tell := o.Changed; tell != nil {
		m.opt.Changed = func(ids []uint32) {
			m.telling.Lock()
			defer m.telling.Unlock()
			tell(ids)
		}
	}
	m.ctx, m.cancel = context.WithCancelCause(context.Background())
	for _, p := range paths {
		m.paths = append(m.paths, &path{Path: p, m: m, state: PathConnecting})
	}
	tried := make(chan error, len(paths))
	for _, p := range m.paths {
		m.running.Go(func() { p.serve(ctx, tried) })
	}
	var all error
	for range paths {
		all = errors.Join(all, <-tried)
	}
	if m.born.Load() == 0 {
		m.Close()
		return nil, all
	}
	return m, nil
}

// serve connects a path, again until it succeeds, and sees how it is from then on. The first attempt has a context of
// its own; how it ended goes to tried.
func (p *path) serve(first context.Context, tried chan<- error) {
	m := p.m
	late := time.NewTimer(max(m.opt.LossTimeout, 0))
	defer late.Stop()
	c, err := p.connect(first, m.opt.Timeout)
	if err == nil {
		p.learn(c)
	} else {
		p.set(PathConnecting, nil, nil, err)
	}
	tried <- err
	for err != nil {
		if m.opt.LossTimeout < 0 || refused(err) {
			p.set(PathDead, nil, nil, err)
			return
		}
		m.opt.Log.Warn("connecting a path has failed", "subsystem", m.nqn, "address", p.Address, "error", err)
		select {
		case <-time.After(m.opt.ReconnectDelay):
		case <-late.C:
			p.set(PathDead, nil, nil, fmt.Errorf("no connection within %v: %w", m.opt.LossTimeout, err))
			return
		case <-m.ctx.Done():
			return
		}
		c, err = p.connect(m.ctx, m.opt.Timeout)
	}
	defer c.Close()
	p.watch(c)
}

// connect makes an attempt to connect a path for the first time.
func (p *path) connect(ctx context.Context, timeout time.Duration) (*Controller, error) {
	m := p.m
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	c, err := dial(ctx, p.Device, p.Address, m.nqn, m.opt)
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case c.identity.MultiDomain:
		err = fmt.Errorf(
			"nvme: %s: a subsystem of several domains, which may lose their caches one by one: use one path",
			p.Address)
	case m.maxData != 0 && c.maxData < m.maxData:
		err = fmt.Errorf("nvme: %s takes %d bytes of data in a command, and another path %d: lower MaxData", p.Address,
			c.maxData, m.maxData)
	}
	if err != nil {
		go c.Close()
		return nil, err
	}
	if m.maxData == 0 {
		m.maxData = c.maxData
	}
	return c, nil
}

// watch sees how a path is until it is given up.
func (p *path) watch(c *Controller) {
	for {
		change := p.learn(c)
		select {
		case <-change:
		case <-c.access:
		case <-c.Done():
			p.set(PathDead, nil, nil, context.Cause(c.ctx))
			return
		case <-p.m.ctx.Done():
			return
		}
	}
}

// learn learns how a path is. It returns the channel that is closed when the connection is lost or is back.
func (p *path) learn(c *Controller) <-chan struct{} {
	c.mu.Lock()
	a, change, why := c.current, c.change, c.why
	c.mu.Unlock()
	if a == nil {
		p.set(PathConnecting, nil, nil, why)
		return change
	}
	access, err := a.access(a.ctx)
	switch {
	case err == nil:
		p.set(PathLive, a, access, nil)
	case a.ctx.Err() == nil:
		a.fail(err) // a path of which nothing is known is of no use
	}
	return change
}

// access returns how the association reaches namespaces, by their numbers; nil: the controller does not say.
func (a *association) access(ctx context.Context) (map[uint32]wire.ANAState, error) {
	if a.identity.ANA == 0 {
		return nil, nil
	}
	groups, err := readAccess(a.c.addr, func(off uint64, b []byte) error {
		cmd := wire.Command{NSID: 0xffffffff}
		cmd.SetLogPage(wire.LogANA, off, len(b))
		_, err := a.admin.do(ctx, "get log page", &cmd, nil, b)
		return err
	})
	if err != nil {
		return nil, err
	}
	access := map[uint32]wire.ANAState{}
	for _, g := range groups {
		for _, id := range g.Namespaces {
			access[id] = g.State
		}
	}
	return access, nil
}

// set sets how a path is, and tells the program if that is new.
func (p *path) set(state PathState, a *association, access map[uint32]wire.ANAState, err error) {
	m := p.m
	m.telling.Lock()
	defer m.telling.Unlock()
	m.mu.Lock()
	same := p.state == state && p.a == a && maps.Equal(p.access, access)
	known := same || p.state == state && state != PathLive // for another reason
	p.state, p.a, p.access, p.err = state, a, access, err
	p.stale = false
	status, dead := p.status(), !slices.ContainsFunc(m.paths, func(p *path) bool { return p.state != PathDead })
	close(m.change)
	m.change = make(chan struct{})
	m.mu.Unlock()
	if dead {
		m.cancel(fmt.Errorf("%w: %w", ErrNoPath, err))
	}
	if !known && m.changed != nil && m.ctx.Err() == nil || dead && m.changed != nil {
		m.changed(status)
	}
}

// status returns how a path is. The Multipath's mu is held.
func (p *path) status() PathStatus {
	return PathStatus{Path: p.Path, State: p.state, Access: maps.Clone(p.access), Err: p.err,
		InFlight: int(p.inFlight.Load())}
}

// Paths returns how the paths are, in the order of [DialMultipath].
func (m *Multipath) Paths() (list []PathStatus) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.paths {
		list = append(list, p.status())
	}
	return list
}

// reaches returns how a path reaches a namespace: 0 is not at all, and more is better. The Multipath's mu is held.
func (p *path) reaches(id uint32) int {
	switch {
	case p.a == nil || p.a.ctx.Err() != nil || p.stale:
		return 0
	case p.access == nil || p.access[id] == wire.ANAOptimized:
		return 2
	case p.access[id] == wire.ANANonOptimized:
		return 1
	}
	return 0
}

// choose returns the path for a command, and its association; nil: there is none. mu is held.
func (m *Multipath) choose(id uint32) (*path, *association) {
	best := 1
	var list []*path
	for _, p := range m.paths {
		switch k := p.reaches(id); {
		case k > best:
			best, list = k, append(list[:0], p)
		case k == best:
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil, nil
	}
	p := list[int(m.next.Add(1))%len(list)]
	if m.policy == QueueDepth {
		for _, o := range list {
			if o.inFlight.Load() < p.inFlight.Load() {
				p = o
			}
		}
	}
	return p, p.a
}

// path waits for a path that reaches a namespace, for as long as the options allow.
func (m *Multipath) path(ctx context.Context, op string, id uint32) (*path, *association, error) {
	patience := max(m.opt.LossTimeout, 0)
	if m.opt.FastFail > 0 {
		patience = min(patience, m.opt.FastFail)
	}
	var late <-chan time.Time
	for {
		m.mu.Lock()
		p, a := m.choose(id)
		change := m.change
		m.mu.Unlock()
		switch {
		case m.ctx.Err() != nil:
			return nil, nil, fmt.Errorf("nvme: %s: %s: %w", op, m.nqn, context.Cause(m.ctx))
		case p != nil:
			return p, a, nil
		case late == nil:
			t := time.NewTimer(patience)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-change:
		case <-ctx.Done():
			return nil, nil, fmt.Errorf("nvme: %s: %w", op, ctx.Err())
		case <-m.ctx.Done():
		case <-late:
			return nil, nil, fmt.Errorf("nvme: %s: namespace %d of %s, within %v: %w", op, id, m.nqn, patience,
				ErrNoPath)
		}
	}
}

// pathRelated reports whether a controller has not carried out a command because of the path: another one may (base
// 4.6.1, status type 3).
func pathRelated(err error) bool {
	var refused *CommandError
	return errors.As(err, &refused) && refused.Status>>8 == 3
}

// retry is a retrier for a namespace.
func (m *Multipath) retry(ctx context.Context, op string, id uint32, changes bool, f func(*association) error) (uint64,
	error) {
	for retries := 0; ; retries++ {
		p, a, err := m.path(ctx, op, id)
		if err != nil {
			return 0, err
		}
		p.inFlight.Add(1)
		err = f(a)
		p.inFlight.Add(-1)
		var lost *lostError
		switch {
		case pathRelated(err) && retries < maxRetries*len(m.paths):
			p.refused(a)
			continue
		case !errors.As(err, &lost):
			return a.generation, err
		case retries >= maxRetries*len(m.paths):
			return 0, err
		case !changes || !lost.sent:
			continue
		}
		if err := m.settle(ctx, op, a, err); err != nil {
			return 0, err
		}
	}
}

// settle waits until the target has surely given up an association that was lost with a command: see
// [Controller.retry].
func (m *Multipath) settle(ctx context.Context, op string, a *association, lost error) error {
	if m.opt.KeepAlive < 0 {
		return fmt.Errorf(
			"%w; it may have been carried out, and without keep-alive nothing says when it can be repeated",
			lost)
	}
	select {
	case <-time.After(a.expiry()):
	case <-ctx.Done():
		return fmt.Errorf("nvme: %s: %w", op, ctx.Err())
	case <-m.ctx.Done():
	}
	return nil
}

// refused takes note that a controller has refused a command because of the path: it is not used before it has said
// anew how it reaches namespaces.
func (p *path) refused(a *association) {
	p.m.mu.Lock()
	p.stale = p.stale || p.a == a
	p.m.mu.Unlock()
	a.c.accessChanged()
}

// Open returns a namespace, with the size that it has now. The paths that are live have to agree that it is the same.
func (m *Multipath) Open(ctx context.Context, id uint32) (disk *Disk, err error) {
	for _, p := range m.live() {
		b, e := p.identify(ctx, "identify namespace", wire.IdentifyNamespace, id)
		if isLost(e) {
			continue
		}
		if e != nil {
			return nil, e
		}
		p.c.accessChanged() // the namespace may be new
		d, err := p.c.disk(id, b)
		switch {
		case err != nil:
			return nil, err
		case disk == nil:
			disk = d
		case disk.ns != d.ns || disk.size != d.size:
			return nil, fmt.Errorf("nvme: namespace %d at %s is another disk than on another path: %w", id, p.c.addr,
				wire.InvalidNamespace)
		}
	}
	if disk == nil {
		return nil, fmt.Errorf("nvme: namespace %d of %s: %w", id, m.nqn, ErrNoPath)
	}
	m.mu.Lock()
	disk.maxData = m.maxData
	m.mu.Unlock()
	disk.retry = func(ctx context.Context, op string, changes bool, f func(*association) error) (uint64, error) {
		return m.retry(ctx, op, id, changes, f)
	}
	return disk, nil
}

// live returns the associations of paths that are connected.
func (m *Multipath) live() (list []*association) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, p := range m.paths {
		if p.a != nil && p.a.ctx.Err() == nil {
			list = append(list, p.a)
		}
	}
	return list
}

// Done is closed when the Multipath was closed, or has lost all its paths for good; see [Multipath.Err].
func (m *Multipath) Done() <-chan struct{} { return m.ctx.Done() }

// Err returns why the Multipath has ended; nil: it has not.
func (m *Multipath) Err() error {
	if m.ctx.Err() == nil {
		return nil
	}
	return fmt.Errorf("nvme: the paths to %s have ended: %w", m.nqn, context.Cause(m.ctx))
}

// Close shuts down the controllers of all paths: see [Controller.Close].
func (m *Multipath) Close() error {
	m.cancel(os.ErrClosed)
	m.running.Wait()
	return nil
}
