// SPDX-License-Identifier: Apache-2.0

package faults

import (
	"slices"
	"strings"
)

// Kinds is a set of kinds of faults.
type Kinds uint16

func (k *Kinds) add(kind Kind) { *k |= 1 << kind }

// Has reports whether a kind is in the set.
func (k Kinds) Has(kind Kind) bool { return k&(1<<kind) != 0 }

// Without returns the set without a kind.
func (k Kinds) Without(kind Kind) Kinds { return k &^ (1 << kind) }

// Lost reports whether a packet that these faults struck went no further.
func (k Kinds) Lost() bool { return k.Has(Loss) || k.Has(Partition) || k.Has(Down) }

// commentPrefix begins the comments of packets that faults struck.
const commentPrefix = "injected: "

// Comment returns the comment of a packet in a recording that these faults struck; empty: there are none.
func (k Kinds) Comment() string {
	if k == 0 {
		return ""
	}
	var words []string
	for kind := range kinds {
		if k.Has(kind) {
			words = append(words, kind.String())
		}
	}
	return commentPrefix + strings.Join(words, ", ")
}

// OfComment returns the faults that the comment of a packet in a recording names; 0: it is another comment.
func OfComment(comment string) (k Kinds) {
	text, ok := strings.CutPrefix(comment, commentPrefix)
	if !ok {
		return 0
	}
	for word := range strings.SplitSeq(text, ", ") {
		kind := slices.Index(kindNames[:], word)
		if kind < 0 {
			return 0
		}
		k.add(Kind(kind))
	}
	return k
}
