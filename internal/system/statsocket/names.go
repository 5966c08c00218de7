// SPDX-License-Identifier: Apache-2.0

package statsocket

import (
	"fmt"
	"strconv"
	"strings"
)

// variable keeps a process from being read if it is "off".
const variable = "RAMJET_STAT"

// CollectorVariable is the path of a socket to which a process hands its state, too, beside its own sockets.
// CollectorSocket is the socket's name in the folders of a [Collector].
const (
	CollectorVariable = "RAMJET_STAT_COLLECTOR"
	CollectorSocket   = "socket"
)

// prefix begins the name of the socket with a process's state, packetPrefix the name of the socket with packets,
// faultPrefix the name of the socket that takes faults.
const (
	prefix       = "@ramjet/stat/"
	packetPrefix = "@ramjet/packets/"
	faultPrefix  = "@ramjet/faults/"
)

// name is the name of a socket, in the form of package net: an at sign stands for the zero byte.
type name struct {
	uid, pid int // as the process sees itself
	random   uint64
}

func (n name) String() string { return fmt.Sprintf("%s%d/%d/%016x", prefix, n.uid, n.pid, n.random) }

// packets returns the name of the socket with packets of the same process.
func (n name) packets() string { return packetPrefix + strings.TrimPrefix(n.String(), prefix) }

// faults returns the name of the socket that takes faults, of the same process.
func (n name) faults() string { return faultPrefix + strings.TrimPrefix(n.String(), prefix) }

// parseName returns false for a name of something else.
func parseName(s string) (n name, ok bool) {
	rest, ok := strings.CutPrefix(s, prefix)
	parts := strings.Split(rest, "/")
	if !ok || len(parts) != 3 || len(parts[2]) != 16 {
		return n, false
	}
	uid, err1 := strconv.ParseUint(parts[0], 10, 32)
	pid, err2 := strconv.ParseUint(parts[1], 10, 31)
	random, err3 := strconv.ParseUint(parts[2], 16, 64)
	if err1 != nil || err2 != nil || err3 != nil {
		return n, false
	}
	n = name{int(uid), int(pid), random}
	return n, n.String() == s
}

// listener is a socket that listens at a name.
type listener struct {
	name
	inode uint64 // tells it from the sockets of other processes
}

// listens is the flag of sockets that listen, in the kernel's table. Their connections have the name, too.
const listens = 1 << 16

// listenersIn returns the sockets that listen in a table of the kernel's Unix sockets (/proc/net/unix).
func listenersIn(table string) (found []listener) {
	seen := map[name]bool{}
	for line := range strings.Lines(table) {
		f := strings.Fields(line)
		if len(f) != 8 {
			continue
		}
		flags, err1 := strconv.ParseUint(f[3], 16, 64)
		inode, err2 := strconv.ParseUint(f[6], 10, 64)
		if n, ok := parseName(f[7]); ok && err1 == nil && err2 == nil && flags&listens != 0 && !seen[n] {
			seen[n] = true
			found = append(found, listener{n, inode})
		}
	}
	return found
}

// allowed reports whether a user may read the state of an owner's process.
func allowed(reader, owner int) bool { return reader == owner || reader == 0 }
