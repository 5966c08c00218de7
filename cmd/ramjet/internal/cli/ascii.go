// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"os"
	"strings"
	"unicode/utf8"
)

// LocaleHasUTF8 reports whether the locale is one with UTF-8, which it is taken for if it is not set.
func LocaleHasUTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} { // in the order in which they count
		if v := strings.ToUpper(os.Getenv(name)); v != "" {
			return strings.Contains(v, "UTF-8") || strings.Contains(v, "UTF8")
		}
	}
	return true
}

// InASCII returns text with an ASCII character for every other one.
func InASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return r
		}
		if a, ok := asciiFor[r]; ok {
			return a
		}
		return '?'
	}, text)
}

var asciiFor = map[rune]rune{'…': '~', 'µ': 'u', '±': '+', '×': 'x', '–': '-', '·': '.', '⋮': ':', '↺': '@',
	'↑': '^', '↓': 'v', '→': '>', '←': '<', '▲': '^', '▼': 'v', '▶': '>', '◀': '<', '✕': 'x', '●': 'o',
	'│': '|', '─': '-', '═': '=', '├': '|', '┤': '|', '┼': '+',
	'┌': '+', '┬': '+', '┐': '+', '└': '+', '┴': '+', '┘': '+',
	'░': '.', '█': '#', '▉': '#', '▊': '#', '▋': '#', '▌': '#', '▍': '#', '▎': '#', '▏': '#'}
