// SPDX-License-Identifier: Apache-2.0

package softdev

import "net/netip"

// Router is a port or a network that knows whether there is a route to an address; see
// [driver.Device]. It is called without the device's lock.
type Router interface {
	CheckRoute(from, to netip.Addr) error
}

// CheckRoute asks a port or network, or a network inside another, if it is a [Router].
func CheckRoute(way any, from, to netip.Addr) error {
	if r, ok := way.(Router); ok {
		return r.CheckRoute(from, to)
	}
	return nil
}

// CheckRoute asks the port.
func (d *Device) CheckRoute(from, to netip.Addr) error { return CheckRoute(d.port, from, to) }
