// SPDX-License-Identifier: Apache-2.0

package nvme

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/cm"
	"github.com/ramjet-rdma/ramjet/nvme/wire"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Defaults and limits of TargetOptions.
const (
	DefaultQueueDepth  = 128
	DefaultQueues      = 16
	DefaultControllers = 64
	DefaultConnections = 256
	DefaultQueueMemory = 4 << 20
	DefaultInCapsule   = 8 << 10
	MaxData            = 1 << 20 // the most data of a command, in bytes

	minDepth = 32   // that of the admin queue, which hosts do not negotiate
	maxDepth = 1024 // of any queue

	maxReferrals = 256 // of a target, each with a KiB in the discovery log
)

// TargetOptions bound the memory that hosts can make a target hold: Connections × (QueueDepth × (64 + InCapsule) +
// QueueMemory) bytes, and the buffers of the device. Zero values stand for the defaults.
type TargetOptions struct {
	QueueDepth  int // commands in flight on a queue, from 32 to 1024
	Queues      int // I/O queues of a controller
	Controllers int // at once
	Connections int // at once; each is a queue
	QueueMemory int // bytes of data of a queue's commands in flight, at least 2 × MaxData; further commands wait
	InCapsule   int // bytes of data in a write's capsule, from 16 to 64 KiB, a multiple of 16; negative: none

	// Log gets connections, and errors of disks. By default nothing is logged.
	Log *slog.Logger
}

