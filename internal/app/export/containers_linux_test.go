// SPDX-License-Identifier: Apache-2.0

package export

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
	"github.com/ramjet-rdma/ramjet/internal/testkit/loopback"
	"github.com/ramjet-rdma/ramjet/roce"
	"github.com/ramjet-rdma/ramjet/verbs"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// A container's devices have its labels. An unknown container is reported as unread, and without labels a scrape fails.
func TestContainers(t *testing.T) {
	folder, err := os.MkdirTemp("", "collect") // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(folder)
	c := statsocket.NewCollector()
	defer c.Close()
	if err := c.Listen("rdma-7", folder); err != nil {
		t.Fatal(err)
	}
	t.Setenv(statsocket.CollectorVariable, filepath.Join(folder, statsocket.CollectorSocket))
	dev, _ := loopback.Open(t, func(addr string) (*verbs.Device, error) { return roce.Open(addr, nil) })
	statsocket.Publish(dev)

	scrape := func(known map[string][]metric.Label) string {
		t.Helper()
		for end := time.Now().Add(time.Minute); c.Counts()["rdma-7"] == 0; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the process does not come")
			}
		}
		b, err := NewContainers(Options{Series: 1000}, c,
			func(context.Context) (map[string][]metric.Label, error) { return known, nil }).Text(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		checkText(t, string(b))
		return string(b)
	}
	pod := []metric.Label{{Name: "namespace", Value: "ml"}, {Name: "pod", Value: "train-0"},
		{Name: "container", Value: "worker"}}
	const labels = `{namespace="ml",pod="train-0",container="worker",pid="`
	pid := whole(os.Getpid())
	process := filepath.Base(os.Args[0])
	wantLines(t, scrape(map[string][]metric.Label{"rdma-7": pod}),
		`ramjet_scrape_success`+labels+pid+`",process="`+process+`",device="`+dev.Name()+`"} 1`,
		"ramjet_export_processes 1", "ramjet_export_complete 1")
	wantLines(t, scrape(map[string][]metric.Label{"another": pod}), "ramjet_export_processes_unread 1",
		"ramjet_export_complete 0")

	gone := errors.New("the kubelet does not answer")
	_, err = NewContainers(Options{}, c, func(context.Context) (map[string][]metric.Label,
		error) {
		return nil, gone
	}).Text(t.Context())
	if !errors.Is(err, gone) {
		t.Error(err)
	}
}
