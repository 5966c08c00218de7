// SPDX-License-Identifier: Apache-2.0

package export

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ramjet-rdma/ramjet/internal/system/rdmasys"
	"github.com/ramjet-rdma/ramjet/internal/system/statsocket"
)

const (
	// contentType is that of the text format.
	contentType = "text/plain; version=0.0.4; charset=utf-8"
	// readTime bounds the reading of all processes: Prometheus waits 10 s by default.
	readTime = 8 * time.Second
	// freshness is for how long a reading answers further scrapes.
	freshness = time.Second
	// maxWaiting is how many scrapes wait for one reading.
	maxWaiting = 16
	// maxConns is how many connections are open. One more ends the oldest.
	maxConns = 64
	// drain is for how long answers go on after the end.
	drain = 2 * time.Second
)

// Exporter reads a host, or its containers, and serves the text.
type Exporter struct {
	loopback bool // it is asked from this host only
	read     func(context.Context) ([]byte, error)

	waiting chan struct{}
	lock    sync.Mutex
	at      time.Time // of the last reading
	last    []byte
}

// New makes an exporter of this host.
func New(o Options) *Exporter {
	return newExporter(func(ctx context.Context) ([]byte, error) {
		h, err := readHost(ctx)
		if err != nil {
			return nil, err
		}
		return write(h, o), nil
	})
}

func newExporter(read func(context.Context) ([]byte, error)) *Exporter {
	return &Exporter{read: read, waiting: make(chan struct{}, maxWaiting)}
}

// readHost reads the processes that this user may read, until ctx ends, and the kernel's devices.
func readHost(ctx context.Context) (*Host, error) {
	begin := time.Now()
	found, err := statsocket.Read(ctx, 0)
	late := errors.Is(err, context.DeadlineExceeded)
	if err != nil && !late {
		return nil, err
	}
	kernel := rdmasys.Host().ReadCounters()
	return &Host{Processes: found, Kernel: kernel, Partial: late, Took: time.Since(begin)}, nil
}

// Text returns the text that a scrape gets now.
func (e *Exporter) Text(ctx context.Context) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	return e.read(ctx)
}

// shared is Text, once for all scrapes within a second.
func (e *Exporter) shared() ([]byte, error) {
	e.lock.Lock()
	defer e.lock.Unlock()
	if e.last != nil && time.Since(e.at) < freshness {
		return e.last, nil
	}
	b, err := e.Text(context.Background()) // not the request's: others wait for this, too
	if err != nil {
		return nil, err
	}
	e.last, e.at = b, time.Now()
	return b, nil
}

// Serve answers scrapes until ctx ends.
func (e *Exporter) Serve(ctx context.Context, l net.Listener) error {
	a, ok := l.Addr().(*net.TCPAddr)
	e.loopback = ok && a.IP.IsLoopback()
	var conns connections
	h := &http.Server{Handler: e, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ConnState: conns.changed}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(ended)
		conns.closeSilent() // Shutdown would wait for them, in case that a request is on its way
		last, cancel := context.WithTimeout(context.Background(), drain)
		defer cancel()
		if h.Shutdown(last) != nil {
			h.Close()
		}
	})
	err := h.Serve(l)
	if !stop() {
		<-ended
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// ServeHTTP answers a request.
func (e *Exporter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	switch {
	case !e.isOwn(r.Host): // a page in a browser, whose name has become an address of this host
		http.Error(w, "this server is not called "+strconv.QuoteToASCII(r.Host)+
			": ask for it by its address, or choose another one with --listen", http.StatusMisdirectedRequest)
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "GET only", http.StatusMethodNotAllowed)
	case r.URL.Path == "/":
		fmt.Fprintln(w, "ramjet export: Prometheus reads /metrics")
	case r.URL.Path != "/metrics":
		http.Error(w, "there is nothing here: Prometheus reads /metrics", http.StatusNotFound)
	default:
		e.scrape(w)
	}
}

func (e *Exporter) scrape(w http.ResponseWriter) {
	select {
	case e.waiting <- struct{}{}:
		defer func() { <-e.waiting }()
	default:
		http.Error(w, fmt.Sprintf("%d scrapes are waiting already", maxWaiting), http.StatusServiceUnavailable)
		return
	}
	b, err := e.shared()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	w.Write(b)
}

// isOwn reports whether a Host header names this server. One for this host alone has addresses of this host alone.
func (e *Exporter) isOwn(host string) bool {
	if !e.loopback {
		return true
	}
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	a, err := netip.ParseAddr(host)
	return err == nil && a.Unmap().IsLoopback() || strings.EqualFold(host, "localhost")
}

// connections limits how many are open: silent clients keep no other out.
type connections struct {
	lock sync.Mutex
	open list.List // net.Conn, the oldest first
	at   map[net.Conn]*list.Element

	silent map[net.Conn]bool // they have asked nothing yet
}

func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.lock.Lock()
	defer c.lock.Unlock()
	delete(c.silent, conn)
	switch state {
	case http.StateNew:
		if c.at == nil {
			c.at, c.silent = map[net.Conn]*list.Element{}, map[net.Conn]bool{}
		}
		c.silent[conn] = true
		c.at[conn] = c.open.PushBack(conn)
		if c.open.Len() > maxConns {
			c.open.Front().Value.(net.Conn).Close() // which is forgotten when the server notices
			c.open.MoveToBack(c.open.Front())
		}
	case http.StateIdle: // it has had an answer
		if at := c.at[conn]; at != nil {
			c.open.MoveToBack(at)
		}
	case http.StateClosed:
		if at := c.at[conn]; at != nil {
			c.open.Remove(at)
			delete(c.at, conn)
		}
	}
}

// closeSilent closes the connections that have asked nothing.
func (c *connections) closeSilent() {
	c.lock.Lock()
	defer c.lock.Unlock()
	for conn := range c.silent {
		conn.Close()
	}
}
