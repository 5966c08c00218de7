// SPDX-License-Identifier: Apache-2.0

package pollwait

import "time"

// Set is the set of descriptors that a thread sleeps at by itself, with poll(2), between the beginning of a wait and
// its end.
type Set struct {
	Event int           // to read, by which a wake-up ends the wait
	Read  []int         // others to read
	Write int           // to write; negative: none
	Limit time.Duration // negative: none
}
