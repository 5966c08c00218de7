// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"fmt"
	"net"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/core/spell"
)

// kernelNamed are names that drivers and udev give to RDMA devices.
var kernelNamed = regexp.MustCompile(`^(mlx[45]_|bnxt_re|irdma|rocep|rocex|rocev|ibp|ibs|iwp|iwarpp|rxe|siw|efa_|hfi1_|hns_|qedr|cxgb4_|erdma_|mana_|ocrdma|rdmap)[0-9a-z]*\d`)

// meantBy returns the end of an error for a name that is no device's: ": did you mean …?", or nothing.
func meantBy(name string) string {
	ask := func(text string, a ...any) string { return ": did you mean " + fmt.Sprintf(text, a...) + "?" }
	host, _, err := net.SplitHostPort(name)
	if err != nil {
		host = name
	}
	if a, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return ask("%v", Default().NameAt(a.String()))
	}
	kind, address, _ := strings.Cut(name, ":")
	if i, err := net.InterfaceByName(kind); err == nil && address == "" {
		return meantByInterface(i, ask)
	}
	local, _ := kernelNames.Local()
	named := func(l Local) bool { return l.Address == kind }
	switch {
	case slices.ContainsFunc(local, named):
		return ask("kernel:%s", kind)
	case kernelNamed.MatchString(kind) && len(local) == 0:
		return fmt.Sprintf(": kernel:%s would be a device of the kernel, and this host has none", kind)
	case kernelNamed.MatchString(kind):
		return fmt.Sprintf(": kernel:%s would be a device of the kernel, and this host has kernel:%s", kind,
			local[0].Address)
	}
	if near := spell.Nearest(kind, Names(), 1); near != "" {
		return ask("%s:%s", near, address)
	}
	return ""
}

// meantByInterface proposes the device at the address of an interface.
func meantByInterface(i *net.Interface, ask func(string, ...any) string) string {
	addrs, _ := i.Addrs()
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() || ok && n.IP.IsLoopback() {
			return ask("%v, at the address of the interface %s", Default().NameAt(n.IP.String()), i.Name)
		}
	}
	return fmt.Sprintf(": %s is an interface without an address, which %s needs", i.Name, Default().Name)
}