func (o TargetOptions) withDefaults() TargetOptions {
	o.QueueDepth = min(max(cmp.Or(o.QueueDepth, DefaultQueueDepth), minDepth), maxDepth)
	o.Queues = min(max(cmp.Or(o.Queues, DefaultQueues), 1), 1<<10)
	o.Controllers = min(max(cmp.Or(o.Controllers, DefaultControllers), 1), 1<<14)
	o.Connections = max(cmp.Or(o.Connections, DefaultConnections), 1)
	o.QueueMemory = max(cmp.Or(o.QueueMemory, DefaultQueueMemory), 2*MaxData) &^ (arenaPage - 1)
	o.InCapsule = min(max(cmp.Or(o.InCapsule, DefaultInCapsule), 0), 64<<10) &^ 15
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Target serves subsystems to hosts. All its methods may be called from several goroutines.
type Target struct {
	opt     TargetOptions
	log     *slog.Logger
	running sync.WaitGroup

	mu          sync.Mutex
	subsystems  map[string]*Subsystem
	controllers map[uint16]*controller
	draining    map[*controller]chan struct{} // that have ended, until disks have done with their commands
	lastID      uint16
	ports       []*Port // by their number, from 1 on; nil where one is closed
	connections int
	referrals   []netip.AddrPort
	generation  uint64 // of the discovery log

	accessChanges uint64 // of the log of asymmetric namespace access
	closed        bool
}

// NewTarget returns a target without subsystems and ports.
func NewTarget(o TargetOptions) *Target {
	o = o.withDefaults()
	return &Target{opt: o, log: o.Log, subsystems: map[string]*Subsystem{}, controllers: map[uint16]*controller{},
		draining: map[*controller]chan struct{}{}, generation: 1}
}

// SubsystemOptions describe a subsystem.
type SubsystemOptions struct {
	NQN    string // its name, such as "nqn.2026-01.org.example:disks"
	Serial string // at most 20 characters; the default follows from the NQN
	Model  string // at most 40 characters

	// Hosts are the NQNs of the hosts that may connect. AnyHost lets in all.
	Hosts   []string
	AnyHost bool

	// Secrets are the secrets of hosts that may connect if they prove their identity by DH-HMAC-CHAP, by NQN. Other
	// hosts prove nothing: AnyHost and Secrets exclude each other.
	Secrets map[string]HostSecrets
}

// Subsystem has namespaces.
type Subsystem struct {
	t   *Target
	opt SubsystemOptions

	mu         sync.Mutex
	namespaces map[uint32]*namespace
}

// CheckNQN returns an error if an NQN is wrong (base 7.9).
func CheckNQN(nqn string) error {
	switch {
	case !strings.HasPrefix(nqn, "nqn."):
		return fmt.Errorf("nvme: %q is no NQN: write one like nqn.2026-01.org.example:disk", nqn)
	case len(nqn) > wire.MaxNQN:
		return fmt.Errorf("nvme: an NQN of %d bytes: it has at most %d", len(nqn), wire.MaxNQN)
	case strings.ContainsFunc(nqn, func(r rune) bool { return r < ' ' }):
		return fmt.Errorf("nvme: the NQN %q has control characters", nqn)
	}
	return nil
}

// AddSubsystem adds a subsystem.
func (t *Target) AddSubsystem(o SubsystemOptions) (*Subsystem, error) {
	if err := CheckNQN(o.NQN); err != nil {
		return nil, err
	}
	if o.NQN == wire.DiscoveryNQN {
		return nil, errors.New("nvme: the discovery service is there by itself: take another NQN")
	}
	for _, h := range o.Hosts {
		if err := CheckNQN(h); err != nil {
			return nil, err
		}
	}
	if o.Serial == "" {
		o.Serial = serialOf(o.NQN)
	}
	if o.Model == "" {
		o.Model = "Ramjet"
	}
	if len(o.Serial) > 20 || len(o.Model) > 40 {
		return nil, fmt.Errorf("nvme: serial number %q, model %q: at most 20 and 40 characters", o.Serial, o.Model)
	}
	if err := checkSecrets(&o); err != nil {
		return nil, err
	}
	o.Hosts, o.Secrets = slices.Clone(o.Hosts), maps.Clone(o.Secrets)
	s := &Subsystem{t: t, opt: o, namespaces: map[uint32]*namespace{}}
	t.mu.Lock()
	if t.subsystems[o.NQN] != nil {
		t.mu.Unlock()
		return nil, fmt.Errorf("nvme: there is a subsystem %s already", o.NQN)
	}
	t.subsystems[o.NQN] = s
	t.mu.Unlock()
	t.discoveryChanged()
	return s, nil
}

// AddReferral adds the address of another discovery service to the discovery log, for hosts to ask as well
// (fabrics 5.3). Hosts that are connected to the discovery service get a notice.
func (t *Target) AddReferral(at netip.AddrPort) error {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	if !at.IsValid() || at.Addr().IsUnspecified() || at.Port() == 0 {
		return fmt.Errorf("nvme: a referral to %v: name the address and port of a discovery service", at)
	}
	t.mu.Lock()
	switch {
	case slices.Contains(t.referrals, at):
		t.mu.Unlock()
		return fmt.Errorf("nvme: there is a referral to %v already", at)
	case len(t.referrals) == maxReferrals:
		t.mu.Unlock()
		return fmt.Errorf("nvme: a referral to %v: there are %d, which is the most", at, maxReferrals)
	}
	t.referrals = append(t.referrals, at)
	t.mu.Unlock()
	t.discoveryChanged()
	return nil
}

// RemoveReferral undoes AddReferral.
func (t *Target) RemoveReferral(at netip.AddrPort) error {
	at = netip.AddrPortFrom(at.Addr().Unmap(), at.Port())
	t.mu.Lock()
	i := slices.Index(t.referrals, at)
	if i < 0 {
		t.mu.Unlock()
		return fmt.Errorf("nvme: there is no referral to %v", at)
	}
	t.referrals = slices.Delete(t.referrals, i, i+1)
	t.mu.Unlock()
	t.discoveryChanged()
	return nil
}

// AddNamespace adds a namespace. Connected hosts get a notice.
func (s *Subsystem) AddNamespace(n Namespace) error {
	ns, err := newNamespace(n, s.opt.NQN)
	if err != nil {
		return err
	}
	s.mu.Lock()
	if s.namespaces[n.ID] != nil {
		s.mu.Unlock()
		return fmt.Errorf("nvme: %s has a namespace %d already", s.opt.NQN, n.ID)
	}
	s.namespaces[n.ID] = ns
	s.mu.Unlock()
	s.changed(n.ID)
	return nil
}

// RemoveNamespace removes a namespace. Commands that have begun go on with its disk. Connected hosts get a notice.
func (s *Subsystem) RemoveNamespace(id uint32) error {
	s.mu.Lock()
	if s.namespaces[id] == nil {
		s.mu.Unlock()
		return fmt.Errorf("nvme: %s has no namespace %d", s.opt.NQN, id)
	}
	delete(s.namespaces, id)
	s.mu.Unlock()
	s.changed(id)
	return nil
}

// changed tells the subsystem's hosts about a namespace.
func (s *Subsystem) changed(id uint32) {
	s.t.mu.Lock()
	s.t.accessChanges++
	s.t.mu.Unlock()
	for _, c := range s.t.controllersOf(func(c *controller) bool { return c.sub == s }) {
		c.namespaceChanged(id)
	}
}

// namespace returns a namespace; nil: there is none.
func (s *Subsystem) namespace(id uint32) *namespace {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.namespaces[id]
}

// after returns the numbers of namespaces above id, in order.
func (s *Subsystem) after(id uint32) (ids []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.namespaces {
		if n > id {
			ids = append(ids, n)
		}
	}
	slices.Sort(ids)
	return ids
}

// allows reports whether a host may connect.
func (s *Subsystem) allows(hostNQN string) bool {
	_, ok := s.opt.Secrets[hostNQN]
	return ok || s.opt.AnyHost || slices.Contains(s.opt.Hosts, hostNQN)
}

// controllersOf returns controllers, ordered by number so that the effects are the same in every run.
func (t *Target) controllersOf(want func(*controller) bool) (list []*controller) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(t.controllers)) {
		if c := t.controllers[id]; want(c) {
			list = append(list, c)
		}
	}
	return list
}

