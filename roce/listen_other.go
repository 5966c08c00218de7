// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package roce

import "github.com/ramjet-rdma/ramjet/internal/system/netio"

// listen binds the port's address, which belongs to one process at a time here.
func (p *port) listen(plain bool) (err error) {
	p.sock, err = netio.Listen(p.local, netio.Options{Plain: plain})
	return err
}
