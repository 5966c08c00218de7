// SPDX-License-Identifier: Apache-2.0

package trace

import "time"

// Ethernet describes an Ethernet frame in a recording.
type Ethernet struct {
	At        time.Time // when it was sent or received; between 1970 and 2262
	Direction Direction // 0: unknown
	Comment   string    // shown beside the packet, at most 65,535 bytes; may be empty
}

// maxFrame is more than any Ethernet frame has, in bytes.
const maxFrame = 1 << 16

// WriteEthernet records an Ethernet frame without its FCS, the concatenation of the parts. The caller
// may reuse the parts on return. Its error is as with [Writer.WriteUDP].
func (w *Writer) WriteEthernet(h *Ethernet, parts ...[]byte) error {
	n := 0
	for _, p := range parts {
		n += len(p)
	}
	if n > maxFrame {
		return errFrame
	}
	return w.write(ofEthernet, h.At, h.Direction, h.Comment, n, func(b []byte) []byte {
		for _, p := range parts {
			b = append(b, p...)
		}
		return b
	})
}