// discoveryChanged tells discovery controllers that the log has changed.
func (t *Target) discoveryChanged() {
	t.mu.Lock()
	t.generation++
	t.mu.Unlock()
	for _, c := range t.controllersOf(func(c *controller) bool { return c.sub == nil }) {
		c.notify(&c.discovery)
	}
}

// Port is an address at which a target listens.
type Port struct {
	t        *Target
	number   int
	inner    *cm.Listener
	dev      *verbs.Device
	provider uint8                        // for the discovery log
	access   [MaxGroups + 1]wire.ANAState // by group; the target's mu guards it

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{} // closed when all connections have ended

	mu     sync.Mutex
	queues []*queue // in the order in which they came, and in which they end with the port
}

// Listen opens a port at "host:port" of a device. NVMe's own port is 4420, that of discovery services 8009: a Ramjet
// target has its discovery service at every port.
func (t *Target) Listen(ctx context.Context, dev *verbs.Device, address string) (*Port, error) {
	l, err := cm.Listen(ctx, dev, address)
	if err != nil {
		return nil, fmt.Errorf("nvme: listening at %s: %w", address, err)
	}
	p := &Port{t: t, inner: l, dev: dev, provider: providerOf(dev), done: make(chan struct{})}
	for group := range p.access {
		p.access[group] = wire.ANAOptimized
	}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	t.mu.Lock()
	if t.closed {
		t.mu.Unlock()
		p.cancel()
		l.Close()
		return nil, errors.New("nvme: the target is closed")
	}
	t.ports = append(t.ports, p)
	p.number = len(t.ports)
	t.running.Add(1)
	t.mu.Unlock()
	go p.serve()
	t.discoveryChanged()
	return p, nil
}

// providerOf returns the discovery log's name of a device's transport.
func providerOf(dev *verbs.Device) uint8 {
	gids, _ := dev.GIDs(1)
	for _, g := range gids {
		switch g.Type {
		case verbs.GIDInfiniBand:
			return wire.ProviderIB
		case verbs.GIDRoCEv1:
			return wire.ProviderRoCE
		case verbs.GIDRoCEv2:
			return wire.ProviderRoCE2
		case verbs.GIDiWARP:
			return wire.ProviderIWARP
		}
	}
	return wire.ProviderNone
}

