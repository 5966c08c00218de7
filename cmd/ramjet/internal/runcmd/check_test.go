// SPDX-License-Identifier: Apache-2.0

package runcmd

import (
	"errors"
	"testing"
)

// Options of --check behind a blank are taken for the program: the error says how they are given.
func TestMeantCheck(t *testing.T) {
	notFound := errors.New("not found")
	for _, c := range []struct{ options, program, want string }{
		{"1", "protect", "not found: did you mean --check=protect?"},
		{"1", "off=leak,race", "not found: did you mean --check=off=leak,race?"},
		{"1", "program", "not found"},
		{"1", "", "not found"},
		{"protect", "protect", "not found"},
		{"", "protect", "not found"},
	} {
		if err := meantCheck(notFound, c.options, c.program); err.Error() != c.want || !errors.Is(err, notFound) {
			t.Errorf("--check %q, program %q: %v, not %q", c.options, c.program, err, c.want)
		}
	}
}
