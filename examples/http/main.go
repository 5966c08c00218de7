// SPDX-License-Identifier: Apache-2.0

// Http is a web server and its client over RDMA: package rnet has the listeners and connections that net/http asks for.
//
//	go run ./examples/http                    the server
//	go run ./examples/http 127.0.0.1          a client, in another terminal
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const port = ":7484"

func main() {
	log.SetFlags(0)
	if err := run(); err != nil {
		log.Fatal(err)
	}
}

func run() error {
	device := flag.String("d", "roce:127.0.0.1", "device")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()

	dev, err := ramjet.Open(*device)
	if err != nil {
		return err
	}
	defer dev.Close()
	if flag.NArg() == 0 {
		return serve(ctx, dev)
	}
	return get(ctx, dev, "http://"+flag.Arg(0)+port+"/gopher")
}

func serve(ctx context.Context, dev *verbs.Device) error {
	l, err := rnet.Listen(ctx, dev, port)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s from %s\n", r.URL.Path[1:], r.RemoteAddr)
	})
	context.AfterFunc(ctx, func() { s.Close() }) // Ctrl-C
	if err := s.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func get(ctx context.Context, dev *verbs.Device, url string) error {
	dialer := rnet.Dialer{Device: dev}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: time.Minute}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	r, err := client.Do(req)
	if err != nil {
		return err
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	fmt.Printf("%s: %s", r.Status, body)
	return nil
}
