// SPDX-License-Identifier: Apache-2.0

// Package config reads the configuration of ramjet-kubelet, which is the devices that it offers on a node: a YAML file,
// or the defaults.
package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Domain is the domain of Ramjet's own names: the resource, the DRA driver, the vendor of CDI devices.
const Domain = "ramjet.dev"

// MaxDevices bounds the devices of one resource. The kubelet gets all of them in one message, and DRA has 128 devices
// in a ResourceSlice.
const MaxDevices = 1000

// Hardware has the rules for a node with RDMA devices of the kernel.
type Hardware string

// Choices for nodes that have RDMA hardware.
const (
	// HardwareOwnNames offers only the names of Ramjet's own domain, so that a pod that asks for hardware by the name
	// of another plugin is never given software.
	HardwareOwnNames Hardware = "own-names"
	// HardwareBeside offers all names beside the hardware.
	HardwareBeside Hardware = "beside"
	// HardwareNone offers nothing.
	HardwareNone Hardware = "none"
)

// Resource is an extended resource, of which pods ask for a number.
type Resource struct {
	Name    string `yaml:"name"`    // such as rdma/hca_shared_devices_a
	Devices int    `yaml:"devices"` // how many pods may have one at a time
	// Environment is set in containers, beside the variables of the injection: RAMJET_DEVICES chooses other devices
	// than a RoCEv2 device of each of the pod's addresses.
	Environment map[string]string `yaml:"environment"`
}

// DRA is the offer by dynamic resource allocation.
type DRA struct {
	Enabled     bool              `yaml:"enabled"`
	Driver      string            `yaml:"driver"`
	Devices     int               `yaml:"devices"`
	Environment map[string]string `yaml:"environment"`
}

// Config is a node's configuration.
type Config struct {
	Resources []Resource `yaml:"resources"`
	DRA       DRA        `yaml:"dra"`
	Hardware  Hardware   `yaml:"hardware"`
	// Files is the folder of the libraries that this program brings, Folder the folder of the node in which containers
	// get them. Both have absolute paths, and Folder has the same path on the node and here.
	Files   string `yaml:"files"`
	Folder  string `yaml:"folder"`
	CDI     string `yaml:"cdi"`     // the folder of CDI's specifications
	Kubelet string `yaml:"kubelet"` // the kubelet's folder
	// Metrics is the address at which Prometheus reads the devices of all pods, HOST:PORT or :PORT; empty: none.
	Metrics string `yaml:"metrics"`
}

// Default is the configuration without a file: the names that manifests in the field ask for.
func Default() Config {
	return Config{
		Resources: []Resource{
			{Name: Domain + "/rdma", Devices: 100},
			{Name: "rdma/hca_shared_devices_a", Devices: 100},
			{Name: "rdma/rdma_shared_device_ib", Devices: 100},
		},
		DRA:      DRA{Driver: Domain, Devices: 100},
		Hardware: HardwareOwnNames,
		Files:    "/opt/ramjet",
		Folder:   "/var/lib/ramjet",
		CDI:      "/var/run/cdi",
		Kubelet:  "/var/lib/kubelet",
	}
}

// Read reads a file. Fields that it does not name are as in [Default].
func Read(path string) (Config, error) {
	f, err := os.Open(path)
	if err != nil {
		return Config{}, err
	}
	defer f.Close()
	// A ConfigMap has at most 1 MiB.
	text, err := io.ReadAll(io.LimitReader(f, 1<<20))
	if err != nil {
		return Config{}, err
	}
	c, err := Parse(text)
	if err != nil {
		return Config{}, fmt.Errorf("%s: %w", path, err)
	}
	return c, nil
}

// Parse parses the text of a file, and checks it. The error says where each fault is.
func Parse(text []byte) (Config, error) {
	c := Default()
	d := yaml.NewDecoder(bytes.NewReader(text))
	d.KnownFields(true)
	if err := d.Decode(&c); err != nil && !errors.Is(err, io.EOF) {
		return Config{}, err
	}
	return c, c.Check()
}

