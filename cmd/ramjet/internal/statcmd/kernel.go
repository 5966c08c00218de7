// SPDX-License-Identifier: Apache-2.0

package statcmd

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// kernelClass is the folder in which Linux shows the kernel's RDMA devices.
const kernelClass = "/sys/class/infiniband"

// kernelLink is a port of a kernel device. `rdma resource` shows its users.
type kernelLink struct {
	Device   string `json:"ifname"`
	Port     int    `json:"port"`
	State    string `json:"state"`
	Physical string `json:"physical_state"`
	NetDev   string `json:"netdev,omitempty"`
}

// kernelLinks returns the ports of the kernel's devices; none where there are none, or no /sys.
func kernelLinks() []kernelLink { return kernelLinksIn(kernelClass) }

func kernelLinksIn(class string) (links []kernelLink) {
	ports, _ := filepath.Glob(filepath.Join(class, "*", "ports", "*")) // the pattern is well-formed
	for _, dir := range ports {
		port, err := strconv.Atoi(filepath.Base(dir))
		if err != nil {
			continue
		}
		links = append(links, kernelLink{Device: filepath.Base(filepath.Dir(filepath.Dir(dir))), Port: port,
			State:    cmp.Or(kernelValue(dir, "state"), "-"),
			Physical: cmp.Or(physicalName(kernelValue(dir, "phys_state")), "-"),
			NetDev:   kernelValue(dir, "gid_attrs/ndevs/0")})
	}
	slices.SortFunc(links, func(a, b kernelLink) int { return cmp.Or(cmp.Compare(a.Device, b.Device), a.Port-b.Port) })
	return links
}

// kernelValue returns the value in a file, such as ACTIVE of "4: ACTIVE"; empty: it is not there.
func kernelValue(dir, file string) string {
	b, _ := os.ReadFile(filepath.Join(dir, file)) // a missing file is an unknown value
	text := strings.TrimSpace(string(b))
	if number, rest, ok := strings.Cut(text, ": "); ok && strings.Trim(number, "0123456789") == "" {
		return rest
	}
	return text
}

// physicalName returns the name that rdma link has for a physical state, such as LINK_UP of LinkUp.
func physicalName(s string) string {
	var b strings.Builder
	for i, r := range s {
		if i > 0 && r >= 'A' && r <= 'Z' {
			b.WriteByte('_')
		}
		b.WriteRune(r)
	}
	return strings.ToUpper(b.String())
}
