// SPDX-License-Identifier: Apache-2.0

package roce1

// NewFrame returns the frame of a SEND to queue pair 0x1234.
var NewFrame = newFrame

// LinkLocal returns the link-local GID of an Ethernet address.
var LinkLocal = linkLocal