// Check returns all that is wrong with a configuration.
func (c *Config) Check() error {
	var faults []error
	fault := func(where, format string, a ...any) {
		faults = append(faults, fmt.Errorf("%s: %s", where, fmt.Sprintf(format, a...)))
	}
	names := map[string]bool{}
	for i, r := range c.Resources {
		where := fmt.Sprintf("resources[%d]", i)
		if err := resourceName(r.Name); err != nil {
			fault(where+".name", "%v", err)
		}
		if names[r.Name] {
			fault(where+".name", "%q is there twice", r.Name)
		}
		names[r.Name] = true
		if r.Devices < 1 || r.Devices > MaxDevices {
			fault(where+".devices", "%d: a number from 1 to %d is expected", r.Devices, MaxDevices)
		}
		checkEnvironment(where+".environment", r.Environment, fault)
	}
	if c.DRA.Enabled {
		if e := validation.IsDNS1123Subdomain(c.DRA.Driver); e != nil || len(c.DRA.Driver) > 63 {
			fault("dra.driver", "%q: a domain name of at most 63 characters is expected, such as %s", c.DRA.Driver,
				Domain)
		}
		if c.DRA.Devices < 1 || c.DRA.Devices > MaxDevices {
			fault("dra.devices", "%d: a number from 1 to %d is expected", c.DRA.Devices, MaxDevices)
		}
		checkEnvironment("dra.environment", c.DRA.Environment, fault)
	}
	if len(c.Resources) == 0 && !c.DRA.Enabled {
		fault("resources", "there is none, and dra is not enabled: nothing would be offered")
	}
	if all := []Hardware{HardwareOwnNames, HardwareBeside, HardwareNone}; !slices.Contains(all, c.Hardware) {
		fault("hardware", "%q: one of %v is expected", c.Hardware, all)
	}
	for _, f := range []struct{ where, path string }{
		{"files", c.Files}, {"folder", c.Folder}, {"cdi", c.CDI}, {"kubelet", c.Kubelet},
	} {
		if !filepath.IsAbs(f.path) {
			fault(f.where, "%q: an absolute path is expected", f.path)
		}
	}
	if _, port, err := net.SplitHostPort(c.Metrics); c.Metrics != "" {
		if _, no := strconv.ParseUint(port, 10, 16); err != nil || no != nil {
			fault("metrics", "%q: HOST:PORT or :PORT is expected, such as :9477", c.Metrics)
		}
	}
	return errors.Join(faults...)
}

// resourceName checks the name of an extended resource: a domain that is not Kubernetes' own, and a name.
func resourceName(name string) error {
	domain, _, found := strings.Cut(name, "/")
	if e := validation.IsQualifiedName(name); e != nil || !found {
		return fmt.Errorf("%q: DOMAIN/NAME is expected, such as %s/rdma", name, Domain)
	}
	if domain == "kubernetes.io" || strings.HasSuffix(domain, ".kubernetes.io") {
		return fmt.Errorf("%q: the domain belongs to Kubernetes", name)
	}
	return nil
}

func checkEnvironment(where string, env map[string]string, fault func(where, format string, a ...any)) {
	for name := range env {
		switch {
		case name == "" || strings.ContainsAny(name, "= \x00"):
			fault(where, "%q is not the name of a variable", name)
		case slices.Contains(Injected, name):
			fault(where, "%s is set by the injection itself", name)
		}
	}
}

// Injected are the variables that injection sets.
var Injected = []string{"LD_LIBRARY_PATH", "LD_PRELOAD", "RAMJET_LIBS", "RAMJET_SYSFS", "RAMJET_STAT_COLLECTOR"}

// Beside returns the configuration for a node that has RDMA devices of its own, if there are any.
func (c Config) Beside(devices []string) Config {
	if len(devices) == 0 || c.Hardware == HardwareBeside {
		return c
	}
	own := func(r Resource) bool { return strings.HasPrefix(r.Name, Domain+"/") }
	var kept []Resource
	for _, r := range c.Resources {
		if c.Hardware == HardwareOwnNames && own(r) {
			kept = append(kept, r)
		}
	}
	c.Resources = kept
	c.DRA.Enabled = c.DRA.Enabled && c.Hardware == HardwareOwnNames
	return c
}
