// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/localca"
)

// tlsFiles are the flags of devices of kind iwarps. They stand in the environment too, where
// package ramjet finds them, and processes that this one starts.
var tlsFiles = []struct{ flag, env, usage string }{
	{"tls-cert", "RAMJET_TLS_CERT", "`file` with the certificate of iwarps: devices, PEM ($RAMJET_TLS_CERT)"},
	{"tls-key", "RAMJET_TLS_KEY", "`file` with its key ($RAMJET_TLS_KEY)"},
	{"tls-ca", "RAMJET_TLS_CA", "`file` with the CAs whose certificates are taken from peers ($RAMJET_TLS_CA)"},
}

// machineCA has the CA of this machine's processes, for --loopback and demo.
const machineCA = "RAMJET_LOOPBACK_CA"

// addTLSFlags adds the flags to all commands.
func addTLSFlags(root *cobra.Command) {
	for _, f := range tlsFiles {
		root.PersistentFlags().String(f.flag, "", f.usage)
		root.MarkPersistentFlagFilename(f.flag)
	}
	root.PersistentPreRunE = func(c *cobra.Command, _ []string) error {
		for _, f := range tlsFiles {
			if name, err := c.Flags().GetString(f.flag); err == nil && name != "" {
				if err := os.Setenv(f.env, name); err != nil {
					return err
				}
			}
		}
		return nil
	}
}

// trustThisMachine has the two processes of a command, which choose their addresses, trust
// each other if they use devices of kind iwarps.
func trustThisMachine(kind string) error {
	if kind != "iwarps" {
		return nil
	}
	ca, err := localca.New()
	if err != nil {
		return err
	}
	text, err := ca.PEM()
	if err != nil {
		return err
	}
	return os.Setenv(machineCA, string(text))
}

// tlsOptions are what a device of kind iwarps needs beside files. log hears of peers that are
// turned away.
func tlsOptions(name string, log io.Writer) ([]ramjet.Option, error) {
	addr, ok := strings.CutPrefix(name, "iwarps:")
	if !ok {
		return nil, nil
	}
	said := onceEach{log: log, said: map[string]bool{}}
	opts := []ramjet.Option{ramjet.WithRefused(said.refused)}
	text := os.Getenv(machineCA)
	if text == "" {
		return opts, nil
	}
	ca, err := localca.Parse([]byte(text))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", machineCA, err)
	}
	addr, _, _ = strings.Cut(addr, "?")
	a, err := netip.ParseAddr(addr)
	if err != nil {
		return opts, nil // Open says it
	}
	c, err := ca.Config(a)
	return append(opts, ramjet.WithTLS(c)), err
}

// onceEach says each thing once.
type onceEach struct {
	mu   sync.Mutex
	log  io.Writer
	said map[string]bool
}

func (o *onceEach) refused(peer netip.AddrPort, err error) {
	const most = 100 // a flood is no news
	_, why, _ := strings.Cut(err.Error(), peer.String())
	key := peer.Addr().String() + why
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.said[key] && len(o.said) < most {
		o.said[key] = true
		fmt.Fprintf(o.log, "refused: %v\n", err)
	}
}
