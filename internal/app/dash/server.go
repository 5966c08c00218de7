// SPDX-License-Identifier: Apache-2.0

package dash

import (
	"context"
	crand "crypto/rand"
	"crypto/subtle"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

//go:embed page
var page embed.FS

// files are the files of the page, by path: the name and the media type.
var files = map[string][2]string{
	"/":          {"page/index.html", "text/html; charset=utf-8"},
	"/dash.js":   {"page/dash.js", "text/javascript; charset=utf-8"},
	"/graph.js":  {"page/graph.js", "text/javascript; charset=utf-8"},
	"/map.js":    {"page/map.js", "text/javascript; charset=utf-8"},
	"/dash.css":  {"page/dash.css", "text/css; charset=utf-8"},
	"/icon.svg":  {"page/icon.svg", "image/svg+xml"},
	"/format.js": {"page/format.js", "text/javascript; charset=utf-8"},
}

const (
	// policy lets the page load its own files and ask its own server.
	policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

	maxBody = 1 << 10 // bytes of a request
	maxSpan = 3600    // seconds of a graph
)

// Options are the options of a Server.
type Options struct {
	Version string // of Ramjet
	Name    string // by which the server may be asked for besides its addresses; empty: none
}

// Server serves the page.
type Server struct {
	key      string
	options  Options
	loopback bool // it is asked from this host only
	source   *source
	ladders  *ladders
}

// New makes a server whose listener is at an address.
func New(at net.Addr, o Options) *Server {
	var b [16]byte
	crand.Read(b[:])
	a, ok := at.(*net.TCPAddr)
	return &Server{key: hex.EncodeToString(b[:]), options: o, loopback: ok && a.IP.IsLoopback(),
		source: newSource(statsocket.Read), ladders: newLadders(watchProcess)}
}

// Key is the key that has to be behind the number sign of the URL.
func (s *Server) Key() string { return s.key }

// Serve answers requests until ctx ends, which is no error.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	h := &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 30 * time.Second, MaxHeaderBytes: 16 << 10, ConnContext: withConn}
	stop := context.AfterFunc(ctx, func() { h.Close() })
	defer stop()
	defer s.ladders.close()
	if err := h.Serve(limit(l)); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// ServeHTTP answers a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	if !s.isOwn(r.Host) {
		refuse(w, http.StatusMisdirectedRequest,
			"this server is not called "+strconv.QuoteToASCII(r.Host)+
				": open the URL that ramjet dash printed, or name the host with --listen")
		return
	}
	if f, ok := files[r.URL.Path]; ok {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			refuse(w, http.StatusMethodNotAllowed, "GET only")
			return
		}
		b, err := page.ReadFile(f[0])
		if err != nil {
			panic(err) // it is embedded
		}
		h.Set("Content-Type", f[1])
		w.Write(b)
		return
	}
	method, answer := http.MethodGet, s.state
	switch r.URL.Path {
	case "/api/state":
	case "/api/ladder":
		method, answer = http.MethodPost, s.ladder
	default:
		refuse(w, http.StatusNotFound, "there is nothing here")
		return
	}
	given := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case subtle.ConstantTimeCompare([]byte(given), []byte(s.key)) != 1:
		refuse(w, http.StatusUnauthorized, "the key is missing or wrong: open the URL that ramjet dash printed, with all that is behind the number sign")
	case r.Method != method:
		h.Set("Allow", method)
		refuse(w, http.StatusMethodNotAllowed, method+" only")
	case !welcome(r):
		refuse(w, http.StatusServiceUnavailable,
			fmt.Sprintf("%d connections are open that have shown the key: close a page", maxConns))
	default:
		answer(w, r)
	}
}

// isOwn reports whether a Host header names this server: by an address, which no name server can have
// made up, or by a name that is certainly its own. A server for this host alone has addresses of this host alone.
func (s *Server) isOwn(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.TrimSuffix(strings.TrimPrefix(name, "["), "]")
	if a, err := netip.ParseAddr(name); err == nil {
		return !s.loopback || a.Unmap().IsLoopback()
	}
	return strings.EqualFold(name, "localhost") || s.options.Name != "" && strings.EqualFold(name, s.options.Name)
}

// state answers with the state of all processes. The query's scope is the number of the object to show in
// detail, its filter a text that rows of queue pairs must have, its span how many seconds graphs go back.
func (s *Server) state(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	scope, _ := strconv.ParseUint(q.Get("scope"), 10, 64) // of nothing, if it is not a number
	filter := q.Get("filter")
	if len(filter) > maxBody {
		refuse(w, http.StatusBadRequest, "the filter is too long")
		return
	}
	span, _ := strconv.Atoi(q.Get("span")) // the shortest, if it is not a number
	st, err := s.source.state(r.Context(), scope, filter, time.Duration(min(max(span, 0), maxSpan))*time.Second)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	st.Version = s.options.Version
	st.Host, _ = os.Hostname() // empty: it has no name
	answer(w, st)
}

// ladder answers with the last packets of a queue pair.
func (s *Server) ladder(w http.ResponseWriter, r *http.Request) {
	var of struct {
		ID    uint64 `json:"id"`
		Width int    `json:"width"` // in pixels, that the page has for the ladder; 0: it scrolls
	}
	if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxBody)).Decode(&of); err != nil {
		refuse(w, http.StatusBadRequest, "the request is malformed: "+err.Error())
		return
	}
	key, ok := s.source.qp(of.ID)
	if !ok {
		refuse(w, http.StatusNotFound, "the queue pair is gone")
		return
	}
	l, err := s.ladders.last(r.Context(), key, of.Width)
	if err != nil {
		refuse(w, http.StatusConflict, err.Error())
		return
	}
	answer(w, l)
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, http.StatusInternalServerError, err.Error())
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, status int, why string) {
	b, _ := json.Marshal(map[string]string{"error": why}) // cannot fail
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(b)
}
