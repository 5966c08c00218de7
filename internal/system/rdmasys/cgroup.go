// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"path"
	"slices"
	"strings"
)

// rdmaLimits returns the limits of this process's control groups and of those above them, by the
// controller rdma of either version.
func (r *reader) rdmaLimits() (found []RDMALimit) {
	groups := parseCgroup(r.text("proc/self/cgroup"))
	for _, m := range parseMounts(r.text("proc/self/mountinfo")) {
		var at string
		switch {
		case m.kind == "cgroup2":
			at = pathOf(groups, "")
		case m.kind == "cgroup" && slices.Contains(m.options, "rdma"):
			at = pathOf(groups, "rdma")
		}
		if at == "" {
			continue
		}
		// In a container the mount's root is the group that it was given.
		if rest, ok := strings.CutPrefix(at, strings.TrimSuffix(m.root, "/")); ok {
			at = rest
		}
		for _, g := range ancestors(at) {
			file := path.Join(m.point, g, "rdma.max")
			for _, l := range parseRDMAMax(r.text(strings.TrimPrefix(file, "/"))) {
				l.File = file
				found = append(found, l)
			}
		}
	}
	return found
}

// pathOf returns the group of a controller; of version 2 if that is empty.
func pathOf(groups []group, controller string) string {
	for _, g := range groups {
		if controller == "" && len(g.controllers) == 0 || controller != "" && slices.Contains(g.controllers, controller) {
			return g.path
		}
	}
	return ""
}

// maxDepth limits how many groups are inside each other.
const maxDepth = 64

// ancestors returns a group and those that contain it, the innermost first.
func ancestors(group string) (all []string) {
	for group = path.Clean("/" + group); len(all) < maxDepth; group = path.Dir(group) {
		all = append(all, group)
		if group == "/" {
			break
		}
	}
	return all
}
