// SPDX-License-Identifier: Apache-2.0

package softdev

import (
	"net/netip"
	"slices"
)

// HalfOpen keeps connections that peers have begun and not continued, such as silent links. Its room is limited, and a
// peer that begins more than others cannot keep the others out: when there are too many, the source with the most of
// them loses its oldest.
//
// A source is an IPv4 address, or the 64 bits of an IPv6 address that name its subnet, because each
// host there has all the rest.
type HalfOpen[T comparable] struct {
	max     int
	n       int
	count   uint64 // total number ever added
	sources map[netip.Addr][]halfOpen[T]
}

type halfOpen[T comparable] struct {
	v     T
	order uint64
}

// NewHalfOpen returns an empty HalfOpen with the given room.
func NewHalfOpen[T comparable](room int) *HalfOpen[T] {
	return &HalfOpen[T]{max: room, sources: make(map[netip.Addr][]halfOpen[T])}
}

func sourceOf(peer netip.Addr) netip.Addr {
	peer = peer.Unmap().WithZone("")
	if peer.Is6() {
		p, _ := peer.Prefix(64) // never fails for 64 bits
		return p.Addr()
	}
	return peer
}

// Len returns the number of elements.
func (h *HalfOpen[T]) Len() int { return h.n }

// Add adds v, begun by peer. If h is then Full, the Oldest has to go.
func (h *HalfOpen[T]) Add(peer netip.Addr, v T) {
	s := sourceOf(peer)
	h.count++
	h.sources[s] = append(h.sources[s], halfOpen[T]{v, h.count})
	h.n++
}

// Remove removes v, if it is there.
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

// Any reports whether f holds for an element that a peer's source has begun.
func (h *HalfOpen[T]) Any(peer netip.Addr, f func(T) bool) bool {
	return slices.ContainsFunc(h.sources[sourceOf(peer)], func(o halfOpen[T]) bool { return f(o.v) })
}

// Full reports whether there are more elements than room.
func (h *HalfOpen[T]) Full() bool { return h.n > h.max }

// Earliest returns the element that began first. It returns false if there is none.
func (h *HalfOpen[T]) Earliest() (v T, ok bool) {
	var first halfOpen[T]
	for _, all := range h.sources {
		if first.order == 0 || all[0].order < first.order {
			first = all[0]
		}
	}
	return first.v, first.order > 0
}

// Latest returns the last element of the source that has the most, and among such sources the one
// that began last. It returns false if there is none.
func (h *HalfOpen[T]) Latest() (v T, ok bool) {
	most, last := 0, halfOpen[T]{}
	for _, all := range h.sources {
		if end := all[len(all)-1]; len(all) > most || len(all) == most && end.order > last.order {
			most, last = len(all), end
		}
	}
	return last.v, most > 0
}

// Oldest returns the oldest element of the source that has the most, and among such sources the one
// that began first. It returns false if there is none.
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
