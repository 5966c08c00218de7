// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// didYouMean returns what to say behind a word that is not known: the words that are like it, or all.
func didYouMean(word string, known []string) string {
	root := &cobra.Command{SuggestionsMinimumDistance: 2} // it knows which words are alike
	for _, k := range known {
		root.AddCommand(&cobra.Command{Use: k, Run: func(*cobra.Command, []string) {}})
	}
	if like := root.SuggestionsFor(word); len(like) > 0 {
		return "did you mean " + strings.Join(like, " or ") + "?"
	}
	return "there are " + strings.Join(known, ", ")
}
