// SPDX-License-Identifier: Apache-2.0

// Http is a web server and its client over RDMA: package rnet has what net/http asks for.
//
//	go run ./examples/http                    the server
//	go run ./examples/http 127.0.0.1          a client, in another terminal
package main

import (
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/rnet"
	"github.com/ramjet-rdma/ramjet/verbs"
)

const port = ":7484"

func main() {
	log.SetFlags(0)
	device := flag.String("d", "roce:127.0.0.1", "device")
	flag.Parse()

	dev, err := ramjet.Open(*device)
	if err != nil {
		log.Fatal(err)
	}
	defer dev.Close()
	if flag.NArg() == 0 {
		err = serve(dev)
	} else {
		err = get(dev, "http://"+flag.Arg(0)+port+"/gopher")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(dev *verbs.Device) error {
	l, err := rnet.Listen(dev, port)
	if err != nil {
		return err
	}
	fmt.Println("listening on", l.Addr())
	s := &http.Server{ReadHeaderTimeout: 10 * time.Second}
	s.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "hello, %s from %s\n", r.URL.Path[1:], r.RemoteAddr)
	})
	return s.Serve(l)
}

func get(dev *verbs.Device, url string) error {
	dialer := rnet.Dialer{Device: dev}
	client := http.Client{Transport: &http.Transport{DialContext: dialer.DialContext}, Timeout: time.Minute}
	r, err := client.Get(url)
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
