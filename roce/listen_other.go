// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package roce

import "github.com/ramjet-rdma/ramjet/internal/netio"

// listen binds the port's address, which is one process's at a time here.
func (p *port) listen(plain bool) (err error) {
	p.sock, err = netio.Listen(p.local, netio.Options{Plain: plain})
	return err
}
