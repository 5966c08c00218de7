// SPDX-License-Identifier: Apache-2.0

package claims

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	core "k8s.io/api/core/v1"
	resource "k8s.io/api/resource/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	dra "k8s.io/kubelet/pkg/apis/dra/v1"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/inject"
)

const long = time.Minute

// claim is one that the scheduler has allocated two devices, of which one is another driver's.
func claim() *resource.ResourceClaim {
	return &resource.ResourceClaim{
		ObjectMeta: meta.ObjectMeta{Namespace: "default", Name: "nic", UID: "0b9f4e51-33ab-41f4-9d4c-7f0f1a2b3c4d"},
		Status: resource.ResourceClaimStatus{Allocation: &resource.AllocationResult{
			Devices: resource.DeviceAllocationResult{Results: []resource.DeviceRequestAllocationResult{
				{Request: "rdma", Driver: "ramjet.dev", Pool: "node-1", Device: "rdma-7"},
				{Request: "gpu", Driver: "gpu.example.com", Pool: "node-1", Device: "gpu-0"},
			}},
		}},
	}
}

// node is a driver that runs, with its surroundings.
type node struct {
	cdi     string
	client  *fake.Clientset
	kubelet dra.DRAPluginClient
}

func start(t *testing.T, objects ...runtime.Object) *node {
	t.Helper()
	root, err := os.MkdirTemp("", "dra") // a path that is short enough for sockets
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	kubelet := filepath.Join(root, "kubelet")
	for _, dir := range []string{"plugins_registry", "plugins/ramjet.dev"} {
		if err := os.MkdirAll(filepath.Join(kubelet, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	files := filepath.Join(root, "files")
	for _, f := range []string{"bin/ramjet", "lib/libibverbs.so.1", "lib/librdmacm.so.1", "lib/libibumad.so.3",
		"lib/libramjet.so", "lib/libramjet-sysfs.so", "lib/libramjet-check.so"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(files, f)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(files, f), nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n := &node{cdi: filepath.Join(root, "cdi"),
		client: fake.NewClientset(append(objects,
			&core.Node{ObjectMeta: meta.ObjectMeta{Name: "node-1", UID: "n"}})...)}
	in, err := inject.New("ramjet.dev", n.cdi, files, filepath.Join(root, "node"), nil)
	if err != nil {
		t.Fatal(err)
	}
	d := &Driver{
		Name: "ramjet.dev", Node: "node-1", Devices: 100, Injector: in, Log: slog.New(slog.DiscardHandler),
		Fatal: func(err error) { t.Error(err) },
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- d.Run(ctx, n.client, kubelet) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	c, err := grpc.NewClient("unix://"+filepath.Join(kubelet, "plugins/ramjet.dev/dra.sock"),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	n.kubelet = dra.NewDRAPluginClient(c)
	return n
}

func (n *node) prepare(t *testing.T, c *resource.ResourceClaim) *dra.NodePrepareResourceResponse {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), long)
	defer cancel()
	r, err := n.kubelet.NodePrepareResources(ctx, &dra.NodePrepareResourcesRequest{
		Claims: []*dra.Claim{{Namespace: c.Namespace, Name: c.Name, Uid: string(c.UID)}},
	}, grpc.WaitForReady(true))
	if err != nil {
		t.Fatal(err)
	}
	return r.Claims[string(c.UID)]
}

// The node's devices are published; a claim is prepared by the kubelet's own protocol, and its specification is gone
// when it is released.
func TestClaim(t *testing.T) {
	n := start(t, claim())
	for range 2 {
		r := n.prepare(t, claim())
		if r.Error != "" || len(r.Devices) != 1 {
			t.Fatalf("%v", r)
		}
		d := r.Devices[0]
		if d.DeviceName != "rdma-7" || d.PoolName != "node-1" || len(d.CdiDeviceIds) != 1 ||
			d.CdiDeviceIds[0] != "ramjet.dev/claim="+string(claim().UID) {
			t.Errorf("%v", d)
		}
	}
	if specs, _ := filepath.Glob(filepath.Join(n.cdi, "*")); len(specs) != 1 {
		t.Errorf("specifications: %v", specs)
	}
	for range 2 {
		r, err := n.kubelet.NodeUnprepareResources(t.Context(), &dra.NodeUnprepareResourcesRequest{
			Claims: []*dra.Claim{{Namespace: "default", Name: "nic", Uid: string(claim().UID)}},
		})
		if err != nil || r.Claims[string(claim().UID)].Error != "" {
			t.Fatalf("%v, %v", r, err)
		}
	}
	if specs, _ := filepath.Glob(filepath.Join(n.cdi, "*")); len(specs) != 0 {
		t.Errorf("left: %v", specs)
	}

	devices := map[string]bool{}
	for end := time.Now().Add(long); len(devices) != 100; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%d devices are published", len(devices))
		}
		all, err := n.client.ResourceV1().ResourceSlices().List(t.Context(), meta.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all.Items {
			for _, d := range s.Spec.Devices {
				devices[d.Name] = true
				if rdma := d.Attributes["rdma"].BoolValue; rdma == nil || !*rdma {
					t.Errorf("%s: %v", d.Name, d.Attributes)
				}
			}
		}
	}
}

// A claim that cannot be prepared says why.
func TestImpossible(t *testing.T) {
	for want, change := range map[string]func(c *resource.ResourceClaim){
		"is of pool": func(c *resource.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Pool = "node-2" },
		"takes no parameters": func(c *resource.ResourceClaim) {
			c.Status.Allocation.Devices.Config = []resource.DeviceAllocationConfiguration{{
				DeviceConfiguration: resource.DeviceConfiguration{Opaque: &resource.OpaqueDeviceConfiguration{
					Driver: "ramjet.dev", Parameters: runtime.RawExtension{Raw: []byte(`{"mtu":9000}`)},
				}},
			}}
		},
	} {
		c := claim()
		change(c)
		n := start(t, c)
		if r := n.prepare(t, c); !strings.Contains(r.Error, want) || !strings.Contains(r.Error, "default/nic") {
			t.Errorf("%q, want %q in it", r.Error, want)
		}
		now := n.claim(t)
		if devices := now.Status.Devices; len(devices) != 1 || devices[0].Device != "rdma-7" ||
			len(devices[0].Conditions) != 1 ||
			devices[0].Conditions[0].Status != meta.ConditionFalse ||
			!strings.Contains(devices[0].Conditions[0].Message, want) {
			t.Errorf("status %+v, want %q in it", devices, want)
		}

		now.Status.Allocation = claim().Status.Allocation // possible now
		if _, err := n.client.ResourceV1().ResourceClaims("default").UpdateStatus(t.Context(), now,
			meta.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		if r := n.prepare(t, now); r.Error != "" {
			t.Fatal(r.Error)
		}
		for _, s := range n.claim(t).Status.Devices {
			if s.Pool == "node-1" && s.Conditions[0].Status != meta.ConditionTrue {
				t.Errorf("%+v", s)
			}
		}
	}
}

// claim returns the claim as the API server has it.
func (n *node) claim(t *testing.T) *resource.ResourceClaim {
	t.Helper()
	c, err := n.client.ResourceV1().ResourceClaims("default").Get(t.Context(), "nic", meta.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// A slice has as many devices as the API takes.
func TestResources(t *testing.T) {
	d := &Driver{Node: "node-1", Devices: 300}
	total := 0
	for _, s := range d.resources().Pools["node-1"].Slices {
		if len(s.Devices) > resource.ResourceSliceMaxDevices {
			t.Errorf("%d devices in a slice", len(s.Devices))
		}
		total += len(s.Devices)
	}
	if total != 300 {
		t.Errorf("%d devices", total)
	}
}
