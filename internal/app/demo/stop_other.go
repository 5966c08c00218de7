// SPDX-License-Identifier: Apache-2.0

//go:build !linux

package demo

import (
	"context"
	"os/exec"

	"github.com/ramjet-rdma/ramjet/verbs"
)

func bound(*exec.Cmd) {}

func (p *peerProcess) stop(context.Context) (goOn func(), err error) {
	return nil, verbs.ErrNotSupported
}

// processorTime is not known: only Linux is asked.
func (p *peerProcess) processorTime() (t processorTime) { return t }
