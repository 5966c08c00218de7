// SPDX-License-Identifier: Apache-2.0

package umad

import (
	"context"

	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/internal/hook"
)

// These are MADDevice and MADAgent of package verbs/driver, which imports this one (decision 31).
type (
	deviceDriver = interface {
		OpenMAD(port int, qp verbs.QPN, spec Spec) (agentDriver, error)
	}

	agentDriver = interface {
		Send(to Path, mad []byte) error
		Recv(ctx context.Context, mad []byte) (n int, from Path, err error)
		Transactions() uint32
		Claim(service, mask uint64) error
		Release(service uint64)
		IDs() (base, mask uint32)
		Refused(ctx context.Context, to verbs.AHAttr) error
		Close() error
	}
)

var (
	deviceOf = hook.DriverOf.(func(*verbs.Device) any)
	use      = hook.Use.(func(d *verbs.Device, op string) (end func(op string, destroy func() error) error, err error))
	wrap     = hook.Wrap.(func(op string, err error) error)
)

func opErr(op string, err error, detail string) error {
	return &verbs.OpError{Op: op, Err: err, Detail: detail}
}
