// SPDX-License-Identifier: Apache-2.0

package rdmasys

import (
	"path"
	"slices"
	"strconv"
	"strings"
)

// rdmaLimits returns the limits of this process's control groups and of their ancestors, by the
// controller rdma of either version.
func (r *reader) rdmaLimits() (found []RDMALimit) {
	for _, folder := range r.groupFolders("rdma") {
		file := path.Join(folder, "rdma.max")
		for _, l := range parseRDMAMax(r.text(rooted(file))) {
			l.File = file
			found = append(found, l)
		}
	}
	return found
}

// Group holds the limits of this process's control groups, of both versions; -1: there is none.
type Group struct {
	Memory     int64   `json:"memory_bytes"`
	Processes  int64   `json:"processes"` // and threads
	Processors float64 `json:"processors"`
}

// groupLimits returns the least limits of this process's control groups and of their ancestors.
func (r *reader) groupLimits() Group {
	g := Group{-1, -1, -1}
	least := func(a *int64, folder, file string) {
		// Version 1 has a number near the largest for none, and version 2 the word max.
		n, err := strconv.ParseInt(r.text(rooted(path.Join(folder, file))), 10, 64)
		if err == nil && n >= 0 && n < unlimited && (*a < 0 || n < *a) {
			*a = n
		}
	}
	for _, folder := range r.groupFolders("memory") {
		least(&g.Memory, folder, "memory.max")
		least(&g.Memory, folder, "memory.limit_in_bytes")
	}
	for _, folder := range r.groupFolders("pids") {
		least(&g.Processes, folder, "pids.max")
	}
	for _, folder := range r.groupFolders("cpu") {
		quota, period, _ := strings.Cut(r.text(rooted(path.Join(folder, "cpu.max"))), " ")
		if quota == "" {
			quota, period = r.text(rooted(path.Join(folder, "cpu.cfs_quota_us"))),
				r.text(rooted(path.Join(folder, "cpu.cfs_period_us")))
		}
		q, err1 := strconv.ParseInt(quota, 10, 64)
		p, err2 := strconv.ParseInt(period, 10, 64)
		if n := float64(q) / float64(p); err1 == nil && err2 == nil && q > 0 && p > 0 &&
			(g.Processors < 0 || n < g.Processors) {
			g.Processors = n
		}
	}
	return g
}

// unlimited is more bytes than any machine has.
const unlimited = 1 << 60

// groupFolders returns the folders of this process's control groups of a controller, of either version, and of their
// ancestors.
func (r *reader) groupFolders(controller string) (folders []string) {
	groups := parseCgroup(r.text("proc/self/cgroup"))
	for _, m := range parseMounts(r.text("proc/self/mountinfo")) {
		var at string
		switch {
		case m.kind == "cgroup2":
			at = pathOf(groups, "")
		case m.kind == "cgroup" && slices.Contains(m.options, controller):
			at = pathOf(groups, controller)
		}
		if at == "" {
			continue
		}
		// In a container the mount's root is the group that it was given.
		if rest, ok := strings.CutPrefix(at, strings.TrimSuffix(m.root, "/")); ok {
			at = rest
		}
		for _, g := range ancestors(at) {
			folders = append(folders, path.Join(m.point, g))
		}
	}
	return folders
}

// pathOf returns the group of a controller; of version 2 if that is empty.
func pathOf(groups []group, controller string) string {
	for _, g := range groups {
		if controller == "" && len(g.controllers) == 0 ||
			controller != "" && slices.Contains(g.controllers, controller) {
			return g.path
		}
	}
	return ""
}

// maxDepth limits how many groups are inside each other.
const maxDepth = 64

// ancestors returns a group and the groups that contain it, the innermost first.
func ancestors(group string) (all []string) {
	for group = path.Clean("/" + group); len(all) < maxDepth; group = path.Dir(group) {
		all = append(all, group)
		if group == "/" {
			break
		}
	}
	return all
}
