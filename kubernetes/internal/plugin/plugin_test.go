// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"
)

// long is a bound for operations that take milliseconds on a machine with nothing else to do.
const long = time.Minute

// kubelet stands for a kubelet: it takes registrations, and connects to the plugin before it answers. As a real one, it
// refuses a socket that it knows.
type kubelet struct {
	v1beta1.UnimplementedRegistrationServer
	registered chan *v1beta1.RegisterRequest
	refuse     atomic.Int32

	folder string
	known  sync.Map // sockets by name
	again  atomic.Int32
}

func (k *kubelet) Register(ctx context.Context, r *v1beta1.RegisterRequest) (*v1beta1.Empty, error) {
	if _, known := k.known.LoadOrStore(r.Endpoint, true); known {
		k.again.Add(1)
		return nil, status.Error(codes.Unknown, "device plugin already connected: "+r.Endpoint)
	}
	if k.refuse.Add(-1) >= 0 {
		return nil, status.Error(codes.Unavailable, "not yet")
	}
	c, err := grpc.NewClient("unix://"+filepath.Join(k.folder, r.Endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if _, err := v1beta1.NewDevicePluginClient(c).GetDevicePluginOptions(ctx, &v1beta1.Empty{}); err != nil {
		return nil, err
	}
	k.registered <- r
	return &v1beta1.Empty{}, nil
}

// start starts the kubelet as a real one does: whatever is in its folder is removed.
func (k *kubelet) start(t *testing.T, folder string) *grpc.Server {
	t.Helper()
	old, err := filepath.Glob(filepath.Join(folder, "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range old {
		if err := os.Remove(f); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
	}
	k.folder = folder
	l, err := net.Listen("unix", filepath.Join(folder, kubeletSocket))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	v1beta1.RegisterRegistrationServer(s, k)
	go s.Serve(l) //nolint:errcheck // it ends with Stop
	t.Cleanup(s.Stop)
	return s
}

// registration waits for one.
func (k *kubelet) registration(t *testing.T) *v1beta1.RegisterRequest {
	t.Helper()
	select {
	case r := <-k.registered:
		return r
	case <-time.After(long):
		t.Fatal("no registration")
		return nil
	}
}

// folderFor makes a folder of the kubelet's, with a path that is short enough for sockets.
func folderFor(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "plugin")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	return folder
}

// run runs a plugin in the kubelet's folder until the test ends.
func run(t *testing.T, folder string, health func() error) {
	t.Helper()
	p := &Plugin{
		Resource: "rdma/test",
		Devices:  []string{"rdma_test-0", "rdma_test-1", "rdma_test-2"},
		CDIName:  func(d string) string { return "ramjet.dev/rdma=" + d },
		Health:   health,
		Folder:   folder,
		Times:    Times{Call: long, Retry: time.Millisecond, Health: time.Millisecond},
		Log:      slog.New(slog.DiscardHandler),
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// registered starts a kubelet, then a plugin, and returns a client of the plugin once it has registered. The kubelet is
// there first, so the plugin registers once.
func registered(t *testing.T, health func() error) v1beta1.DevicePluginClient {
	t.Helper()
	folder := folderFor(t)
	k := &kubelet{registered: make(chan *v1beta1.RegisterRequest, 8)}
	k.start(t, folder)
	run(t, folder, health)
	return dial(t, folder, k.registration(t).Endpoint)
}

// bounded is a context for calls that take milliseconds.
func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), long)
	t.Cleanup(cancel)
	return ctx
}

func dial(t *testing.T, folder, endpoint string) v1beta1.DevicePluginClient {
	t.Helper()
	c, err := grpc.NewClient("unix://"+filepath.Join(folder, endpoint),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return v1beta1.NewDevicePluginClient(c)
}

func healthy() error { return nil }

// The plugin waits for a kubelet, takes a refusal for a delay, and registers again with one that has restarted. It may
// register twice if it looked for the kubelet's socket just before there was one: its first socket is then gone.
func TestRegister(t *testing.T) {
	folder := folderFor(t)
	run(t, folder, healthy)
	k := &kubelet{registered: make(chan *v1beta1.RegisterRequest, 8)}
	k.refuse.Store(2)
	server := k.start(t, folder)
	for range 3 {
		for {
			r := k.registration(t)
			if r.ResourceName != "rdma/test" || r.Version != v1beta1.Version || strings.Contains(r.Endpoint, "/") {
				t.Errorf("%v", r)
			}
			list, err := k.list(t, r.Endpoint)
			if status.Code(err) == codes.Unavailable {
				continue
			}
			if err != nil || len(list.Devices) != 3 {
				t.Errorf("%v, %v", list, err)
			}
			break
		}
		server.Stop()
		server = k.start(t, folder)
	}
	if n := k.again.Load(); n != 0 {
		t.Errorf("%d registrations of a socket that the kubelet knows", n)
	}
}

// list returns the first list of devices of a plugin's socket.
func (k *kubelet) list(t *testing.T, endpoint string) (*v1beta1.ListAndWatchResponse, error) {
	stream, err := dial(t, k.folder, endpoint).ListAndWatch(bounded(t), &v1beta1.Empty{})
	if err != nil {
		return nil, err
	}
	return stream.Recv()
}

// A plugin that was killed leaves its socket, which goes when it comes back; that of one that runs stays.
func TestStale(t *testing.T) {
	folder := folderFor(t)
	p := &Plugin{Resource: "rdma/test", Folder: folder, Log: slog.New(slog.DiscardHandler)}
	var paths []string
	for _, id := range []string{"0000dead", "0000feed"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: p.socket(id), Net: "unix"})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		if id == "0000dead" {
			l.SetUnlinkOnClose(false)
			l.Close()
		}
		paths = append(paths, p.socket(id))
	}
	p.removeStale()
	for i, gone := range []bool{true, false} {
		if _, err := os.Lstat(paths[i]); os.IsNotExist(err) != gone {
			t.Errorf("%s: %v", paths[i], err)
		}
	}
}

