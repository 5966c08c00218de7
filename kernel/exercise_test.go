// SPDX-License-Identifier: Apache-2.0

//go:build linux && (amd64 || arm64)

package kernel_test

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/testkit/exercise"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Connections, datagram services, package rnet and net/http run over these devices.
func TestExercise(t *testing.T) {
	a, b := named(t)
	client, server := open(t, a), open(t, b)
	at := addressOf(t, server)
	const port = 7600
	if err := exercise.Serve(t.Context(), server, at, port); err != nil {
		t.Fatal(err)
	}
	for _, c := range exercise.Tests {
		t.Run(c.Name, func(t *testing.T) {
			if client.Query().Caps&c.Needs != c.Needs {
				t.Skipf("the device has no %v", c.Needs)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
			defer cancel()
			err := c.Run(ctx, client, at, port)
			if errors.Is(err, syscall.EINVAL) && client.Query().Transport == verbs.TransportIWARP {
				t.Logf("once more: siw gives up a connection when it is woken before all of the MPA reply is there: %v",
					err)
				err = c.Run(ctx, client, at, port)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}
