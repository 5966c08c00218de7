// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/cdevices"
)

// describeDevices writes what sysfs would say of the devices of an environment, and returns
// where. The folder stays, as there is nobody to remove it when the program ends; programs
// that see the same devices share one.
func describeDevices(env []string) (string, error) {
	names, set := lookup(env, cdevices.Environment)
	s := cdevices.NewSysfs()
	for i, name := range cdevices.List(names, set) {
		dev, err := ramjet.Open(name)
		if err != nil {
			continue // the program will say so if it matters
		}
		err = s.Add(i, cdevices.Name(name), dev)
		dev.Close()
		if err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	root := filepath.Join(os.TempDir(), fmt.Sprintf("ramjet-sysfs-%d-%x", os.Getuid(), sum[:8]))
	if isOurs(root) {
		return root, nil
	}
	made, err := os.MkdirTemp(os.TempDir(), "ramjet-sysfs-")
	if err != nil {
		return "", err
	}
	if err := s.Write(made); err != nil {
		os.RemoveAll(made)
		return "", err
	}
	if os.Rename(made, root) != nil { // another process was faster, or it is somebody else's
		if !isOurs(root) {
			return made, nil
		}
		os.RemoveAll(made)
	}
	return root, nil
}

// lookup finds the last value of a variable, which is the one that counts.
func lookup(env []string, name string) (value string, set bool) {
	for _, e := range env {
		if v, is := strings.CutPrefix(e, name+"="); is {
			value, set = v, true
		}
	}
	return value, set
}

// preload is LD_PRELOAD with one more library.
func preload(env []string, lib string) string {
	if old, _ := lookup(env, "LD_PRELOAD"); old != "" {
		lib += ":" + old
	}
	return "LD_PRELOAD=" + lib
}
