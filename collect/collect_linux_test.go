// SPDX-License-Identifier: Apache-2.0

package collect_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ramjet-rdma/ramjet/collect"
	"github.com/ramjet-rdma/ramjet/rdmatest"
	"github.com/ramjet-rdma/ramjet/verbs/metric"
)

// A process comes to the socket that its environment names, and is served with the labels of that container.
func TestServe(t *testing.T) {
	folder, err := os.MkdirTemp("", "collect") // short enough for a socket's address
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	c := collect.New()
	t.Cleanup(func() { c.Close() })
	if err := c.Listen("seven", folder); err != nil {
		t.Fatal(err)
	}
	t.Setenv(collect.Variable, filepath.Join(folder, collect.Socket))
	dev, _ := rdmatest.Pair(t)

	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	labels := func(context.Context) (map[string][]metric.Label, error) {
		return map[string][]metric.Label{"seven": {{Name: "pod", Value: "train-0"}}}, nil
	}
	go func() { ended <- c.Serve(ctx, l, labels, collect.Options{Series: 1000}) }()
	want := fmt.Sprintf(`ramjet_scrape_success{pod="train-0",pid="%d",`, os.Getpid())
	for end := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		r, err := http.Get("http://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r.Body)
		r.Body.Close()
		if err == nil && strings.Contains(string(text), want) &&
			strings.Contains(string(text), `device="`+dev.Name()+`"} 1`) {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%v, no %s of %s in\n%s", err, want, dev.Name(), text)
		}
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := c.Remove("seven"); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(folder, collect.Socket)); !os.IsNotExist(err) {
		t.Errorf("the socket of a container that was removed: %v", err)
	}
}
