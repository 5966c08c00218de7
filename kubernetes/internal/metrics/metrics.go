// SPDX-License-Identifier: Apache-2.0

// Package metrics serves the devices of all pods of a node to Prometheus, with namespace, pod and container as labels.
//
// A pod's processes cannot be seen from outside of its network namespace, so they come to a socket themselves. Each
// device of the node has a folder with one, which its container gets read-only. The kubelet knows which container has
// which device (podresources/v1). So no process can pass for that of another pod, and nothing here needs a privilege.
package metrics

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"

	"github.com/ramjet-rdma/ramjet/collect"
)

// A container's folder, and the variable that names the socket in it.
const (
	ContainerFolder = "/run/ramjet-stat"
	Variable        = collect.Variable
	Socket          = ContainerFolder + "/" + collect.Socket
)

// series is how many series there are of all containers together. Each container may have an equal share.
const series = 100_000

// Sockets are the sockets of a node's devices.
type Sockets struct {
	root      string
	collector *collect.Collector
}

// Listen returns the sockets in a folder of the node. Sockets of devices that have a folder already, as of claims whose
// containers run, are there at once.
func Listen(root string) (*Sockets, error) {
	if err := os.MkdirAll(root, 0o755); err != nil {
		return nil, err
	}
	s := &Sockets{root, collect.New()}
	entries, err := os.ReadDir(root)
	for _, e := range entries {
		if err == nil && e.IsDir() {
			_, err = s.Add(e.Name())
		}
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Add adds a device, and returns its folder.
func (s *Sockets) Add(device string) (folder string, err error) {
	folder = filepath.Join(s.root, device)
	if err := os.Mkdir(folder, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", err
	}
	return folder, s.collector.Listen(device, folder)
}

// Remove removes a device. It is no error if there is none.
func (s *Sockets) Remove(device string) error {
	return errors.Join(s.collector.Remove(device), os.RemoveAll(filepath.Join(s.root, device)))
}

// Close closes the sockets. The folders stay: containers have them.
func (s *Sockets) Close() error { return s.collector.Close() }

// Serve answers scrapes until ctx ends. labels tells whose the devices are.
func (s *Sockets) Serve(ctx context.Context, l net.Listener, labels collect.Labels) error {
	return s.collector.Serve(ctx, l, labels, collect.Options{Series: series})
}
