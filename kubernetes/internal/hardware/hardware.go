// SPDX-License-Identifier: Apache-2.0

// Package hardware tells whether a node has RDMA devices of its kernel.
package hardware

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Devices returns the names of the RDMA devices of the kernel, from the folder where sysfs is mounted. Software
// devices of the kernel (rxe, siw) count: pods that ask by another plugin's names mean them.
func Devices(sysfs string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(sysfs, "class", "infiniband"))
	if errors.Is(err, fs.ErrNotExist) { // the kernel's module is not loaded
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	slices.Sort(names)
	return names, nil
}
