// SPDX-License-Identifier: Apache-2.0

// Package inject describes the files and environment of containers, as specifications of CDI (the Container Device
// Interface): a read-only folder with Ramjet's libraries, the environment that makes programs load them, and a folder
// that stands for /sys/class/infiniband. A hook writes the latter when the container has its network namespace, as the
// device is that of the pod's own address. Nothing of it needs a device file, a capability or a privilege in the
// container.
package inject

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tags.cncf.io/container-device-interface/pkg/cdi"
	"tags.cncf.io/container-device-interface/pkg/parser"
	specs "tags.cncf.io/container-device-interface/specs-go"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/metrics"
)

// Paths in a container.
const (
	ContainerFiles = "/opt/ramjet"
	ContainerSysfs = "/run/ramjet-sysfs"
)

// Class is the class of CDI devices that a device plugin hands out; each claim has a device of class claimClass.
const (
	Class      = "rdma"
	claimClass = "claim"
)

// hookSeconds bounds the hook. A container waits for it.
const hookSeconds = 10

// Device is a device of one container at a time.
type Device struct {
	Name        string            // letters, digits, and -._: within
	Environment map[string]string // the variables of its containers, beside the common ones
}

// Injector writes specifications.
type Injector struct {
	vendor string
	folder string // the node's folder: the libraries and the devices' folders are in it
	files  string // where in it the libraries are
	cache  *cdi.Cache
	stat   *metrics.Sockets // nil: nobody collects metrics
}

// New returns an injector of a vendor's devices. cdiFolder is the container runtime's folder of specifications.
// files is a tree with bin/ramjet and lib/*.so*, which is installed below folder, a folder of the node that has the
// same path here. stat takes the metrics of containers; nil: nobody does.
func New(vendor, cdiFolder, files, folder string, stat *metrics.Sockets) (*Injector, error) {
	if err := parser.ValidateVendorName(vendor); err != nil {
		return nil, err
	}
	installed, err := install(files, folder)
	if err != nil {
		return nil, fmt.Errorf("the libraries of %s: %w", files, err)
	}
	if err := os.MkdirAll(cdiFolder, 0o755); err != nil {
		return nil, err
	}
	cache, err := cdi.NewCache(cdi.WithSpecDirs(cdiFolder), cdi.WithAutoRefresh(false))
	if err != nil {
		return nil, err
	}
	return &Injector{vendor, folder, installed, cache, stat}, nil
}

// Check returns an error if containers would lack something that they need.
func (in *Injector) Check() error {
	for _, f := range needed {
		if _, err := os.Stat(filepath.Join(in.files, f)); err != nil {
			return err
		}
	}
	return nil
}

// WriteDevices writes the specification of a device plugin's devices, in place of the one that there was.
func (in *Injector) WriteDevices(devices []Device) error {
	spec := in.spec(Class)
	for _, d := range devices {
		edits, err := in.edits(d)
		if err != nil {
			return err
		}
		spec.Devices = append(spec.Devices, specs.Device{Name: d.Name, ContainerEdits: edits})
	}
	return in.write(spec, cdi.GenerateSpecName(in.vendor, Class))
}

// Name returns the qualified name of a device plugin's device.
func (in *Injector) Name(device string) string { return parser.QualifiedName(in.vendor, Class, device) }

// WriteClaim writes the specification of a claim's device, and returns its qualified name. uid is the claim's.
func (in *Injector) WriteClaim(uid string, environment map[string]string) (string, error) {
	spec := in.spec(claimClass)
	edits, err := in.edits(Device{claimFolder(uid), environment})
	if err != nil {
		return "", err
	}
	spec.Devices = []specs.Device{{Name: uid, ContainerEdits: edits}}
	if err := in.write(spec, cdi.GenerateTransientSpecName(in.vendor, claimClass, uid)); err != nil {
		return "", err
	}
	return parser.QualifiedName(in.vendor, claimClass, uid), nil
}

