// SPDX-License-Identifier: Apache-2.0

package kinds

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/trace"
	"github.com/ramjet-rdma/ramjet/verbs"
)

// Devices of the kernel are those of sysfs, and only programs that name the package open them.
func TestKernelRow(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"mlx5_0/ports/1/state": "4: ACTIVE\n", "mlx5_0/ports/1/gids/0": "fe80:0000:0000:0000:0202:03ff:fe04:0506\n", "mlx5_0/ports/1/gid_attrs/ndevs/0": "nowhere0\n",
		"rxe0/ports/1/state": "1: DOWN\n",
	} {
		path := filepath.Join(dir, "class/infiniband", name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	k := kernelNaming{dir}
	found, err := k.Local()
	if err != nil || len(found) != 2 || found[0].Address != "mlx5_0" || !found[0].Up || found[0].GID[0] != 0xfe || found[0].NetDev != "nowhere0" || found[1].Address != "rxe0" || found[1].Up {
		t.Errorf("%+v, %v", found, err)
	}
	if spare, err := k.Spare(1); err != nil || len(spare) != 1 || spare[0] != "mlx5_0" {
		t.Errorf("%q, %v", spare, err)
	}
	if _, err := k.Spare(2); err == nil || !strings.Contains(err.Error(), "type rxe") {
		t.Errorf("spare devices: %v", err)
	}
	if found, err := (kernelNaming{t.TempDir()}).Local(); err != nil || len(found) != 0 {
		t.Errorf("without RDMA: %v, %v", found, err)
	}

	if _, err := Open("kernel:mlx5_0", &Options{}); !errors.Is(err, verbs.ErrNotSupported) || !strings.Contains(err.Error(), "ramjet.WithKernel(kernel.Open)") {
		t.Errorf("without the package: %v", err)
	}
	if _, err := Open("kernel:mlx5_0", &Options{Trace: &trace.Writer{}}); !errors.Is(err, verbs.ErrNotSupported) {
		t.Errorf("with a recording: %v", err)
	}
	asked, failed := "", errors.New("no such device")
	_, err = Open("kernel:mlx5_0", &Options{Kernel: func(name string) (*verbs.Device, error) {
		asked = name
		return nil, failed
	}})
	if asked != "mlx5_0" || !errors.Is(err, failed) {
		t.Errorf("asked for %q: %v", asked, err)
	}
}
