// SPDX-License-Identifier: Apache-2.0

// Package plugin is a device plugin of the kubelet (v1beta1): it registers a resource, tells the kubelet which devices
// there are, and answers with CDI devices when containers get some.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/fsnotify/fsnotify"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/inject"
)

// kubeletSocket is where a kubelet takes registrations, in its folder of device plugins.
const kubeletSocket = "kubelet.sock"

// Times are how long the plugin waits for what.
type Times struct {
	Call   time.Duration // the kubelet's answer to a registration
	Retry  time.Duration // before a registration that failed is tried again
	Health time.Duration // between looks at the health of the devices
}

// DefaultTimes are those of a node.
var DefaultTimes = Times{Call: 10 * time.Second, Retry: 5 * time.Second, Health: 10 * time.Second}

// Plugin serves one resource.
type Plugin struct {
	v1beta1.UnimplementedDevicePluginServer

	Resource string
	Devices  []string                   // their identifiers
	CDIName  func(device string) string // the qualified name of a device
	Health   func() error               // why containers could not use the devices, or nil
	Folder   string                     // the kubelet's folder of device plugins
	Times    Times
	Log      *slog.Logger
}

// Run serves the resource until ctx ends, which is no error. A kubelet that restarts removes the plugins' sockets and
// makes its own anew: the plugin registers again.
func (p *Plugin) Run(ctx context.Context) error {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer watcher.Close()
	if err := watcher.Add(p.Folder); err != nil {
		return fmt.Errorf("%s: %w: is the kubelet's folder mounted?", p.Folder, err)
	}
	for ctx.Err() == nil {
		if err := p.serve(ctx, watcher); err != nil {
			return err
		}
	}
	return nil
}

// serve listens, registers, and serves until the kubelet has restarted or ctx ends. A kubelet that is not there, or
// that refuses, is tried again.
func (p *Plugin) serve(ctx context.Context, watcher *fsnotify.Watcher) error {
	path := filepath.Join(p.Folder, p.socket())
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return err
	}
	server := grpc.NewServer()
	v1beta1.RegisterDevicePluginServer(server, p)
	serving := make(chan error, 1)
	go func() { serving <- server.Serve(l) }()
	defer func() {
		server.Stop()
		<-serving
	}()

	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-watcher.Errors:
			p.Log.Error("watching the kubelet's folder", "err", err)
		case e := <-watcher.Events:
			switch {
			case p.removed():
				p.Log.Info("the kubelet has removed the plugin's socket", "resource", p.Resource)
				return nil
			case filepath.Base(e.Name) == kubeletSocket && e.Has(fsnotify.Create):
				retry.Reset(0)
			}
		case <-retry.C:
			if err := p.register(ctx); err != nil {
				p.Log.Warn("not registered, and tried again", "resource", p.Resource, "err", err)
				retry.Reset(p.Times.Retry)
				continue
			}
			p.Log.Info("registered", "resource", p.Resource, "devices", len(p.Devices))
		}
	}
}

// removed reports whether the plugin's socket is gone. A kubelet that starts empties its folder.
func (p *Plugin) removed() bool {
	_, err := os.Lstat(filepath.Join(p.Folder, p.socket()))
	return errors.Is(err, fs.ErrNotExist)
}

// socket is the name of the plugin's socket in the kubelet's folder.
func (p *Plugin) socket() string { return "ramjet-" + inject.Slug(p.Resource) + ".sock" }

// register tells the kubelet of the resource.
func (p *Plugin) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.Times.Call)
	defer cancel()
	c, err := grpc.NewClient("unix://"+filepath.Join(p.Folder, kubeletSocket), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = v1beta1.NewRegistrationClient(c).Register(ctx, &v1beta1.RegisterRequest{
		Version:      v1beta1.Version,
		Endpoint:     p.socket(),
		ResourceName: p.Resource,
		Options:      &v1beta1.DevicePluginOptions{},
	})
	return err
}

// GetDevicePluginOptions returns that the plugin needs no further calls.
func (p *Plugin) GetDevicePluginOptions(context.Context, *v1beta1.Empty) (*v1beta1.DevicePluginOptions, error) {
	return &v1beta1.DevicePluginOptions{}, nil
}

// ListAndWatch sends the devices, and again when their health changes.
func (p *Plugin) ListAndWatch(_ *v1beta1.Empty, stream grpc.ServerStreamingServer[v1beta1.ListAndWatchResponse]) error {
	tick := time.NewTicker(p.Times.Health)
	defer tick.Stop()
	said := ""
	for {
		health := v1beta1.Healthy
		if err := p.Health(); err != nil {
			health = v1beta1.Unhealthy
			if said != health {
				p.Log.Error("the devices are unhealthy", "resource", p.Resource, "err", err)
			}
		}
		if said != health {
			said = health
			if err := stream.Send(p.list(health)); err != nil {
				return err
			}
		}
		select {
		case <-stream.Context().Done():
			return nil
		case <-tick.C:
		}
	}
}

func (p *Plugin) list(health string) *v1beta1.ListAndWatchResponse {
	var r v1beta1.ListAndWatchResponse
	for _, d := range p.Devices {
		r.Devices = append(r.Devices, &v1beta1.Device{ID: d, Health: health})
	}
	return &r
}

// Allocate returns what containers get: a container has one view of its pod's address, so a second device of the same
// resource adds nothing to the first.
func (p *Plugin) Allocate(_ context.Context, r *v1beta1.AllocateRequest) (*v1beta1.AllocateResponse, error) {
	var all v1beta1.AllocateResponse
	for _, c := range r.ContainerRequests {
		if len(c.DevicesIds) == 0 {
			return nil, status.Error(codes.InvalidArgument, "no device is asked for")
		}
		for _, d := range c.DevicesIds {
			if !slices.Contains(p.Devices, d) {
				return nil, status.Errorf(codes.InvalidArgument, "%s has no device %q", p.Resource, d)
			}
		}
		all.ContainerResponses = append(all.ContainerResponses, &v1beta1.ContainerAllocateResponse{
			CdiDevices: []*v1beta1.CDIDevice{{Name: p.CDIName(slices.Min(c.DevicesIds))}},
		})
	}
	return &all, nil
}
