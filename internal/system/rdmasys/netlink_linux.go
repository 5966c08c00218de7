// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"encoding/binary"
	"errors"
	"fmt"
	"iter"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// answerTime is how long the kernel may take to answer; it takes microseconds.
const answerTime = 5 // seconds

// ask sends a request to the kernel and returns its answer, all messages of it.
func ask(family int, typ, flags uint16, body []byte) (all []syscall.NetlinkMessage, err error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, family)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	defer unix.Close(fd)
	if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO,
		&unix.Timeval{Sec: answerTime}); err != nil {
		return nil, os.NewSyscallError("setsockopt", err)
	}
	const seq = 1
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, typ)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = binary.NativeEndian.AppendUint32(b, seq)
	b = binary.NativeEndian.AppendUint32(b, 0)
	if err := unix.Sendto(fd, append(b, body...), 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return nil, os.NewSyscallError("sendto", err)
	}
	buf := make([]byte, 64<<10)
	const most = 1 << 16 // messages
	for len(all) < most {
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return nil, os.NewSyscallError("recvfrom", err)
		}
		if sa, ok := from.(*unix.SockaddrNetlink); !ok || sa.Pid != 0 {
			continue // not the kernel
		}
		messages, last, err := take(buf[:n], seq)
		if all = append(all, messages...); err != nil || last || flags&unix.NLM_F_DUMP == 0 {
			return all, err
		}
	}
	return nil, errors.New("the kernel's answer does not end")
}

// take parses a datagram of the kernel, whose messages own their data. last says that it ends a dump.
func take(b []byte, seq uint32) (all []syscall.NetlinkMessage, last bool, err error) {
	messages, err := syscall.ParseNetlinkMessage(b)
	if err != nil {
		return nil, false, err
	}
	for _, m := range messages {
		switch {
		case m.Header.Seq != seq:
		case m.Header.Type == unix.NLMSG_DONE:
			last = true
		case m.Header.Type == unix.NLMSG_ERROR:
			if len(m.Data) >= 4 {
				if e := int32(binary.NativeEndian.Uint32(m.Data)); e < 0 {
					return nil, true, syscall.Errno(-e)
				}
			}
			last = true
		default:
			m.Data = append([]byte(nil), m.Data...)
			all = append(all, m)
		}
	}
	return all, last, nil
}

// attrs returns the types, without their flags, and the values of the attributes in b, up to one that
// is cut off.
func attrs(b []byte) iter.Seq2[uint16, []byte] {
	return func(yield func(uint16, []byte) bool) {
		for len(b) >= unix.SizeofNlAttr {
			n, typ := int(binary.NativeEndian.Uint16(b)),
				binary.NativeEndian.Uint16(b[2:])&^(unix.NLA_F_NESTED|unix.NLA_F_NET_BYTEORDER)
			if n < unix.SizeofNlAttr || n > len(b) || !yield(typ, b[unix.SizeofNlAttr:n]) {
				return
			}
			b = b[min((n+3)&^3, len(b)):]
		}
	}
}

func appendAttr(b []byte, typ uint16, value []byte) []byte {
	b = binary.NativeEndian.AppendUint16(b, uint16(unix.SizeofNlAttr+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, typ), value...)
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return b
}

// RouteTo asks the kernel how it would send to an address.
func RouteTo(peer netip.Addr) (Route, error) {
	peer = peer.Unmap()
	body := make([]byte, unix.SizeofRtMsg)
	body[0], body[1] = unix.AF_INET, byte(peer.BitLen())
	if peer.Is6() {
		body[0] = unix.AF_INET6
	}
	body = appendAttr(body, unix.RTA_DST, peer.AsSlice())
	if zone := peer.Zone(); zone != "" {
		i, err := zoneIndex(zone)
		if err != nil {
			return Route{}, fmt.Errorf("there is no route to %v: %w", peer, err)
		}
		body = appendAttr(body, unix.RTA_OIF, binary.NativeEndian.AppendUint32(nil, uint32(i)))
	}
	messages, err := ask(unix.NETLINK_ROUTE, unix.RTM_GETROUTE, 0, body)
	if err != nil {
		return Route{}, fmt.Errorf("there is no route to %v: %w", peer, err)
	}
	for i := range messages {
		if messages[i].Header.Type != unix.RTM_NEWROUTE {
			continue
		}
		r, index, err := parseRoute(messages[i].Data)
		if err != nil {
			return Route{}, fmt.Errorf("there is no route to %v: %w", peer, err)
		}
		n, err := net.InterfaceByIndex(index)
		if err != nil {
			return Route{}, fmt.Errorf("the interface to %v: %w", peer, err)
		}
		r.NetDev = n.Name
		if r.MTU == 0 {
			r.MTU = n.MTU
		}
		if !r.From.IsValid() {
			r.From = sourceOn(n, peer)
		}
		if r.From.Is6() && r.From.IsLinkLocalUnicast() {
			r.From = r.From.WithZone(n.Name)
		}
		return r, nil
	}
	return Route{}, fmt.Errorf("there is no route to %v", peer)
}

// sourceOn returns an address of an interface for packets to a peer, if the route has none: a peer's own
// address, or one of its family.
func sourceOn(n *net.Interface, peer netip.Addr) netip.Addr {
	nets, err := n.Addrs()
	if err != nil {
		return netip.Addr{}
	}
	for _, a := range nets {
		if p, err := netip.ParsePrefix(a.String()); err == nil && p.Addr().Unmap().Is4() == peer.Is4() {
			return p.Addr().Unmap()
		}
	}
	return netip.Addr{}
}

