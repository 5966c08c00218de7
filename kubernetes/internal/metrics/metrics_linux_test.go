// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/metrics"
	"github.com/ramjet-rdma/ramjet/rdmatest"
)

// kubelet stands for a kubelet: it tells which containers have which devices.
type kubelet struct {
	podresources.UnimplementedPodResourcesListerServer
	pods []*podresources.PodResources
}

func (k *kubelet) List(context.Context, *podresources.ListPodResourcesRequest) (*podresources.ListPodResourcesResponse,
	error) {
	return &podresources.ListPodResourcesResponse{PodResources: k.pods}, nil
}

// start serves in a kubelet's folder, and returns the function that ends it.
func (k *kubelet) start(t *testing.T, folder string) (stop func()) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(folder, "pod-resources"), 0o755); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(folder, "pod-resources", "kubelet.sock"))
	if err != nil {
		t.Fatal(err)
	}
	s := grpc.NewServer()
	podresources.RegisterPodResourcesListerServer(s, k)
	go s.Serve(l) //nolint:errcheck // it ends with Stop
	t.Cleanup(s.Stop)
	return s.Stop
}

// pod returns a pod of the namespace ml whose container has a device by each way.
func pod(name, container, device, claim string) *podresources.PodResources {
	c := &podresources.ContainerResources{Name: container}
	if device != "" {
		c.Devices = []*podresources.ContainerDevices{{ResourceName: "nvidia.com/gpu", DeviceIds: []string{"GPU-1"}},
			{ResourceName: "ramjet.dev/rdma", DeviceIds: []string{device}}}
	}
	if claim != "" {
		c.DynamicResources = []*podresources.DynamicResource{{ClaimName: "rdma", ClaimNamespace: "ml",
			ClaimResources: []*podresources.ClaimResource{{DriverName: "ramjet.dev",
				CdiDevices: []*podresources.CDIDevice{{Name: claim}, {Name: "other.dev/x=y"}}}}}}
	}
	return &podresources.PodResources{Name: name, Namespace: "ml", Containers: []*podresources.ContainerResources{c}}
}

func device(resource, id string) (string, bool) { return id, resource == "ramjet.dev/rdma" }

func claim(cdi string) (string, bool) {
	uid, ok := strings.CutPrefix(cdi, "ramjet.dev/claim=")
	return "claim-" + uid, ok
}

func newPods(t *testing.T, folder string) *metrics.Pods {
	t.Helper()
	p, err := metrics.NewPods(folder, device, claim)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// temporary returns a folder whose path is short enough for a socket's address.
func temporary(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "stat")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// Labels are of devices and of claims; a claim that several share has all their names, and other plugins' devices none.
func TestLabels(t *testing.T) {
	folder := temporary(t)
	k := &kubelet{pods: []*podresources.PodResources{
		pod("b", "main", "rdma-1", "ramjet.dev/claim=7"), pod("a", "main", "", "ramjet.dev/claim=7"),
		pod("none", "main", "", ""),
	}}
	stop := k.start(t, folder)
	p := newPods(t, folder)
	got, err := p.Labels(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 2 {
		t.Errorf("%v", got)
	}
	for name, want := range map[string]string{"rdma-1": "ml b main", "claim-7": "ml a,b main"} {
		var values []string
		for i, l := range got[name] {
			if l.Name != []string{"namespace", "pod", "container"}[i] {
				t.Errorf("%s: label %d is %s", name, i, l.Name)
			}
			values = append(values, l.Value)
		}
		if strings.Join(values, " ") != want {
			t.Errorf("%s: %q, want %q", name, values, want)
		}
	}
	stop()
	if _, err := p.Labels(t.Context()); err == nil || !strings.Contains(err.Error(), "asking the kubelet") {
		t.Errorf("without a kubelet: %v", err)
	}
}

// A scrape has the counters of a process with its pod's labels, also after the program of the node has started anew;
// with no kubelet it fails.
func TestServe(t *testing.T) {
	folder := temporary(t)
	k := &kubelet{pods: []*podresources.PodResources{pod("train-0", "worker", "", "ramjet.dev/claim=7")}}
	stopKubelet := k.start(t, folder)
	root := filepath.Join(folder, "stat")
	before, err := metrics.Listen(root)
	if err != nil {
		t.Fatal(err)
	}
	devices, err := before.Add("claim-7")
	if err != nil {
		t.Fatal(err)
	}
	if err := before.Close(); err != nil {
		t.Fatal(err)
	}
	t.Setenv(metrics.Variable, filepath.Join(devices, filepath.Base(metrics.Socket)))
	dev, _ := rdmatest.Pair(t) // while nobody collects

	s, err := metrics.Listen(root)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx, l, newPods(t, folder).Labels) }()
	scrape := func() (int, string) {
		t.Helper()
		r, err := http.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		b, err := io.ReadAll(r.Body)
		if err != nil {
			t.Fatal(err)
		}
		return r.StatusCode, string(b)
	}
	const want = `ramjet_scrape_success{namespace="ml",pod="train-0",container="worker",pid="`
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, text := scrape()
		if status == http.StatusOK && strings.Contains(text, want) &&
			strings.Contains(text, `device="`+dev.Name()+`"} 1`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("status %d, no %s in\n%s", status, want, text)
		}
	}
	stopKubelet()
	// what was read a moment ago is told once more
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		status, text := scrape()
		if status == http.StatusInternalServerError && strings.Contains(text, "asking the kubelet") {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("status %d without a kubelet: %s", status, text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := s.Remove("claim-7"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(devices); !os.IsNotExist(err) {
		t.Errorf("the folder of a claim that was removed: %v", err)
	}
}
