// SPDX-License-Identifier: Apache-2.0

package simnet

import "testing"

// Package rdmatest sets these, for the tests of this package, which run through it.
var (
	// NetOf returns the network of a rdmatest.World.
	NetOf func(world any) *Net
	// HostOf returns the host behind a rdmatest.Host.
	HostOf func(host any) *Host
	// Play plays the world of a seed with a test, a func(*rdmatest.World), and returns its failures.
	Play func(t *testing.T, seed uint64, log *Log, test any) (failures []string)
)

// Locked calls f while the network calls no Watcher.
func (n *Net) Locked(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

// Overflows returns how many packets Buffer had no room for.
func (h *Host) Overflows() uint64 {
	h.net.mu.Lock()
	defer h.net.mu.Unlock()
	return h.overflows
}

// Index returns the host's number on its network, from 0 on.
func (h *Host) Index() int { return h.index }

// Frames returns the bytes of the packets that were kept.
func (l *Log) Frames() (frames [][]byte) {
	for _, p := range l.packets {
		frames = append(frames, p.frame)
	}
	return frames
}
