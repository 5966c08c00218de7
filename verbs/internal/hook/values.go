// SPDX-License-Identifier: Apache-2.0

package hook

import "fmt"

// EventQPBroken is the event of package verbs/driver, beyond the events that programs get.
const EventQPBroken = 0xff

// RegMode is the type of package verbs/driver.
type RegMode uint8

const (
	RegDefault RegMode = iota
	RegPinned
	RegPipelined
	RegDeferred
	RegOnDemand
)

// String returns the mode's name in lower case.
func (m RegMode) String() string {
	if m > RegOnDemand {
		return fmt.Sprintf("mode %d", uint8(m))
	}
	return [...]string{"default", "pinned", "pipelined", "deferred", "on demand"}[m]
}