// The kubelet hears when devices become unusable, and when they are usable again.
func TestHealth(t *testing.T) {
	var broken atomic.Bool
	client := registered(t, func() error {
		if broken.Load() {
			return errors.New("no files")
		}
		return nil
	})
	stream, err := client.ListAndWatch(bounded(t), &v1beta1.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{v1beta1.Healthy, v1beta1.Unhealthy, v1beta1.Healthy} {
		list, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range list.Devices {
			if d.Health != want {
				t.Errorf("%s: %s, want %s", d.ID, d.Health, want)
			}
		}
		broken.Store(!broken.Load())
	}
}

func TestAllocate(t *testing.T) {
	client := registered(t, healthy)
	ctx := bounded(t)
	ask := func(devices ...string) *v1beta1.ContainerAllocateRequest {
		return &v1beta1.ContainerAllocateRequest{DevicesIds: devices}
	}
	r, err := client.Allocate(ctx, &v1beta1.AllocateRequest{
		ContainerRequests: []*v1beta1.ContainerAllocateRequest{ask("rdma_test-1"), ask("rdma_test-2", "rdma_test-0")},
	})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"ramjet.dev/rdma=rdma_test-1", "ramjet.dev/rdma=rdma_test-0"} {
		got := r.ContainerResponses[i]
		if len(got.CdiDevices) != 1 || got.CdiDevices[0].Name != want || len(got.Devices) > 0 {
			t.Errorf("%v, want %s alone", got, want)
		}
	}
	for _, bad := range []*v1beta1.ContainerAllocateRequest{ask(), ask("rdma_test-3"), ask("")} {
		_, err := client.Allocate(ctx,
			&v1beta1.AllocateRequest{ContainerRequests: []*v1beta1.ContainerAllocateRequest{bad}})
		if status.Code(err) != codes.InvalidArgument {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

// A folder that is not there is said at once.
func TestFolder(t *testing.T) {
	p := &Plugin{Resource: "a/b", Folder: filepath.Join(t.TempDir(), "not"), Log: slog.New(slog.DiscardHandler)}
	if err := p.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet's folder") {
		t.Errorf("%v", err)
	}
}
