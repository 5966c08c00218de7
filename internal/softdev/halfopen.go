// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net/netip"
	"slices"
)

// HalfOpen keeps what peers have begun and not gone on with, such as links that say nothing.
// There is room for so many, and a peer that begins more of them than others cannot keep those
// out: where there are too many, the source with the most of them loses its oldest.
//
// An IPv4 address is a source, and so are the 64 bits of an IPv6 address that name its subnet,
// as each host there has all the rest.
type HalfOpen[T comparable] struct {
	max     int
	n       int
	count   uint64 // of all that were ever added
	sources map[netip.Addr][]halfOpen[T]
}

type halfOpen[T comparable] struct {
	v     T
	order uint64
}

// NewHalfOpen returns one with room for so many.
func NewHalfOpen[T comparable](room int) *HalfOpen[T] {
	return &HalfOpen[T]{max: room, sources: make(map[netip.Addr][]halfOpen[T])}
}

func sourceOf(peer netip.Addr) netip.Addr {
	peer = peer.Unmap().WithZone("")
	if peer.Is6() {
		p, _ := peer.Prefix(64) // 64 is right for all of them
		return p.Addr()
	}
	return peer
}

// Len returns how many there are.
func (h *HalfOpen[T]) Len() int { return h.n }

// Add adds v, which peer has begun. If it is Full then, the Oldest has to go.
func (h *HalfOpen[T]) Add(peer netip.Addr, v T) {
	s := sourceOf(peer)
	h.count++
	h.sources[s] = append(h.sources[s], halfOpen[T]{v, h.count})
	h.n++
}

// Remove takes v out, if it is there.
func (h *HalfOpen[T]) Remove(peer netip.Addr, v T) {
	s := sourceOf(peer)
	all := h.sources[s]
	i := slices.IndexFunc(all, func(o halfOpen[T]) bool { return o.v == v })
	if i < 0 {
		return
	}
	h.n--
	if len(all) == 1 {
		delete(h.sources, s)
		return
	}
	h.sources[s] = slices.Delete(all, i, i+1)
}

// Full reports whether there are more than there is room for.
func (h *HalfOpen[T]) Full() bool { return h.n > h.max }

// Oldest returns the oldest one of the source that has the most, and of those sources the one
// that began first. False: there is none.
func (h *HalfOpen[T]) Oldest() (v T, ok bool) {
	var most []halfOpen[T]
	for _, all := range h.sources {
		if len(all) > len(most) || len(all) == len(most) && all[0].order < most[0].order {
			most = all
		}
	}
	if len(most) == 0 {
		return v, false
	}
	return most[0].v, true
}
