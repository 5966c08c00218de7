// SPDX-License-Identifier: Apache-2.0

package wire

import (
	"fmt"
	"slices"
)

// ANAState is how a controller reaches the namespaces of a group: asymmetric namespace access (base 8.20).
type ANAState uint8

// States.
const (
	ANAOptimized      ANAState = 0x1
	ANANonOptimized   ANAState = 0x2
	ANAInaccessible   ANAState = 0x3
	ANAPersistentLoss ANAState = 0x4
	ANAChange         ANAState = 0xf
)

// String returns the state in the words of Linux's sysfs.
func (s ANAState) String() string {
	switch s {
	case ANAOptimized:
		return "optimized"
	case ANANonOptimized:
		return "non-optimized"
	case ANAInaccessible:
		return "inaccessible"
	case ANAPersistentLoss:
		return "persistent-loss"
	case ANAChange:
		return "change"
	}
	return fmt.Sprintf("state %#x", uint8(s))
}

// Bits of Controller.ANA (ANACAP): the states in which a controller may be, and that a namespace stays in its group.
const (
	ANAReportsAll = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4
	ANAGroupStays = 1 << 6
)

// Sizes of the log page in bytes.
const (
	ANAHeadSize  = 16
	ANAGroupSize = 32 // and 4 for each namespace
)

// ANAGroupsOnly is the bit of CDW10 by which Get Log Page asks for groups without their namespaces (base 5.14.1.12).
const ANAGroupsOnly = 1 << 8

// ANAGroup is a group of namespaces in the log page.
type ANAGroup struct {
	ID         uint32
	Change     uint64 // count of changes; 0: not counted
	State      ANAState
	Namespaces []uint32
}

// AppendANA appends the log page of asymmetric namespace access (base 5.14.1.12).
func AppendANA(b []byte, change uint64, groups []ANAGroup) []byte {
	b = le.AppendUint64(b, change)
	b = le.AppendUint16(b, uint16(len(groups)))
	b = append(b, make([]byte, ANAHeadSize-10)...)
	for _, g := range groups {
		b = le.AppendUint32(le.AppendUint32(b, g.ID), uint32(len(g.Namespaces)))
		b = append(le.AppendUint64(b, g.Change), byte(g.State))
		b = append(b, make([]byte, ANAGroupSize-17)...)
		for _, id := range g.Namespaces {
			b = le.AppendUint32(b, id)
		}
	}
	return b
}

// DecodeANA decodes the log page; false: it ends before its last group does.
func DecodeANA(b []byte) (change uint64, groups []ANAGroup, ok bool) {
	if len(b) < ANAHeadSize {
		return 0, nil, false
	}
	change, n := le.Uint64(b), le.Uint16(b[8:])
	b = b[ANAHeadSize:]
	for range n {
		if len(b) < ANAGroupSize || uint64(le.Uint32(b[4:])) > uint64(len(b)-ANAGroupSize)/4 {
			return 0, nil, false
		}
		g := ANAGroup{ID: le.Uint32(b), Change: le.Uint64(b[8:]), State: ANAState(b[16] & 0xf)}
		ids := b[ANAGroupSize:][:4*le.Uint32(b[4:])]
		for id := range slices.Chunk(ids, 4) {
			g.Namespaces = append(g.Namespaces, le.Uint32(id))
		}
		groups, b = append(groups, g), b[ANAGroupSize+len(ids):]
	}
	return change, groups, true
}
