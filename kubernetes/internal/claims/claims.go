// SPDX-License-Identifier: Apache-2.0

// Package claims is a driver of dynamic resource allocation (resource.k8s.io/v1): it publishes a node's devices as
// ResourceSlices, and prepares and removes the devices of a claim's containers.
package claims

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	resource "k8s.io/api/resource/v1"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/inject"
)

// Driver prepares claims on one node.
type Driver struct {
	Name        string // the driver's, such as ramjet.dev
	Node        string
	Devices     int // how many the node offers
	Environment map[string]string
	Injector    *inject.Injector
	Log         *slog.Logger
	// Fatal is called for an error in the background that trying again does not mend.
	Fatal func(error)

	client kubernetes.Interface
}

// Run publishes the devices and serves the kubelet, whose folder is given, until ctx ends.
func (d *Driver) Run(ctx context.Context, client kubernetes.Interface, kubelet string) error {
	d.client = client
	h, err := kubeletplugin.Start(ctx, d,
		kubeletplugin.KubeClient(client),
		kubeletplugin.NodeName(d.Node),
		kubeletplugin.DriverName(d.Name),
		kubeletplugin.RegistrarDirectoryPath(filepath.Join(kubelet, "plugins_registry")),
		kubeletplugin.PluginDataDirectoryPath(filepath.Join(kubelet, "plugins", d.Name)),
		kubeletplugin.HealthService(false))
	if err != nil {
		return err
	}
	defer h.Stop()
	if err := h.PublishResources(ctx, d.resources()); err != nil && ctx.Err() == nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// sliceDevices is how many devices a ResourceSlice takes.
const sliceDevices = resource.ResourceSliceMaxDevices

// resources are the resources that the node offers: one pool with the node's name.
func (d *Driver) resources() resourceslice.DriverResources {
	var all []resource.Device
	for i := range d.Devices {
		all = append(all, resource.Device{Name: fmt.Sprintf("rdma-%d", i), Attributes: attributes()})
	}
	pool := resourceslice.Pool{}
	for some := range slices.Chunk(all, sliceDevices) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: some})
	}
	return resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{d.Node: pool}}
}

// attributes are the attributes that selectors of claims can ask for. The one of another domain is the attribute by
// which network drivers in the field mark devices that have RDMA.
func attributes() map[resource.QualifiedName]resource.DeviceAttribute {
	yes, kind := true, "roce"
	return map[resource.QualifiedName]resource.DeviceAttribute{
		"rdma":         {BoolValue: &yes},
		"software":     {BoolValue: &yes},
		"kind":         {StringValue: &kind},
		"dra.net/rdma": {BoolValue: &yes},
	}
}

// PrepareResourceClaims writes the CDI specification of each claim's containers. The same claim may be prepared several
// times.
func (d *Driver) PrepareResourceClaims(ctx context.Context,
	claims []*resource.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	all := make(map[types.UID]kubeletplugin.PrepareResult, len(claims))
	for _, c := range claims {
		devices, err := d.prepare(c)
		if err != nil {
			d.Log.Error("a claim is not prepared", "namespace", c.Namespace, "claim", c.Name, "err", err)
		}
		if err != nil || d.refused(c) {
			if err := d.publish(ctx, c, err); err != nil {
				d.Log.Error("a claim's status is not up to date", "namespace", c.Namespace, "claim", c.Name, "err", err)
			}
		}
		if err != nil {
			err = fmt.Errorf("claim %s/%s: %w", c.Namespace, c.Name, err)
		}
		all[c.UID] = kubeletplugin.PrepareResult{Err: err, Devices: devices}
	}
	return all, nil
}