// RemoveClaim removes the specification that WriteClaim wrote. It is no error if there is nothing.
func (in *Injector) RemoveClaim(uid string) error {
	if err := parser.ValidateDeviceName(uid); err != nil {
		return err
	}
	err := in.cache.RemoveSpec(cdi.GenerateTransientSpecName(in.vendor, claimClass, uid))
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if in.stat != nil {
		err = errors.Join(err, in.stat.Remove(claimFolder(uid)))
	}
	return errors.Join(err, os.RemoveAll(in.sysfs(claimFolder(uid))))
}

func claimFolder(uid string) string { return claimClass + "-" + uid }

// DeviceFolder returns the name of the folders of a device plugin's device, by its resource and its identifier. ok is
// false for that of another plugin.
func DeviceFolder(resource, id string) (name string, ok bool) {
	return id, strings.HasPrefix(id, Slug(resource)+"-")
}

// ClaimFolder returns the name of the folders of a claim, by that of its CDI device. ok is false for another's device.
func (in *Injector) ClaimFolder(qualified string) (name string, ok bool) {
	vendor, class, uid, err := parser.ParseQualifiedName(qualified)
	return claimFolder(uid), err == nil && vendor == in.vendor && class == claimClass
}

// sysfs is the folder of the node that stands for a device's /sys.
func (in *Injector) sysfs(device string) string { return filepath.Join(in.folder, "devices", device) }

// spec returns a specification without devices. The part for all its devices applies once to a container, however many
// of them it has.
func (in *Injector) spec(class string) *specs.Spec {
	lib := ContainerFiles + "/lib"
	return &specs.Spec{
		Kind: in.vendor + "/" + class,
		ContainerEdits: specs.ContainerEdits{
			Env: []string{
				"LD_LIBRARY_PATH=" + lib,
				"LD_PRELOAD=" + lib + "/libramjet-sysfs.so",
				"RAMJET_LIBS=" + lib,
				"RAMJET_SYSFS=" + ContainerSysfs,
			},
			Mounts: []*specs.Mount{readOnly(in.files, ContainerFiles)},
		},
	}
}

// edits are the edits of one device.
func (in *Injector) edits(d Device) (specs.ContainerEdits, error) {
	if err := parser.ValidateDeviceName(d.Name); err != nil {
		return specs.ContainerEdits{}, err
	}
	sysfs := in.sysfs(d.Name)
	if err := os.MkdirAll(sysfs, 0o755); err != nil {
		return specs.ContainerEdits{}, err
	}
	var env []string
	for _, name := range slices.Sorted(maps.Keys(d.Environment)) {
		env = append(env, name+"="+d.Environment[name])
	}
	mounts := []*specs.Mount{readOnly(sysfs, ContainerSysfs)}
	containerEnv := env
	if in.stat != nil {
		folder, err := in.stat.Add(d.Name)
		if err != nil {
			return specs.ContainerEdits{}, err
		}
		mounts = append(mounts, readOnly(folder, metrics.ContainerFolder))
		containerEnv = append(slices.Clone(env), metrics.Variable+"="+metrics.Socket)
	}
	timeout := hookSeconds
	return specs.ContainerEdits{
		Env:    containerEnv,
		Mounts: mounts,
		Hooks: []*specs.Hook{{
			HookName: cdi.CreateContainerHook,
			Path:     filepath.Join(in.files, command),
			Args:     []string{"ramjet", "write-sysfs", "--command", ContainerFiles + "/" + command, sysfs},
			Env:      env,
			Timeout:  &timeout,
		}},
	}, nil
}

func readOnly(from, to string) *specs.Mount {
	return &specs.Mount{HostPath: from, ContainerPath: to, Options: []string{"ro", "nosuid", "nodev", "bind"}}
}

func (in *Injector) write(spec *specs.Spec, name string) error {
	version, err := specs.MinimumRequiredVersion(spec)
	if err != nil {
		return err
	}
	spec.Version = version
	return in.cache.WriteSpec(spec, name)
}

// Slug returns a resource's name as a part of the names of files and CDI devices.
func Slug(resource string) string { return strings.ReplaceAll(resource, "/", "_") }
