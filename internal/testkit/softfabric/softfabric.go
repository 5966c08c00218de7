// SPDX-License-Identifier: Apache-2.0

// Package softfabric runs InfiniBand fabrics for tests.
package softfabric

import (
	"context"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/infiniband"
)

// upTime is how long a fabric may take until it is up: far more than it needs.
const upTime = time.Minute

// Start runs a fabric of a generated shape until the test ends, and waits until it is up.
func Start(t testing.TB, shape string) *infiniband.Fabric {
	t.Helper()
	f := Generate(t, shape, nil)
	AwaitActive(t, f)
	return f
}

// Generate runs one with options, and does not wait.
func Generate(t testing.TB, shape string, o *infiniband.FabricOptions) *infiniband.Fabric {
	t.Helper()
	f, err := infiniband.GenerateFabric(shape, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(f.Close)
	return f
}

// AwaitActive waits until all ports with a cable are active.
func AwaitActive(t testing.TB, f *infiniband.Fabric) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), upTime)
	defer cancel()
	if err := f.AwaitActive(ctx); err != nil {
		t.Fatal(err)
	}
}

// Serve lets programs of other processes join a fabric by a name, until the test ends.
func Serve(t testing.TB, f *infiniband.Fabric, name string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	if err := f.Serve(ctx, name); err != nil {
		t.Fatal(err)
	}
}
