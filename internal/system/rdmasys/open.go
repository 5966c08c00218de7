// SPDX-License-Identifier: Apache-2.0

package rdmasys

import "github.com/ramjet-rdma/ramjet/verbs"

// Open opens one of the kernel's devices by its name. Package kernel sets it where a program imports that package,
// blank or by name; nil: the program is built without RDMA hardware.
var Open func(name string) (*verbs.Device, error)
