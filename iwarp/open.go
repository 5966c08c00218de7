// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"github.com/ramjet-rdma/ramjet/internal/core/streamdev"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/driver"
)

// Options are optional parameters of Open; nil stands for the zero value.
type Options struct {
	NoCRC   bool // accept streams without CRCs if the peer does not request them either; always so with TLS
	Markers bool // request markers in the peers' streams
	// length limit of an FPDU in bytes; 0: 64 KiB if the peer accepts that, otherwise the payload of a TCP segment
	FPDU       int
	Congestion string // TCP's congestion control, such as "cubic"; empty: the system's

	// SCTP selects iWARP over SCTP in UDP (RFC 5043, RFC 6951) instead of TCP. NoCRC, Markers and
	// Congestion then have no effect, and TLS is refused.
	SCTP bool
	// TLS selects iWARP inside TLS 1.3. It needs Certificates and RootCAs; see [LoadTLS]. Both
	// sides must present a certificate. The certificate of a peer that is dialed must name the address
	// that was dialed. Peers are verified against RootCAs, peers that dial against ClientCAs if there
	// are any.
	TLS *tls.Config
	// Trace receives every stream in both directions, as TCP segments with synthetic boundaries
	// (see [trace.Stream]): over TLS the decrypted stream, over SCTP the FPDUs that its messages stand
	// for.
	Trace *trace.Writer
	// Refused is called with peers that dialed and failed in TLS. It may be called by several
	// goroutines at once.
	Refused func(peer netip.AddrPort, err error)
}

// Open opens the iWARP device of a local address, such as "192.0.2.7", "fd09::1" or "fe80::1%eth0": peers' addresses
// that begin with fe80 are on that link. Options can follow the address, as in
// "192.0.2.7?congestion=cubic&fpdu=1460&crc=off&markers=on". They override the ones in opt.
//
// Up to 16 devices, usually in several processes, can have one address; over SCTP, one. Systems
// other than Linux have iWARP over SCTP only, and return ErrNotSupported for the rest.
func Open(address string, opt *Options) (*verbs.Device, error) {
	if opt == nil {
		opt = &Options{}
	}
	address, query, _ := strings.Cut(address, "?")
	opt, err := opt.parse(query)
	if err != nil {
		return nil, err
	}
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return nil, fmt.Errorf("iwarp: %q is no IP address: give one of this host, such as iwarp:127.0.0.1", address)
	}
	addr = addr.Unmap()
	if addr.IsUnspecified() || addr.IsMulticast() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
		return nil, fmt.Errorf("iwarp: %v stands for no single address: give one of this host", addr)
	}
	if opt.FPDU != 0 && (opt.FPDU < 128 || opt.FPDU > 1<<16) {
		return nil, fmt.Errorf("iwarp: FPDUs of %d bytes: 128 to 65536", opt.FPDU)
	}
	kind, n, err := openNetwork(addr, opt)
	if err != nil {
		return nil, failed(addr, err)
	}
	if opt.Trace != nil {
		n = &tracedNetwork{n, opt.Trace}
	}
	d, err := streamdev.New(kind+":"+addr.String(), "iwarp", guid(addr), n)
	if err != nil {
		n.Close()
		return nil, failed(addr, err)
	}
	return statsocket.Publish(driver.NewDevice(d)), nil
}

// failed explains why an address cannot be opened.
func failed(addr netip.Addr, err error) error {
	// The system calls a link-local address invalid if the link is not known.
	if errors.Is(err, syscall.EADDRNOTAVAIL) ||
		addr.Is6() && addr.IsLinkLocalUnicast() && errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("iwarp: %v is not an address of this host: %w", addr, err)
	}
	return fmt.Errorf("iwarp: opening %v: %w", addr, err)
}

// parse returns o with the options of a device's name applied.
func (o *Options) parse(query string) (*Options, error) {
	c := *o
	for _, option := range strings.Split(query, "&") {
		name, value, _ := strings.Cut(option, "=")
		var err error
		switch name {
		case "":
		case "congestion":
			c.Congestion = value
		case "fpdu":
			if c.FPDU, err = strconv.Atoi(value); err != nil {
				err = errors.New("it is a number of bytes, such as 1460")
			}
		case "crc":
			err = onOff(value, &c.NoCRC)
			c.NoCRC = !c.NoCRC
		case "markers":
			err = onOff(value, &c.Markers)
		default:
			err = errors.New("there are congestion, fpdu, crc and markers")
		}
		if err != nil {
			return nil, fmt.Errorf("iwarp: option %q of the device's name: %w", option, err)
		}
	}
	return &c, nil
}

func onOff(value string, to *bool) error {
	if value != "on" && value != "off" {
		return errors.New("it is on or off")
	}
	*to = value == "on"
	return nil
}

// openNetwork opens the network that the options select. kind is the name of such devices.
func openNetwork(addr netip.Addr, opt *Options) (kind string, n streamdev.Network, err error) {
	if opt.SCTP {
		if opt.TLS != nil {
			return "", nil, &verbs.OpError{Op: "open", Err: verbs.ErrNotSupported,
				Detail: "TLS over SCTP: choose one of them"}
		}
		n, err = newSCTPNetwork(addr, opt)
		return "iwarp+sctp", n, err
	}
	if n, err = newNetwork(addr, opt); err != nil || opt.TLS == nil {
		return "iwarp", n, err
	}
	t, err := newTLSNetwork(n, opt)
	if err != nil {
		n.Close()
	}
	return "iwarps", t, err
}

// GUID returns the globally unique identifier of the device of an address, whether it is open or
// not.
func GUID(address string) (uint64, error) {
	address, _, _ = strings.Cut(address, "?")
	addr, err := netip.ParseAddr(address)
	if err != nil {
		return 0, fmt.Errorf("iwarp: %q is no IP address: give one of this host, such as iwarp:127.0.0.1", address)
	}
	return guid(addr.Unmap()), nil
}

// guid makes an EUI-64 from an address, marked as locally assigned.
func guid(a netip.Addr) uint64 {
	b := a.As16()
	g := uint64(0x02)
	for _, v := range b[9:] {
		g = g<<8 | uint64(v)
	}
	return g
}
