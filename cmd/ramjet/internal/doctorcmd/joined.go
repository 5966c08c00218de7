// SPDX-License-Identifier: Apache-2.0

package doctorcmd

import (
	"context"
	"errors"
	"net"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
	"github.com/ramjet-rdma/ramjet/internal/app/doctor"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// joinPatience is how long doctor waits for a fabric to answer, and for its subnet manager.
const joinPatience = 8 * time.Second

// joinedFabric joins the fabric that a device's adapter joins, and leaves it again; nil: the device joins none.
func joinedFabric(ctx context.Context, n kinds.Name) *doctor.JoinedFabric {
	adapter, options := n.Split()
	at, ok := strings.CutPrefix(options, "?join=")
	if !ok {
		return nil
	}
	f := &doctor.JoinedFabric{At: at}
	ctx, cancel := context.WithTimeout(ctx, joinPatience)
	defer cancel()
	if host, _, err := net.SplitHostPort(at); err == nil {
		if f.Addrs, err = net.DefaultResolver.LookupHost(ctx, host); err != nil {
			f.Problem = err.Error() // opening would wait for the name
			return f
		}
	}
	d, err := infiniband.OpenJoined(ctx, at, &infiniband.JoinOptions{Name: adapter})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		f.Problem = "nobody answers within " + joinPatience.String()
	case err != nil:
		f.Problem = strings.TrimPrefix(err.Error(), "infiniband: ")
	default:
		port, err := d.Port(1)
		f.Managed = err == nil && port.State == verbs.PortActive
		d.Close()
	}
	return f
}
