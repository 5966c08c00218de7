// SPDX-License-Identifier: Apache-2.0

package metrics_test

import (
	"bufio"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/metrics"
)

// A program shows its devices at /metrics. Here it also does what Prometheus does.
func Example() {
	dev, err := ramjet.Open("roce:127.6.0.17")
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics.New(dev))

	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	server := httptest.NewServer(mux)
	defer server.Close()

	r, err := http.Get(server.URL + "/metrics")
	if err != nil {
		log.Fatal(err)
	}
	defer r.Body.Close()
	for lines := bufio.NewScanner(r.Body); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "ramjet_port_data_received") ||
			strings.HasPrefix(lines.Text(), "ramjet_state") {
			fmt.Println(lines.Text())
		}
	}
	// Output:
	// ramjet_port_data_received_bytes_total{device="roce:127.6.0.17",port="1"} 0
	// ramjet_state_id{device="roce:127.6.0.17",port="1"} 4
}