func zoneIndex(zone string) (int, error) {
	if i, err := net.InterfaceByName(zone); err == nil {
		return i.Index, nil
	}
	n, err := strconv.Atoi(zone)
	if err != nil || n <= 0 {
		return 0, fmt.Errorf("there is no interface %s", zone)
	}
	return n, nil
}

var errUnreachable = errors.New("the routing table refuses it")

// parseRoute parses a struct rtmsg and its attributes, and returns the number of the interface.
func parseRoute(b []byte) (r Route, index int, err error) {
	if len(b) < unix.SizeofRtMsg {
		return r, 0, unix.EBADMSG
	}
	switch b[7] { // rtm_type
	case unix.RTN_LOCAL:
		r.Local = true
	case unix.RTN_UNREACHABLE, unix.RTN_BLACKHOLE, unix.RTN_PROHIBIT, unix.RTN_THROW:
		return r, 0, errUnreachable
	}
	for typ, v := range attrs(b[unix.SizeofRtMsg:]) {
		switch {
		case typ == unix.RTA_OIF && len(v) >= 4:
			index = int(int32(binary.NativeEndian.Uint32(v)))
		case typ == unix.RTA_PREFSRC:
			r.From, _ = netip.AddrFromSlice(v)
		case typ == unix.RTA_GATEWAY:
			r.Gateway, _ = netip.AddrFromSlice(v)
		case typ == unix.RTA_METRICS:
			for metric, v := range attrs(v) {
				if metric == unix.RTAX_MTU && len(v) >= 4 {
					r.MTU = int(min(binary.NativeEndian.Uint32(v), 1<<20))
				}
			}
		}
	}
	return r, index, nil
}

// readPFC asks the driver of an interface by dcbnl (IEEE 802.1Qaz).
func readPFC(netdev string) (*PFC, error) {
	const (
		ieeeGet = 21 // DCB_CMD_IEEE_GET
		ifName  = 1  // DCB_ATTR_IFNAME
		dcbIEEE = 13 // DCB_ATTR_IEEE
		dcbPFC  = 2  // DCB_ATTR_IEEE_PFC
	)
	body := appendAttr([]byte{unix.AF_UNSPEC, ieeeGet, 0, 0}, ifName, append([]byte(netdev), 0))
	messages, err := ask(unix.NETLINK_ROUTE, unix.RTM_GETDCB, 0, body)
	if err != nil {
		return nil, err
	}
	for i := range messages {
		if p := parsePFC(messages[i].Data, dcbIEEE, dcbPFC); p != nil {
			return p, nil
		}
	}
	return nil, nil
}

// parsePFC finds a struct ieee_pfc, which begins with pfc_cap and pfc_en, in a struct dcbmsg's attributes.
func parsePFC(b []byte, ieee, pfc uint16) *PFC {
	const header = 4
	if len(b) < header {
		return nil
	}
	for typ, v := range attrs(b[header:]) {
		if typ != ieee {
			continue
		}
		for typ, v := range attrs(v) {
			if typ == pfc && len(v) >= 2 {
				return &PFC{Classes: int(v[0]), Enabled: v[1]}
			}
		}
	}
	return nil
}

// readFilters lists the chains of nftables that packets to this host go through. It takes
// CAP_NET_ADMIN.
func readFilters() (found []Filter, err error) {
	const getChain = unix.NFNL_SUBSYS_NFTABLES<<8 | unix.NFT_MSG_GETCHAIN
	messages, err := ask(unix.NETLINK_NETFILTER, getChain, unix.NLM_F_DUMP, []byte{unix.AF_UNSPEC, 0, 0, 0})
	switch {
	case errors.Is(err, unix.EPERM), errors.Is(err, unix.EACCES):
		return nil, errors.New("they cannot be read as an ordinary user")
	case errors.Is(err, unix.EPROTONOSUPPORT), errors.Is(err, unix.EINVAL), errors.Is(err, unix.EOPNOTSUPP):
		return nil, nil // this kernel has no nftables, or its module is not loaded
	case err != nil:
		return nil, err
	}
	for i := range messages {
		if f, ok := parseChain(messages[i].Data); ok {
			found = append(found, f)
		}
	}
	return found, nil
}

// parseChain parses a struct nfgenmsg and its attributes. It returns false for chains that incoming
// packets do not enter from outside.
func parseChain(b []byte) (f Filter, ok bool) {
	const header = 4
	if len(b) < header {
		return f, false
	}
	switch b[0] {
	case unix.NFPROTO_INET:
		f.Family = "inet"
	case unix.NFPROTO_IPV4:
		f.Family = "ip"
	case unix.NFPROTO_IPV6:
		f.Family = "ip6"
	default:
		return f, false
	}
	input, filter := false, false
	for typ, v := range attrs(b[header:]) {
		switch typ {
		case unix.NFTA_CHAIN_TABLE:
			f.Table = cString(v)
		case unix.NFTA_CHAIN_NAME:
			f.Chain = cString(v)
		case unix.NFTA_CHAIN_TYPE:
			filter = cString(v) == "filter"
		case unix.NFTA_CHAIN_POLICY:
			f.Drops = len(v) >= 4 && binary.BigEndian.Uint32(v) == 0 // NF_DROP
		case unix.NFTA_CHAIN_HOOK:
			for typ, v := range attrs(v) {
				if typ == unix.NFTA_HOOK_HOOKNUM && len(v) >= 4 {
					input = binary.BigEndian.Uint32(v) == unix.NF_INET_LOCAL_IN
				}
			}
		}
	}
	return f, input && filter
}

// cString returns the text before a zero byte.
func cString(b []byte) string {
	s, _, _ := strings.Cut(string(b), "\x00")
	return s
}
