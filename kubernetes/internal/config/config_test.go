// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDefault(t *testing.T) {
	c, err := Parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Resources) != 3 || c.DRA.Enabled {
		t.Errorf("the default offers %d resources, DRA %v", len(c.Resources), c.DRA.Enabled)
	}
}

func TestParse(t *testing.T) {
	c, err := Parse([]byte("resources:\n- name: example.com/rdma\n  devices: 3\n  environment: {RAMJET_DEVICES: 'shm:'}\nhardware: none\n"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Resources) != 1 || c.Resources[0].Devices != 3 || c.Resources[0].Environment["RAMJET_DEVICES"] != "shm:" ||
		c.Folder != Default().Folder {
		t.Errorf("%+v", c)
	}
}

// Whatever is wrong is named, with its place.
func TestFaults(t *testing.T) {
	for text, want := range map[string]string{
		"resources: 7":                          "line 1",
		"resouces: []":                          "line 1: field resouces not found",
		"resources: []":                         "nothing would be offered",
		"resources: [{name: rdma, devices: 1}]": `resources[0].name: "rdma": DOMAIN/NAME`,
		"resources: [{name: a.kubernetes.io/x, devices: 1}]":                   "belongs to Kubernetes",
		"resources: [{name: a.b/c}]":                                           "resources[0].devices: 0",
		"resources: [{name: a.b/c, devices: 1}, {name: a.b/c, devices: 1001}]": `resources[1].name: "a.b/c" is there twice`,
		"resources: [{name: a.b/c, devices: 1, environment: {LD_PRELOAD: x}}]": "resources[0].environment: LD_PRELOAD",
		"resources: [{name: a.b/c, devices: 1, environment: {'A B': x}}]":      "not the name of a variable",
		"hardware: maybe": `hardware: "maybe": one of`,
		"folder: here":    `folder: "here": an absolute path`,
		"dra: {enabled: true, driver: '-', devices: 1}": "dra.driver",
		"dra: {enabled: true, devices: -1}":             "dra.devices: -1",
		"metrics: 9477":                                 `metrics: "9477": HOST:PORT`,
		"metrics: ':http'":                              `metrics: ":http"`,
	} {
		_, err := Parse([]byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte("hardware: 1x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(path); err == nil || !strings.Contains(err.Error(), path+": hardware") {
		t.Errorf("%v", err)
	}
	if _, err := Read(path + ".not"); !os.IsNotExist(err) {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(""))
	f.Add([]byte("\x00"))
	f.Add([]byte("resources:\n- {name: a.b/c, devices: 1}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := Parse(text); err == nil && c.Check() != nil {
			t.Errorf("accepted, and faulty: %+v", c)
		}
	})
}