// prepare prepares one claim. Its containers get the claim's one CDI device, by whichever of its requests they name.
func (d *Driver) prepare(c *resource.ResourceClaim) ([]kubeletplugin.Device, error) {
	if c.Status.Allocation == nil {
		return nil, errors.New("it is not allocated")
	}
	ours := d.ours(c)
	for _, r := range ours {
		if r.Pool != d.Node {
			return nil, fmt.Errorf("device %s is of pool %q, and this is node %q", r.Device, r.Pool, d.Node)
		}
	}
	for _, cfg := range c.Status.Allocation.Devices.Config {
		if o := cfg.Opaque; o != nil && o.Driver == d.Name {
			return nil, fmt.Errorf("%s takes no parameters, and the claim or its class has some", d.Name)
		}
	}
	if len(ours) == 0 {
		return nil, nil
	}
	name, err := d.Injector.WriteClaim(string(c.UID), d.Environment)
	if err != nil {
		return nil, err
	}
	var devices []kubeletplugin.Device
	for _, r := range ours {
		devices = append(devices, kubeletplugin.Device{
			Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device, CDIDeviceIDs: []string{name},
		})
	}
	return devices, nil
}

// ours returns the devices of a claim that are this driver's.
func (d *Driver) ours(c *resource.ResourceClaim) (ours []resource.DeviceRequestAllocationResult) {
	if c.Status.Allocation == nil {
		return nil
	}
	for _, r := range c.Status.Allocation.Devices.Results {
		if r.Driver == d.Name {
			ours = append(ours, r)
		}
	}
	return ours
}

// The condition of a claim's device, and how long the API server may take for it.
const (
	conditionReady = "Ready"
	statusTime     = 5 * time.Second
)

// refused reports whether a claim's status says that its devices could not be prepared.
func (d *Driver) refused(c *resource.ResourceClaim) bool {
	return slices.ContainsFunc(c.Status.Devices, func(s resource.AllocatedDeviceStatus) bool {
		return s.Driver == d.Name && apimeta.IsStatusConditionFalse(s.Conditions, conditionReady)
	})
}

// publish says in a claim's status whether its devices are prepared, and why not. The status goes with the allocation.
func (d *Driver) publish(ctx context.Context, c *resource.ResourceClaim, refused error) error {
	ready := meta.Condition{Type: conditionReady, Status: meta.ConditionTrue, Reason: "Prepared"}
	if refused != nil {
		ready.Status, ready.Reason, ready.Message = meta.ConditionFalse, "NotPrepared", refused.Error()
	}
	ctx, cancel := context.WithTimeout(ctx, statusTime)
	defer cancel()
	claims := d.client.ResourceV1().ResourceClaims(c.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		now, err := claims.Get(ctx, c.Name, meta.GetOptions{})
		if err != nil || now.UID != c.UID {
			return err
		}
		changed := false
		for _, r := range d.ours(now) {
			is := func(s resource.AllocatedDeviceStatus) bool {
				return s.Driver == r.Driver && s.Pool == r.Pool && s.Device == r.Device
			}
			i := slices.IndexFunc(now.Status.Devices, is)
			if i < 0 {
				i = len(now.Status.Devices)
				now.Status.Devices = append(now.Status.Devices,
					resource.AllocatedDeviceStatus{Driver: r.Driver, Pool: r.Pool,
						Device: r.Device})
			}
			changed = apimeta.SetStatusCondition(&now.Status.Devices[i].Conditions, ready) || changed
		}
		if changed { // the kubelet tries again and again
			_, err = claims.UpdateStatus(ctx, now, meta.UpdateOptions{})
		}
		return err
	})
}

// UnprepareResourceClaims removes the files that PrepareResourceClaims wrote, perhaps in an earlier process.
func (d *Driver) UnprepareResourceClaims(_ context.Context,
	claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	all := make(map[types.UID]error, len(claims))
	for _, c := range claims {
		all[c.UID] = d.Injector.RemoveClaim(string(c.UID))
	}
	return all, nil
}

// HandleError takes errors of the background, such as ResourceSlices that cannot be published.
func (d *Driver) HandleError(_ context.Context, err error, msg string) {
	d.Log.Error(msg, "err", err)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		d.Fatal(fmt.Errorf("%s: %w", msg, err))
	}
}

// WatchHealthStatus is not called: a device here is files and an address, and has no health of its own.
func (d *Driver) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

var _ kubeletplugin.DRAPlugin = (*Driver)(nil)
