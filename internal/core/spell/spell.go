// SPDX-License-Identifier: Apache-2.0

// Package spell finds the word that somebody meant.
package spell

import "strings"

// longest limits the time that a word from outside can take.
const longest = 64

// Nearest returns the first of the words that is most like w: at most edits characters have to be inserted, removed,
// replaced or exchanged with their neighbor to make it of w, and at most half of its own. Upper and lower case are the
// same. It returns "" if none is like it.
func Nearest(w string, words []string, edits int) string {
	w = strings.ToLower(w)
	best, least := "", edits+1
	for _, word := range words {
		if d := distance(w, strings.ToLower(word)); d < least && 2*d <= len(word) {
			best, least = word, d
		}
	}
	return best
}

// distance is the number of edits between two words (optimal string alignment).
func distance(a, b string) int {
	if len(a) > longest || len(b) > longest {
		return max(len(a), len(b))
	}
	before, last := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row := make([]int, len(b)+1)
		row[0] = i
		for j := 1; j <= len(b); j++ {
			differ := 1
			if a[i-1] == b[j-1] {
				differ = 0
			}
			row[j] = min(last[j]+1, row[j-1]+1, last[j-1]+differ)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
