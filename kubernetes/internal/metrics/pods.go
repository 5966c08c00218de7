// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	podresources "k8s.io/kubelet/pkg/apis/podresources/v1"

	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

const (
	// callTime bounds the kubelet's answer, and answerBytes its size: some hundred pods with all their devices.
	callTime    = 5 * time.Second
	answerBytes = 16 << 20
)

// Pods asks a kubelet which containers have which devices.
type Pods struct {
	client podresources.PodResourcesListerClient
	conn   *grpc.ClientConn
	// device returns the name of a device of [Sockets] by its resource, and the identifier that the device plugin gave
	// it; claim by the name of a claim's CDI device. ok is false for devices of others.
	device func(resource, id string) (name string, ok bool)
	claim  func(cdi string) (name string, ok bool)
}

// NewPods returns the pods of the kubelet with a folder.
func NewPods(kubelet string, device func(resource, id string) (name string, ok bool),
	claim func(cdi string) (name string, ok bool)) (*Pods, error) {
	socket := "unix://" + filepath.Join(kubelet, "pod-resources", "kubelet.sock")
	c, err := grpc.NewClient(socket, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(answerBytes)))
	if err != nil {
		return nil, err
	}
	return &Pods{podresources.NewPodResourcesListerClient(c), c, device, claim}, nil
}

// Close ends the connection.
func (p *Pods) Close() error { return p.conn.Close() }

// Labels returns the labels of the containers that have devices, by the devices' names.
func (p *Pods) Labels(ctx context.Context) (map[string][]metric.Label, error) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	r, err := p.client.List(ctx, &podresources.ListPodResourcesRequest{})
	if err != nil {
		return nil, fmt.Errorf("asking the kubelet for the pods' devices: %w", err)
	}
	return p.labels(r), nil
}

// owners are the containers that have a device. It is one, unless several share a claim.
type owners struct{ namespace, pod, container map[string]bool }

func (p *Pods) labels(r *podresources.ListPodResourcesResponse) map[string][]metric.Label {
	all := map[string]owners{}
	for _, pod := range r.GetPodResources() {
		for _, c := range pod.GetContainers() {
			for _, name := range p.names(c) {
				o, ok := all[name]
				if !ok {
					o = owners{map[string]bool{}, map[string]bool{}, map[string]bool{}}
					all[name] = o
				}
				o.namespace[pod.GetNamespace()], o.pod[pod.GetName()], o.container[c.GetName()] = true, true, true
			}
		}
	}
	labels := make(map[string][]metric.Label, len(all))
	for name, o := range all {
		labels[name] = []metric.Label{
			{Name: "namespace", Value: listed(o.namespace)}, {Name: "pod", Value: listed(o.pod)},
			{Name: "container", Value: listed(o.container)},
		}
	}
	return labels
}

// names returns the names of a container's devices.
func (p *Pods) names(c *podresources.ContainerResources) (all []string) {
	for _, d := range c.GetDevices() {
		for _, id := range d.GetDeviceIds() {
			if name, ok := p.device(d.GetResourceName(), id); ok {
				all = append(all, name)
			}
		}
	}
	for _, d := range c.GetDynamicResources() {
		for _, r := range d.GetClaimResources() {
			for _, cdi := range r.GetCdiDevices() {
				if name, ok := p.claim(cdi.GetName()); ok {
					all = append(all, name)
				}
			}
		}
	}
	return all
}

// listed writes the names of a set, in order.
func listed(set map[string]bool) string { return strings.Join(slices.Sorted(maps.Keys(set)), ",") }
