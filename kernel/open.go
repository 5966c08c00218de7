// SPDX-License-Identifier: Apache-2.0

package kernel

import (
	"fmt"
	"strings"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Kind is the kind of these devices, and Prefix the beginning of their names.
const (
	Kind   = "kernel"
	Prefix = Kind + ":"
)

// A program that imports the package can open its devices by name.
func init() { rdmasys.Open = Open }

// absent says why there is no such device. It is verbs.ErrNotFound.
type absent string

func (a absent) Error() string        { return string(a) }
func (a absent) Is(target error) bool { return target == verbs.ErrNotFound }

// choose returns the index of the device of a name. Without a name there must be one device.
func choose(names []string, want string) (int, error) {
	if want != "" {
		for i, n := range names {
			if n == want {
				return i, nil
			}
		}
		if len(names) == 0 {
			return 0, absent(fmt.Sprintf("kernel: there is no device %q: %s", want, none))
		}
		return 0, absent(fmt.Sprintf("kernel: there is no device %q, but %s", want, list(names)))
	}
	switch len(names) {
	case 0:
		return 0, absent("kernel: " + none)
	case 1:
		return 0, nil
	}
	return 0, fmt.Errorf("kernel: which device? There are %s", list(names))
}

// none says how to come by a device.
const none = "this host has no RDMA device, or its driver is not loaded: `rdma link` lists them. " +
	"`rdma link add rxe0 type rxe netdev eth0` makes one in software, and Ramjet's own need no kernel, such as roce:"

func list(names []string) string {
	var b strings.Builder
	for i, n := range names {
		switch {
		case i > 0 && i == len(names)-1:
			b.WriteString(" and ")
		case i > 0:
			b.WriteString(", ")
		}
		b.WriteString(Prefix + n)
	}
	return b.String()
}
