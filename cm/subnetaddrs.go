// SPDX-License-Identifier: Apache-2.0

package cm

import (
	"context"
	"net/netip"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/wire/ib"
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/sa"
)

// The driver knows the IP addresses of its own fabric. Hosts behind a cable to another fabric are in the
// same subnet, and are found by service records of the administrator (IBTA 15.2.5.14): a host that
// listens registers its address there, as uDAPL's address translation service does. The service's data
// are the address, as 16 bytes.
const (
	addrService     = 0x1000_0ce1_0041_5453
	addrServiceName = "DAPL Address Translation Service"
)

// addrLease is how long the administrator keeps a record that is not renewed. renewAddr is the interval of
// renewals: a new subnet manager knows no services.
const (
	addrLease = 60 // seconds
	renewAddr = 10 * time.Second
)

// The first of the bits of a component mask for the data of a service, byte by byte.
const serviceData8 = sa.ServiceName << 1

// announcer registers the addresses of a device.
type announcer struct {
	once sync.Once
	ctx  context.Context
	end  context.CancelFunc
}

func (a *announcer) init() { a.ctx, a.end = context.WithCancel(context.Background()) }

// announce begins to tell the administrator which IP address the port has.
func (s *subnet) announce() {
	s.announcer.once.Do(func() { go s.announcing() })
}

func (s *subnet) announcing() {
	ctx := s.announcer.ctx
	for {
		for _, a := range s.neighbors.Addrs(1) {
			// An address that the driver does not know as the port's is another one's of this host.
			if g, ok := s.neighbors.Neighbor(a); ok && g == s.gid() {
				asked, done := context.WithTimeout(ctx, renewAddr)
				s.admin.register(asked, s.gid(), a) // an administrator that refuses or is silent now is asked again
				done()
			}
		}
		select {
		case <-time.After(renewAddr):
		case <-ctx.Done():
			return
		}
	}
}

// register tells which GID an IP address belongs to.
func (a *administrator) register(ctx context.Context, gid ib.GID, ip netip.Addr) error {
	r := sa.ServiceRecord{ID: addrService, GID: gid, PKey: ib.DefaultPKey, Lease: addrLease, Data: addrData(ip)}
	copy(r.Name[:], addrServiceName)
	mask := sa.ServiceID | sa.ServiceGID | sa.ServicePKey | sa.ServiceLease | sa.ServiceName | addrMask
	_, err := a.ask(ctx, mad.MethodSet, sa.AttrServiceRecord, mask, r.Append(nil))
	return err
}

// lookUp asks for the GID that an IP address belongs to.
func (a *administrator) lookUp(ctx context.Context, ip netip.Addr) (ib.GID, error) {
	q := sa.ServiceRecord{ID: addrService, Data: addrData(ip)}
	b, err := a.ask(ctx, mad.MethodGet, sa.AttrServiceRecord, sa.ServiceID|addrMask, q.Append(nil))
	if err != nil {
		return ib.GID{}, err
	}
	var r sa.ServiceRecord
	r.Decode(b)
	return r.GID, nil
}

// addrMask are the bits of the 16 bytes of an address.
const addrMask = 0xffff * serviceData8

func addrData(ip netip.Addr) (data [64]byte) {
	if ip.Is4() { // without the prefix of mapped ones
		a := ip.As4()
		copy(data[12:], a[:])
		return data
	}
	a := ip.As16()
	copy(data[:], a[:])
	return data
}
