// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
)

// maxReadable is how many bytes of a datagram the library passes to programs. Its buffer is as long as a message, but
// begins with an address of 64 bytes. Programs read stale memory as the last 32 bytes.
const maxReadable = 224

// maskExtendedErrors clears the capability that would make programs read beyond maxReadable: the last error counters
// of PortCountersExtended are there. Without it tools read errors from PortCounters.
func maskExtendedErrors(d *Datagram) {
	var h mad.Header
	h.Decode(d.MAD[:])
	if h.Class != mad.ClassPerf || h.Attribute != mad.AttrClassPortInfo {
		return
	}
	var c mad.ClassPortInfo
	b := d.MAD[pm.DataOffset:]
	c.Decode(b)
	c.CapMask2 &^= pm.Cap2ExtendedErrors
	c.Append(b[:0])
}
