// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/base/steer"
	"github.com/ramjet-rdma/ramjet/internal/core/fabric"
	"github.com/ramjet-rdma/ramjet/internal/engine/link"
	"github.com/ramjet-rdma/ramjet/internal/engine/node"
	"github.com/ramjet-rdma/ramjet/internal/engine/topology"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// JoinOptions are optional parameters of OpenJoined; nil stands for the zero value.
type JoinOptions struct {
	Options
	// Name is the adapter's name on the fabric, where names are unique; empty: the host's. If another program of the
	// host has an adapter of that name, it is NAME/2, and so on.
	Name string
	// NoWait opens the device although the fabric is not there: its port is down until then.
	NoWait bool
}

const (
	// joinedWait is how long opening waits until the fabric has answered and the link is up.
	joinedWait = 30 * time.Second
	// managedWait is how long it waits then until a subnet manager has made the port active, if there is one.
	managedWait = 5 * time.Second
	// refusedWait is how long it asks again after a refusal: a process whose adapter has the name may have ended just
	// now.
	refusedWait = 2 * peerTimeout
	// maxJoinedName limits the names of adapters in bytes. A NodeDescription has 64, and there may be /16 behind the
	// name.
	maxJoinedName = 60
	joinedLook    = 2 * time.Millisecond // between looks at the port
)

// joinedAdapter is an adapter of its own, in this process, with a cable to a fabric elsewhere.
type joinedAdapter struct {
	*fabric.Attachment
	ip     netip.Addr // the host's; peers find by it the adapter that has claimed it
	fabric *Fabric    // of this adapter alone
	cable  *Cable
	claims []io.Closer
	waiter *cableWaiter
}

// OpenJoined opens the device of an adapter of its own, with a cable to a fabric that listens at HOST:PORT: see
// [Fabric.Listen]. The fabric gives it a port of a switch. It waits until the fabric is there, for up to 30 s, and for
// a subnet manager to make the port active. If the fabric vanishes later the port goes down. When it is back the host's
// name is looked up anew, and the port comes up again. The device has the IP address by which this host reaches the
// fabric. Of several programs of a host, peers find the first by that address.
func OpenJoined(ctx context.Context, address string, o *JoinOptions) (*verbs.Device, error) {
	if o == nil {
		o = &JoinOptions{}
	}
	if _, port, err := net.SplitHostPort(address); err != nil || port == "" {
		return nil, fmt.Errorf("infiniband: %q is not where a fabric listens: give HOST:PORT, such as fabric:7470",
			address)
	}
	wait, cancel := context.WithTimeout(ctx, joinedWait)
	defer cancel()
	var peer netip.AddrPort
	if !o.NoWait || !named(address) {
		var err error
		if peer, err = await(wait, address); err != nil {
			return nil, cmp.Or(ctx.Err(), err)
		}
	}
	waiter := &cableWaiter{}
	p := newPort(waiter, &o.Options)
	a, err := newJoined(address, peer, o.Name, cableDriver{p, waiter})
	if err != nil {
		return nil, err
	}
	a.waiter = waiter
	if !o.NoWait {
		if err := a.awaitLink(wait, address); err != nil {
			a.Close()
			return nil, cmp.Or(ctx.Err(), err)
		}
		a.awaitActive(ctx)
	}
	waiter.serve(a.cable.socket)
	return p.open("infiniband:"+a.Name()+"?join="+address, a), nil
}

// await looks the address of a fabric up until it is known, or ctx ends.
func await(ctx context.Context, address string) (netip.AddrPort, error) {
	for {
		all, err := lookUp(ctx, address)
		if err == nil && len(all) > 0 {
			return all[0], nil
		}
		var dns *net.DNSError
		if err != nil && !errors.As(err, &dns) {
			return netip.AddrPort{}, fmt.Errorf("infiniband: %q is not where a fabric listens: %w", address, err)
		}
		select {
		case <-time.After(seekInterval):
		case <-ctx.Done():
			return netip.AddrPort{}, fmt.Errorf("infiniband: the fabric's host has no address: %w", err)
		}
	}
}

// newJoined makes an adapter, and joins the fabric at an address, which is peer now, or not known.
func newJoined(address string, peer netip.AddrPort, name string, d fabric.Driver) (a *joinedAdapter, err error) {
	a = &joinedAdapter{}
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	if name, err = a.claimName(name); err != nil {
		return nil, err
	}
	ip, mtu := here(peer)
	a.ip = ip
	if !a.claimAddr(ip) {
		ip = netip.Addr{}
	}
	guid := guidOf(name)
	t := &topology.Topology{Nodes: []topology.Node{{Type: node.CA, Name: name, GUID: guid, SystemGUID: guid,
		VendorID: uint32(guid >> 40),
		Ports:    []topology.Port{{}, {GUID: guid + 1}}}}}
	if a.fabric, err = run(t, &fabric.Options{NoManager: true, Addr: &ip, MTU: uint8(mtuFor(mtu))}); err != nil {
		return nil, err
	}
	if a.Attachment, err = a.fabric.running.Attach(name, d); err != nil {
		return nil, fmt.Errorf("infiniband: %w", err)
	}
	a.cable, err = a.fabric.join(address, peer, End{Node: name, Port: 1}, End{}, true)
	return a, err
}

