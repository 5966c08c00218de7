// SPDX-License-Identifier: Apache-2.0

package linkwatch

import (
	"encoding/binary"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// Pair returns two interfaces that are the ends of one virtual cable (veth) and are up; false: there is
// no such cable with both ends in this network namespace.
func Pair() (a, b string, ok bool, err error) {
	dump, err := syscall.NetlinkRIB(unix.RTM_GETLINK, unix.AF_UNSPEC)
	if err != nil {
		return "", "", false, os.NewSyscallError("netlink", err)
	}
	messages, err := syscall.ParseNetlinkMessage(dump)
	if err != nil {
		return "", "", false, err
	}
	type ends struct{ one, other uint32 }
	names := map[ends]string{}
	for i := range messages {
		m := &messages[i]
		if m.Header.Type != unix.RTM_NEWLINK || len(m.Data) < unix.SizeofIfInfomsg {
			continue
		}
		e := ends{one: binary.NativeEndian.Uint32(m.Data[4:])}
		here := binary.NativeEndian.Uint32(m.Data[8:])&unix.IFF_UP != 0
		name := ""
		for typ, value := range attrs(m.Data, unix.SizeofIfInfomsg) {
			switch {
			case typ == unix.IFLA_IFNAME:
				name = unix.ByteSliceToString(value)
			case typ == unix.IFLA_LINK && len(value) >= 4:
				e.other = binary.NativeEndian.Uint32(value)
			case typ == unix.IFLA_LINK_NETNSID: // the other end is in another namespace
				here = false
			}
		}
		if !here || e.other == 0 || e.other == e.one {
			continue
		}
		if name2, ok := names[ends{e.other, e.one}]; ok {
			return name2, name, true, nil
		}
		names[e] = name
	}
	return "", "", false, nil
}
