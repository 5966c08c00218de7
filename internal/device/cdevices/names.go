// SPDX-License-Identifier: Apache-2.0

package cdevices

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// MaxName is the maximum length of a name in bytes (IBV_SYSFS_NAME_MAX, less the terminating 0).
const MaxName = 63

// MaxPortableName is the length in bytes up to which programs are known to keep a name. UCX cuts off the rest
// (UCT_MD_NAME_MAX, less the terminating 0) and then does not find the device.
const MaxPortableName = 15

// check validates a device's name, which is used in paths.
func check(name string) error {
	if name == "" || len(name) > MaxName || name == "." || name == ".." || strings.ContainsAny(name, "/:") {
		return fmt.Errorf("%q is no name for a device: it has 1 to %d bytes and neither / nor a colon", name, MaxName)
	}
	return nil
}

// Names are the names of devices that have none of their own. In a process an address keeps its name although others
// come and go, and no other gets it: programs open a device by the name that they saw in an earlier list.
type Names struct {
	mu    sync.Mutex
	names map[string]string // by address
	owner map[string]string // the address, by name
}

// number names the devices without a name by their kind and their place among the devices of that kind, as a kernel
// would: roce0, roce1, iwarp0. So the names depend on the list alone, and hosts that list as many devices have the same
// names, which programs tell their peers. A name of taken stays its device's, and its number is skipped.
func (n *Names) number(all []Device, taken map[string]bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.names == nil {
		n.names, n.owner = map[string]string{}, map[string]string{}
	}
	used := maps.Clone(taken)
	if used == nil {
		used = map[string]bool{}
	}
	next := map[string]int{}
	for i := range all {
		d := &all[i]
		if d.Name != "" {
			continue
		}
		if name := n.names[d.Address]; name != "" && !used[name] {
			d.Name, used[name] = name, true
			continue
		}
		base := baseOf(d.Address)
		for ; d.Name == ""; next[base]++ {
			if name := fmt.Sprint(base, next[base]); !used[name] && n.owner[name] == "" {
				d.Name, used[name] = name, true
			}
		}
		n.names[d.Address], n.owner[d.Name] = d.Name, d.Address
	}
}

// baseOf returns the name of a device's kind, to which a number is added. A digit at its end is kept apart from
// the number: roce1_0.
func baseOf(address string) string {
	kind, _, _ := strings.Cut(address, ":")
	kind = strings.Map(func(r rune) rune {
		if r == '+' || r == '/' {
			return '_'
		}
		return r
	}, kind)
	if kind != "" && kind[len(kind)-1] >= '0' && kind[len(kind)-1] <= '9' {
		kind += "_"
	}
	return kind
}

// addressName returns the name that says a device's address, roce_192.0.2.7. Devices had it before they were
// numbered. It is too long for some programs, see [MaxPortableName].
func addressName(address string) string {
	return strings.NewReplacer(":", "_", "%", "_", "?", "_", "=", "_", "&", "_", "/", "_").Replace(address)
}

// fromAddressName returns the address that addressName has made a name of: that of an IP address or an interface,
// without options.
func fromAddressName(name string) (address string, is bool) {
	kind, rest, found := strings.Cut(name, "_")
	if k, err := kinds.Find(kind); !found || err != nil || k.Hardware || strings.Contains(name, ":") {
		return "", false
	}
	if a, err := netip.ParseAddr(strings.ReplaceAll(rest, "_", ":")); err == nil {
		return kind + ":" + a.String(), true
	}
	return kind + ":" + rest, true
}

// Named returns a list of devices. A device has the name of its address, such as roce_192.0.2.7, if one of words
// contains that: words are the arguments and environment of a program, whose user has written them. Devices with a
// given name keep it. It returns names and set if nothing has to be renamed.
func Named(names string, set bool, words []string) (list string, listed bool) {
	var all []Device
	for _, f := range fields(names) {
		if kind := kindOf(f); kind != nil {
			all = append(all, ofAllAddresses(kind, map[string]bool{})...)
			continue
		}
		all = append(all, parse(f))
	}
	if !set {
		all, _ = List(names, set) // an error is of a name that was given
	}
	var out []string
	renamed := false
	for _, d := range all {
		if (d.Name == "" || !set) && mentioned(addressName(d.Address), words) {
			d.Name, renamed = addressName(d.Address), true
		}
		if d.Name != "" {
			d.Address = d.Name + "=" + d.Address
		}
		out = append(out, d.Address)
	}
	if !renamed {
		return names, set
	}
	return strings.Join(out, " "), true
}

// mentioned reports whether one of words has a name that is not part of a longer one.
func mentioned(name string, words []string) bool {
	whole := regexp.MustCompile(`(^|[^\w.-])` + regexp.QuoteMeta(name) + `($|[^\w.-])`)
	return slices.ContainsFunc(words, whole.MatchString)
}
