// SPDX-License-Identifier: Apache-2.0

package roce1

import "github.com/ramjet-rdma/ramjet/trace"

// Options are optional parameters of Open; nil stands for the zero value.
type Options struct {
	Trace *trace.Writer // receives every frame in both directions
	Slots int           // frames that the receive ring holds; 0: 1024
}
