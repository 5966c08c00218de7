// SPDX-License-Identifier: Apache-2.0

package rnet_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net/http"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/rnet"
)

func Example() {
	server, err := ramjet.Open("roce:" + loopbackAddress())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := ramjet.Open("roce:" + loopbackAddress())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := rnet.Listen(context.Background(), server, ":0")
	if err != nil {
		log.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		io.Copy(c, c) // until the client closes its half
	}()

	c, err := rnet.Dial(context.Background(), client, l.Addr().String())
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	fmt.Fprint(c, "there and back")
	c.CloseWrite()
	answer, err := io.ReadAll(c)
	fmt.Println(string(answer), err)
	// Output: there and back <nil>
}

// net/http runs over a Listener and a Dialer.
func Example_http() {
	server, err := ramjet.Open("roce:" + loopbackAddress())
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	client, err := ramjet.Open("roce:" + loopbackAddress())
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	l, err := rnet.Listen(context.Background(), server, ":0")
	if err != nil {
		log.Fatal(err)
	}
	s := http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s", r.URL.Path)
	})}
	go s.Serve(l)
	defer s.Close()

	transport := &http.Transport{DialContext: (&rnet.Dialer{Device: client}).DialContext}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Get("http://" + l.Addr().String() + "/figs")
	if err != nil {
		log.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	fmt.Println(resp.Status, string(body), err)
	// Output: 200 OK you asked for /figs <nil>
}
