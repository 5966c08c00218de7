// SPDX-License-Identifier: Apache-2.0

package inject

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	oci "github.com/opencontainers/runtime-spec/specs-go"
	"tags.cncf.io/container-device-interface/pkg/cdi"

	"github.com/ramjet-rdma/ramjet/kubernetes/internal/metrics"
)

// files makes a tree with the files that injection needs.
func files(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, f := range needed {
		f = filepath.Join(dir, f)
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, []byte(f), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func injector(t *testing.T) (in *Injector, cdiFolder string) {
	t.Helper()
	cdiFolder = filepath.Join(t.TempDir(), "cdi")
	in, err := New("ramjet.dev", cdiFolder, files(t), filepath.Join(t.TempDir(), "node"), nil)
	if err != nil {
		t.Fatal(err)
	}
	return in, cdiFolder
}

// container returns the specification that a runtime makes of a container that gets devices.
func container(t *testing.T, cdiFolder string, devices ...string) *oci.Spec {
	t.Helper()
	cache, err := cdi.NewCache(cdi.WithSpecDirs(cdiFolder))
	if err != nil {
		t.Fatal(err)
	}
	spec := &oci.Spec{Process: &oci.Process{}}
	if missing, err := cache.InjectDevices(spec, devices...); err != nil {
		t.Fatalf("%v: %v", missing, err)
	}
	return spec
}

func TestDevice(t *testing.T) {
	in, folder := injector(t)
	if err := in.WriteDevices([]Device{{"a", nil}, {"b", map[string]string{"RAMJET_DEVICES": "shm:"}}}); err != nil {
		t.Fatal(err)
	}
	if in.Name("b") != "ramjet.dev/rdma=b" {
		t.Error(in.Name("b"))
	}
	spec := container(t, folder, in.Name("b"))
	for _, e := range []string{"RAMJET_DEVICES=shm:", "LD_LIBRARY_PATH=/opt/ramjet/lib",
		"RAMJET_SYSFS=" + ContainerSysfs} {
		if !slices.Contains(spec.Process.Env, e) {
			t.Errorf("no %s in %q", e, spec.Process.Env)
		}
	}
	if len(spec.Mounts) != 2 {
		t.Fatalf("%d mounts", len(spec.Mounts))
	}
	for _, m := range spec.Mounts {
		if !slices.Contains(m.Options, "ro") {
			t.Errorf("%s can be written to", m.Destination)
		}
		if info, err := os.Stat(m.Source); err != nil || info.Mode().Perm() != 0o755 {
			t.Errorf("%s: %v, %v: other users cannot read it", m.Source, info, err)
		}
	}
	hooks := spec.Hooks.CreateContainer
	if len(hooks) != 1 || !slices.Contains(hooks[0].Env, "RAMJET_DEVICES=shm:") {
		t.Fatalf("%+v", hooks)
	}
	if _, err := os.Stat(hooks[0].Path); err != nil {
		t.Error(err)
	}
	if spec.Linux != nil && len(spec.Linux.Devices) > 0 || spec.Process.Capabilities != nil {
		t.Error("a container gets device files or capabilities")
	}
}

// A container with a claim has it as long as the claim is prepared.
func TestClaim(t *testing.T) {
	in, folder := injector(t)
	const uid = "6a1c9a8e-44b1-4a40-a9b1-1d2f3c4b5a69"
	for range 2 { // the kubelet may ask again
		name, err := in.WriteClaim(uid, nil)
		if err != nil {
			t.Fatal(err)
		}
		if spec := container(t, folder, name); len(spec.Mounts) != 2 {
			t.Errorf("%d mounts", len(spec.Mounts))
		}
	}
	for range 2 {
		if err := in.RemoveClaim(uid); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(folder, "*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if _, err := os.Stat(in.sysfs(claimFolder(uid))); !os.IsNotExist(err) {
		t.Errorf("the claim's folder is left: %v", err)
	}
	for _, bad := range []string{"", "..", "../x", "a/b"} {
		if _, err := in.WriteClaim(bad, nil); err == nil && strings.ContainsAny(bad, "/") {
			t.Errorf("%q is taken for an identifier", bad)
		}
		if err := in.RemoveClaim(bad); err == nil {
			t.Errorf("%q is removed", bad)
		}
	}
}

// A new version of the libraries has a folder of its own, and the old one stays for containers that have it.
func TestInstall(t *testing.T) {
	tree, node := files(t), t.TempDir()
	first, err := install(tree, node)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := install(tree, node); again != first || err != nil {
		t.Errorf("%s, %v: not %s", again, err, first)
	}
	if err := os.WriteFile(filepath.Join(tree, command), []byte("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	second, err := install(tree, node)
	if err != nil || second == first {
		t.Fatalf("%s, %v", second, err)
	}
	if _, err := os.Stat(filepath.Join(first, command)); err != nil {
		t.Error(err)
	}
	if left, _ := filepath.Glob(filepath.Join(node, "new-*")); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	if err := os.Remove(filepath.Join(tree, needed[1])); err != nil {
		t.Fatal(err)
	}
	if _, err := install(tree, node); err == nil || !strings.Contains(err.Error(), needed[1]) {
		t.Errorf("%v", err)
	}
}

// Devices whose files are gone are unhealthy.
func TestCheck(t *testing.T) {
	in, _ := injector(t)
	if err := in.Check(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(in.files); err != nil {
		t.Fatal(err)
	}
	if in.Check() == nil {
		t.Error("healthy without files")
	}
}

// Where metrics are collected, a container has its device's socket, read-only, and a claim's goes with the claim.
func TestMetrics(t *testing.T) {
	root := t.TempDir()
	stat, err := metrics.Listen(filepath.Join(root, "stat"))
	if err != nil {
		t.Fatal(err)
	}
	defer stat.Close()
	in, err := New("ramjet.dev", filepath.Join(root, "cdi"), files(t), filepath.Join(root, "node"), stat)
	if err != nil {
		t.Fatal(err)
	}
	if err := in.WriteDevices([]Device{{"a", nil}}); err != nil {
		t.Fatal(err)
	}
	name, err := in.WriteClaim("7", nil)
	if err != nil {
		t.Fatal(err)
	}
	var folders []string
	for _, device := range []string{in.Name("a"), name} {
		spec := container(t, filepath.Join(root, "cdi"), device)
		if !slices.Contains(spec.Process.Env, metrics.Variable+"="+metrics.Socket) {
			t.Errorf("%s: %q", device, spec.Process.Env)
		}
		for _, m := range spec.Mounts {
			if m.Destination != metrics.ContainerFolder {
				continue
			}
			if folders = append(folders, m.Source); !slices.Contains(m.Options, "ro") {
				t.Errorf("%s can be written to", m.Source)
			}
			if _, err := os.Stat(filepath.Join(m.Source, filepath.Base(metrics.Socket))); err != nil {
				t.Error(err)
			}
		}
	}
	if len(folders) != 2 || folders[0] == folders[1] {
		t.Fatalf("%q", folders)
	}
	if err := in.RemoveClaim("7"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(folders[1]); !os.IsNotExist(err) {
		t.Errorf("of a claim that is removed: %v", err)
	}
	if folder, ok := in.ClaimFolder(name); !ok || folder != filepath.Base(folders[1]) {
		t.Errorf("%q, %v", folder, ok)
	}
	for _, other := range []string{"", "other.dev/claim=7", "ramjet.dev/rdma=a", "7"} {
		if _, ok := in.ClaimFolder(other); ok {
			t.Errorf("%q is taken for a claim", other)
		}
	}
	if _, ok := DeviceFolder("ramjet.dev/rdma", "GPU-1"); ok {
		t.Error("another plugin's device is taken for one")
	}
}
