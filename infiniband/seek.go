// SPDX-License-Identifier: Apache-2.0

package infiniband

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"time"
)

const (
	// seekInterval is the time between look-ups of a host that does not answer.
	seekInterval = time.Second
	// seekTime is how long a look-up may take.
	seekTime = 5 * time.Second
)

// named reports whether the host of an address is a name, which may come to stand for another address.
func named(address string) bool {
	host, _, _ := net.SplitHostPort(address)
	_, err := netip.ParseAddr(host)
	return err != nil
}

// lookUp returns the addresses that HOST:PORT stands for now.
func lookUp(ctx context.Context, address string) ([]netip.AddrPort, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return nil, err
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return nil, err
	}
	all := make([]netip.AddrPort, len(ips))
	for i, ip := range ips {
		all[i] = netip.AddrPortFrom(ip.Unmap(), uint16(port))
	}
	return all, nil
}

// seek looks up the name of the other end's host while that does not answer, until the cable ends. A host that starts
// again may have another address. It tries several addresses one after the other.
func (c *Cable) seek(address string) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		<-c.done
		cancel()
	}()
	tick := time.NewTicker(seekInterval)
	defer tick.Stop()
	for n := 0; ctx.Err() == nil; {
		if c.apart() {
			once, done := context.WithTimeout(ctx, seekTime)
			all, err := lookUp(once, address)
			done()
			if err == nil && len(all) > 0 {
				c.address(all[n%len(all)])
				n++
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
		}
	}
}

// apart reports whether the other end has not been joined.
func (c *Cable) apart() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.peerToken == 0
}

// address changes where the other end is looked for.
func (c *Cable) address(to netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.peerToken == 0 && c.peer != to {
		c.peer, c.challenge = to, [challengeLen]byte{}
	}
}
