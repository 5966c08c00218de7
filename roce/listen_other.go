// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package roce

import (
	"github.com/ramjet-rdma/ramjet/internal/system/netio"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// listen binds the port's address, which belongs to one process at a time here.
func (p *port) listen(plain bool) (err error) {
	p.sock, err = netio.Listen(p.local, netio.Options{Plain: plain})
	return err
}

// joinBeside makes the port one more of a group, which there is none of here.
func (p *port) joinBeside(*port) error { return verbs.ErrNotSupported }
