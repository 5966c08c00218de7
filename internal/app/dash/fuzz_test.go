// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

// FuzzRequest sends the server requests of a browser that has the key.
func FuzzRequest(f *testing.F) {
	f.Add("GET", "/", "", "")
	f.Add("GET", "/api/state", "scope=1&filter=x", "")
	f.Add("POST", "/api/ladder", "", "")
	f.Add("POST", "/api/ladder", "", "{")
	f.Add("POST", "/api/ladder", "", `{"id":1}`)
	f.Add("HEAD", "/../x", "filter=%00", "")
	f.Fuzz(func(t *testing.T, method, path, query, body string) {
		s := newServer(&world{list: []statsocket.Process{processOf(1, 2)}})
		defer s.ladders.close()
		r := &http.Request{Method: method, URL: &url.URL{Path: path, RawQuery: query}, Host: "127.0.0.1",
			Header: http.Header{"Authorization": {"Bearer " + s.Key()}},
			Body:   http.NoBody}
		if body != "" {
			r = httptest.NewRequest(http.MethodPost, "http://127.0.0.1/", strings.NewReader(body))
			r.URL.Path, r.URL.RawQuery, r.Host = path, query, "127.0.0.1"
			r.Header.Set("Authorization", "Bearer "+s.Key())
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code >= 500 {
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
	})
}