// Addr returns the address at which hosts connect.
func (p *Port) Addr() netip.AddrPort { return p.inner.Addr() }

// Close closes the port and its connections. It waits for commands that disks still work on.
func (p *Port) Close() error {
	p.cancel()
	<-p.done
	return nil
}

// Close closes all ports.
func (t *Target) Close() error {
	t.mu.Lock()
	t.closed = true
	ports := slices.Clone(t.ports)
	t.mu.Unlock()
	for _, p := range ports {
		if p != nil {
			p.cancel()
		}
	}
	t.running.Wait()
	return nil
}

// serve takes connection requests, each in a goroutine of its own.
func (p *Port) serve() {
	defer p.t.running.Done()
	defer close(p.done)
	var conns sync.WaitGroup
	for {
		req, err := p.inner.Next(p.ctx)
		if err != nil {
			if p.ctx.Err() == nil {
				p.t.log.Error("the port has failed", "address", p.Addr(), "error", err)
			}
			break
		}
		conns.Go(func() { p.take(req) })
	}
	p.cancel()
	p.mu.Lock()
	queues := slices.Clone(p.queues)
	p.mu.Unlock()
	for _, q := range queues {
		q.fail(errPortClosed)
	}
	p.inner.Close()
	conns.Wait()
	p.t.mu.Lock()
	p.t.ports[p.number-1] = nil
	p.t.mu.Unlock()
	p.t.discoveryChanged()
}

// acceptTimeout bounds how long a host may take to confirm a connection, and then to send its Connect command.
const acceptTimeout = 30 * time.Second

// admit counts a connection; false: there are too many.
func (t *Target) admit() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.connections == t.opt.Connections {
		return false
	}
	t.connections++
	return true
}

func (t *Target) release() {
	t.mu.Lock()
	t.connections--
	t.mu.Unlock()
}

// take accepts a connection and serves it to its end.
func (p *Port) take(req *cm.Request) {
	r, status := p.t.check(req.Param().PrivateData)
	if status == 0 && !p.t.admit() {
		status = wire.RejectNoResources
	}
	if status != 0 {
		p.t.log.Warn("rejected a connection", "peer", req.PeerAddr(), "reason", status)
		req.Reject((&wire.Reject{Status: status}).Append(nil))
		return
	}
	defer p.t.release()
	q := newQueue(p, r)
	defer q.free()
	p.mu.Lock()
	p.queues = append(p.queues, q)
	p.mu.Unlock()
	defer p.remove(q)
	if p.ctx.Err() != nil { // and nobody may end the queue any more
		return
	}
	ctx, cancel := context.WithTimeout(p.ctx, acceptTimeout)
	conn, err := req.Accept(ctx, cm.WithSetup(q.setUp))
	cancel()
	if err != nil {
		p.t.log.Warn("a connection did not come about", "peer", req.PeerAddr(), "error", err)
		return
	}
	q.serve(conn)
}

func (p *Port) remove(q *queue) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queues = slices.DeleteFunc(p.queues, func(o *queue) bool { return o == q })
}

// errPortClosed is the cause of the end of a queue whose port is closed.
var errPortClosed = errors.New("the port is closed")

// check checks a connection request's private data.
func (t *Target) check(b []byte) (r wire.Request, status wire.RejectStatus) {
	switch {
	case !r.Decode(b):
		return r, wire.RejectPrivateData
	case r.Format != 0:
		return r, wire.RejectFormat
	case int(r.QID) > t.opt.Queues:
		return r, wire.RejectQID
	case r.HostSends == 0 || int(r.HostSends) >= t.opt.QueueDepth:
		return r, wire.RejectHostSends
	case r.HostRecvs == 0:
		return r, wire.RejectHostRecvs
	}
	return r, 0
}
