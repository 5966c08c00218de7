// SPDX-License-Identifier: Apache-2.0

package ibsim

import (
	"github.com/ramjet-rdma/ramjet/wire/mad"
	"github.com/ramjet-rdma/ramjet/wire/mad/pm"
)

// maxReadable is how many bytes of what comes the library hands to programs. It makes a buffer as long as a
// message, and puts the datagram behind an address of 64 bytes. Programs read what lay in memory as the
// other 32.
const maxReadable = 224

// maskExtendedErrors takes out of a datagram what would lead a program to read more: PortCountersExtended has its
// last counters of errors there, and tools take errors from it if the class says that it has them at all.
// Without it they ask for PortCounters.
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
