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
	"math/rand/v2"
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

// kubeletSocket is the socket at which a kubelet takes registrations, in its folder of device plugins.
const kubeletSocket = "kubelet.sock"

// Times are the plugin's waits.
type Times struct {
	Call   time.Duration // the kubelet's answer to a registration
	Retry  time.Duration // before a registration that failed is tried again
	Health time.Duration // between looks at the health of the devices
}

// DefaultTimes are the times of a node.
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
	p.removeStale()
	for ctx.Err() == nil {
		if err := p.serve(ctx, watcher); err != nil {
			return err
		}
	}
	return nil
}

// serve listens, registers, and serves until the kubelet has restarted or ctx ends. It returns, too, when the kubelet
// was not there or has refused, after a while: each attempt has a socket of its own. A kubelet that is told of a socket
// to which it is connected refuses it, and from then on never finds out that the plugin behind it ends: it refuses that
// socket for good.
func (p *Plugin) serve(ctx context.Context, watcher *fsnotify.Watcher) error {
	path := p.socket(fmt.Sprintf("%08x", rand.Uint32()))
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

	var retry <-chan time.Time
	at := p.kubelet()
	if err := p.register(ctx, filepath.Base(path)); err != nil {
		p.Log.Warn("not registered, and tried again", "resource", p.Resource, "err", err)
		retry, at = time.After(p.Times.Retry), nil
	} else {
		p.Log.Info("registered", "resource", p.Resource, "devices", len(p.Devices))
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-retry:
			return nil
		case err := <-watcher.Errors:
			p.Log.Error("watching the kubelet's folder", "err", err)
		case e := <-watcher.Events:
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // a kubelet that starts empties its folder
				p.Log.Info("the kubelet has removed the plugin's socket", "resource", p.Resource)
				return nil
			}
			if filepath.Base(e.Name) == kubeletSocket && e.Has(fsnotify.Create) && !same(at, p.kubelet()) {
				return nil
			}
		}
	}
}

// socket is the path of one of the plugin's sockets in the kubelet's folder.
func (p *Plugin) socket(id string) string {
	return filepath.Join(p.Folder, "ramjet-"+inject.Slug(p.Resource)+"-"+id+".sock")
}

// removeStale removes the sockets of plugins for the resource that were killed.
func (p *Plugin) removeStale() {
	old, err := filepath.Glob(p.socket("????????"))
	if err != nil {
		p.Log.Error("looking for sockets of earlier plugins", "err", err)
	}
	for _, path := range old {
		c, err := net.Dial("unix", path)
		if err == nil {
			c.Close()
			p.Log.Warn("another process serves the resource, too", "resource", p.Resource, "socket", path)
			continue
		}
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			p.Log.Error("removing the socket of an earlier plugin", "err", err)
		}
	}
}

// kubelet returns the file of the kubelet's socket; nil: it has none.
func (p *Plugin) kubelet() fs.FileInfo {
	info, err := os.Lstat(filepath.Join(p.Folder, kubeletSocket))
	if err != nil {
		return nil
	}
	return info
}

// same reports whether two sockets are the same one of the same kubelet. A new one may have the inode of the old one.
func same(a, b fs.FileInfo) bool {
	return a != nil && b != nil && os.SameFile(a, b) && a.ModTime().Equal(b.ModTime())
}

// register tells the kubelet of the resource, and of the socket's name.
func (p *Plugin) register(ctx context.Context, socket string) error {
	ctx, cancel := context.WithTimeout(ctx, p.Times.Call)
	defer cancel()
	c, err := grpc.NewClient("unix://"+filepath.Join(p.Folder, kubeletSocket),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = v1beta1.NewRegistrationClient(c).Register(ctx, &v1beta1.RegisterRequest{
		Version:      v1beta1.Version,
		Endpoint:     socket,
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

// Allocate returns the devices and environment that containers get: a container has one view of its pod's address, so a
// second device of the same resource adds nothing to the first.
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
