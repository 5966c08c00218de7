// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// HostPort splits HOST:PORT where a command takes a host, and its port by a flag. A host alone, and an address of IPv6
// without brackets, has no port: 0.
func HostPort(text string) (host string, port uint16) {
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		return strings.Trim(text, "[]"), 0
	}
	h, p, err := net.SplitHostPort(text)
	n, perr := strconv.ParseUint(p, 10, 16)
	if err != nil || perr != nil || n == 0 || h == "" {
		return text, 0
	}
	return h, uint16(n)
}

// TakePort returns the host of HOST or HOST:PORT, and sets the flag's value to that port. It is an error if the flag
// says another.
func TakePort[T int | uint16](text string, flag *T, changed bool) (host string, err error) {
	host, port := HostPort(text)
	switch {
	case port == 0:
	case changed && *flag != T(port):
		return "", Usagef("%q has port %d, and --port is %d: give one of them", text, port, *flag)
	default:
		*flag = T(port)
	}
	return host, nil
}

// PeerAddr returns the address of a host, with a zone if it is given one.
func PeerAddr(ctx context.Context, host string) (netip.Addr, error) {
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return a.Unmap(), nil
	}
	found, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	switch {
	case ctx.Err() != nil:
		return netip.Addr{}, ctx.Err()
	case err != nil:
		return netip.Addr{}, Usagef("%w: give a name that resolves, or an address", err)
	}
	return found[0].Unmap(), nil
}
