// SPDX-License-Identifier: Apache-2.0

package runnable

import (
	"testing"
	"time"
)

// TestCrowd holds when a machine with two processors is crowded, by its samples.
func TestCrowd(t *testing.T) {
	var c crowd
	for _, step := range []struct {
		threads, samples int
		crowded          bool
	}{
		{0, 100, false},
		{2, 100, false},
		{12, 1, false},   // a leap
		{4, 1000, false}, // two programs that poll, beside two that compute
		{8, 100, true},
		{3, 100, true}, // they have begun to sleep
		{1, 1, true},
		{1, 100, false},
		{3, 100, false},
	} {
		crowded := c.crowded
		for range step.samples {
			crowded = c.take(step.threads, 2)
		}
		if crowded != step.crowded {
			t.Errorf("crowded after %d samples of %d: %v", step.samples, step.threads, crowded)
		}
	}
}

func TestParseLoad(t *testing.T) {
	for text, want := range map[string]int{
		"0.20 0.18 0.12 3/80 11206\n":       3,
		"21.46 11.19 4.73 24/900 1\n":       24,
		"":                                  -1,
		"0.20 0.18 0.12 3 11206\n":          -1,
		"0.20 0.18 0.12 -3/80 11206\n":      -1,
		"0.20 0.18 0.12 x/80 11206\n":       -1,
		"0 0 0 4294967295/80 1":             maxThreads,
		"0 0 0 99999999999999999999999/1 1": -1,
	} {
		n, ok := parseLoad([]byte(text))
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
}

func TestParseProcessors(t *testing.T) {
	for text, want := range map[string]int{"0\n": 1, "0-1\n": 2, "0-3,8,10-11": 7, "": -1, "3-1": -1, "0-": -1,
		"0,,1": -1, "0-65536": -1} {
		n, ok := parseProcessors(text)
		if !ok {
			n = -1
		}
		if n != want {
			t.Errorf("%q: %d, want %d", text, n, want)
		}
	}
}

// TestCrowded asks the system, again and again.
func TestCrowded(t *testing.T) {
	for end := time.Now().Add(20 * time.Millisecond); time.Now().Before(end); {
		Crowded()
	}
}
