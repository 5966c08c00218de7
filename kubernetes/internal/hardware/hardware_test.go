// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestDevices(t *testing.T) {
	sysfs := t.TempDir()
	if names, err := Devices(sysfs); len(names) != 0 || err != nil {
		t.Errorf("without the class: %v, %v", names, err)
	}
	for _, d := range []string{"mlx5_1", "mlx5_0"} {
		if err := os.MkdirAll(filepath.Join(sysfs, "class", "infiniband", d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if names, err := Devices(sysfs); !slices.Equal(names, []string{"mlx5_0", "mlx5_1"}) || err != nil {
		t.Errorf("%v, %v", names, err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Devices(file); err == nil {
		t.Error("a file is taken for sysfs")
	}
}
