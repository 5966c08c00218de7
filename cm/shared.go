// SPDX-License-Identifier: Apache-2.0

package cm

import "github.com/ramjet-rdma/ramjet/verbs"

// shared holds the domain and pool of a device's connections that have none of their own.
type shared struct {
	pd    *verbs.PD
	pools map[int]*Pool // by the size of their buffers
}

// domain returns the protection domain.
func (s *shared) domain(dev *verbs.Device) (*verbs.PD, error) {
	if s.pd == nil {
		pd, err := dev.AllocPD()
		if err != nil {
			return nil, err
		}
		s.pd = pd
	}
	return s.pd, nil
}

// pool returns the pool of buffers of a size.
func (s *shared) pool(size int) *Pool {
	p := s.pools[size]
	if p == nil {
		if s.pools == nil {
			s.pools = map[int]*Pool{}
		}
		p = NewPool(s.pd, size, 0)
		s.pools[size] = p
	}
	return p
}

// close frees resources that are no longer in use. A domain in use, by memory of a program or by buffers not
// yet released, stays for later connections.
func (s *shared) close() {
	for _, p := range s.pools {
		p.Close()
	}
	s.pools = nil
	if s.pd != nil && s.pd.Close() == nil {
		s.pd = nil
	}
}
