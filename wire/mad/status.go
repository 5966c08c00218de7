// SPDX-License-Identifier: Apache-2.0

package mad

import "fmt"

// Status is how a request ended: the low byte means the same in all classes, the high byte is a
// class's own (section 13.4.7).
type Status uint16

// Bits of the low byte. Bits 4 to 2 are a code, of which a response has one at most.
const (
	StatusOK                   Status = 0
	StatusBusy                 Status = 0x01 // discarded: ask again
	StatusRedirect             Status = 0x02 // ask where ClassPortInfo says
	StatusUnsupportedVersion   Status = 0x04 // of the base or of the class
	StatusUnsupportedMethod    Status = 0x08
	StatusUnsupportedAttribute Status = 0x0c // the class does not have the attribute, or not with this method
	StatusInvalidField         Status = 0x1c // a value of the attribute, or its modifier, is none
)

// String returns the status in words.
func (s Status) String() string {
	switch s {
	case StatusOK:
		return "OK"
	case StatusBusy:
		return "busy"
	case StatusRedirect:
		return "redirection required"
	case StatusUnsupportedVersion:
		return "version not supported"
	case StatusUnsupportedMethod:
		return "method not supported"
	case StatusUnsupportedAttribute:
		return "method and attribute not supported together"
	case StatusInvalidField:
		return "invalid value in the attribute or its modifier"
	}
	return fmt.Sprintf("status 0x%04x", uint16(s))
}

// The attributes that classes share (section 13.4.8).
const (
	AttrClassPortInfo Attribute = 0x0001
	AttrNotice        Attribute = 0x0002
	AttrInformInfo    Attribute = 0x0003
)