// hostName returns the name of an adapter, which is the host's if none is given.
func hostName(name string) (string, error) {
	if len(name) > maxJoinedName {
		return "", fmt.Errorf("infiniband: the adapter's name %q has %d bytes: give at most %d", name, len(name),
			maxJoinedName)
	}
	if name != "" {
		return name, nil
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("infiniband: the adapter needs a name: %w", err)
	}
	return name[:min(len(name), maxJoinedName)], nil
}

// JoinedGUID returns the node GUID of the adapter that [OpenJoined] makes, or that this process has made. It follows
// from the name.
func JoinedGUID(name string) (uint64, error) {
	name, err := hostName(name)
	if err != nil {
		return 0, err
	}
	for n := 1; n <= steer.Slots; n++ {
		if _, own := ownNames.Load(numbered(name, n)); own || !claimed(numbered(name, n)) {
			return guidOf(numbered(name, n)), nil
		}
	}
	return guidOf(name), nil
}

// JoinedAddr returns the IP address by which this host reaches a fabric at HOST:PORT. It returns false if the name of
// the fabric's host has no address.
func JoinedAddr(address string) (netip.Addr, bool) {
	ctx, cancel := context.WithTimeout(context.Background(), seekTime)
	defer cancel()
	all, err := lookUp(ctx, address)
	if err != nil || len(all) == 0 {
		return netip.Addr{}, false
	}
	ip, _ := here(all[0])
	return ip, ip.IsValid()
}

// ownNames has the names of this process's adapters.
var ownNames sync.Map

// claimName takes the first name that no other program of the host has.
func (a *joinedAdapter) claimName(name string) (string, error) {
	name, err := hostName(name)
	if err != nil {
		return "", err
	}
	for n := 1; n <= steer.Slots; n++ {
		c, err := claim(numbered(name, n))
		if err == nil {
			a.claims = append(a.claims, c)
			ownNames.Store(numbered(name, n), nil)
			return numbered(name, n), nil
		}
	}
	return "", fmt.Errorf("infiniband: %d programs of this host have adapters called %s, %[2]s/2, …: end one, or give this one another name", steer.Slots, name)
}

// claimAddr takes an IP address, unless another program of the host has it.
func (a *joinedAdapter) claimAddr(ip netip.Addr) bool {
	c, err := claim(ip.String())
	if err == nil {
		a.claims = append(a.claims, c)
	}
	return err == nil
}

// Addr returns the IP address of the host. It is that of an adapter which does not own it, too: connections come from
// it.
func (a *joinedAdapter) Addr() netip.Addr { return a.ip }

// here returns the IP address by which this host reaches a peer, and the MTU of its interface in bytes. Without one the
// address is invalid, and the MTU the least.
func here(peer netip.AddrPort) (ip netip.Addr, mtu int) {
	c, err := net.DialUDP("udp", nil, net.UDPAddrFromAddrPort(peer)) // sends nothing
	if !peer.IsValid() || err != nil {
		return netip.Addr{}, 0
	}
	defer c.Close()
	ip = c.LocalAddr().(*net.UDPAddr).AddrPort().Addr().Unmap()
	all, _ := net.Interfaces()
	for _, i := range all {
		addrs, _ := i.Addrs()
		for _, a := range addrs {
			if n, ok := a.(*net.IPNet); ok && n.IP.Equal(ip.AsSlice()) {
				return ip.WithZone(""), i.MTU
			}
		}
	}
	return ip.WithZone(""), 0
}

// mtuFor returns the largest MTU whose frames fit into IP packets of so many bytes, so that none is fragmented:
// fragments are lost together, and some networks drop them.
func mtuFor(bytes int) verbs.MTU {
	const overhead = 40 + 8 + frameHeader + link.MaxFrame - 4096
	m := verbs.MTU4096
	for m > verbs.MTU256 && m.Bytes()+overhead > bytes {
		m--
	}
	return m
}

// awaitLink waits until the link to the fabric is up.
func (a *joinedAdapter) awaitLink(ctx context.Context, address string) error {
	tick := time.NewTicker(joinedLook)
	defer tick.Stop()
	var refused time.Time
	for a.Info(1).State == node.Down {
		why := a.cable.refusal()
		if why == nil {
			refused = time.Time{}
		} else if refused.IsZero() {
			refused = time.Now()
		} else if time.Since(refused) > refusedWait {
			return why
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return cmp.Or(why, fmt.Errorf("infiniband: nobody answers at %s within %v: does ramjet fabric --listen run there?", address, joinedWait))
		}
	}
	return nil
}

// awaitActive waits until a manager has made the port active, for up to managedWait. A program may be the manager
// itself.
func (a *joinedAdapter) awaitActive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, managedWait)
	defer cancel()
	tick := time.NewTicker(joinedLook)
	defer tick.Stop()
	for a.Info(1).State != node.Active && ctx.Err() == nil {
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// Ready reports whether a packet waits for Receive, also in the cable's socket.
func (a *joinedAdapter) Ready() bool {
	a.waiter.receive()
	return a.Attachment.Ready()
}

// Close pulls the cable, once all packets have left or drainTime is over.
func (a *joinedAdapter) Close() {
	for began := time.Now(); !a.cable.remote.Idle() && time.Since(began) < drainTime; {
		a.waiter.receive() // credits
		time.Sleep(100 * time.Microsecond)
	}
	a.Attachment.Close()
	a.release()
}

func (a *joinedAdapter) release() {
	if a.cable != nil {
		a.cable.Close()
	}
	if a.fabric != nil {
		a.fabric.Close()
	}
	if a.Attachment != nil {
		ownNames.Delete(a.Name())
	}
	for _, c := range a.claims {
		c.Close()
	}
}
