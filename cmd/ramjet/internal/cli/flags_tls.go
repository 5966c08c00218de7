// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"fmt"
	"io"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"github.com/ramjet-rdma/ramjet"
	"github.com/ramjet-rdma/ramjet/internal/app/localca"
	"github.com/ramjet-rdma/ramjet/internal/device/kinds"
)

// tlsFiles are the flags of devices that need certificates. They are also environment variables,
// which package ramjet and child processes read.
var tlsFiles = []struct{ flag, env, usage string }{
	{"tls-cert", kinds.TLSCert, "certificate of iwarps: devices, a PEM `file` ($" + kinds.TLSCert + ")"},
	{"tls-key", kinds.TLSKey, "private key of the certificate, a PEM `file` ($" + kinds.TLSKey + ")"},
	{"tls-ca", kinds.TLSCA, "CAs that sign the certificates of peers, a PEM `file` ($" + kinds.TLSCA + ")"},
}

// machineCA is the variable with the CA of this machine's processes, for --loopback and demo.
const machineCA = "RAMJET_LOOPBACK_CA"

// AddTLSFlags adds the flags to the commands below c that open devices.
func AddTLSFlags(c *cobra.Command) {
	for _, sub := range c.Commands() {
		AddTLSFlags(sub)
	}
	opens := c.Flags().Lookup("device") != nil && c.Name() != "fault" // whose device is another process's
	if !opens && !slices.Contains([]string{"devices", "doctor", "run"}, c.Name()) {
		return
	}
	for _, f := range tlsFiles {
		c.Flags().String(f.flag, "", f.usage)
	}
	c.PreRunE = setTLSVariables
}

// setTLSVariables sets the variables of the flags that are given.
func setTLSVariables(c *cobra.Command, _ []string) error {
	for _, f := range tlsFiles {
		if name, err := c.Flags().GetString(f.flag); err == nil && name != "" {
			if err := os.Setenv(f.env, name); err != nil {
				return err
			}
		}
	}
	return nil
}

// TrustThisMachine makes the two processes of a command, which choose their addresses, trust each
// other if their devices need certificates.
func TrustThisMachine(kind *kinds.Kind) error {
	if !kind.TLS {
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

// tlsOptions returns the options of a device that needs certificates, apart from files. log gets
// the peers that are rejected.
func tlsOptions(name string, log io.Writer) ([]ramjet.Option, error) {
	n, err := kinds.Parse(name)
	if err != nil || !n.Kind.TLS {
		return nil, nil // Open reports the error
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
	a, ok := n.IP()
	if !ok {
		return opts, nil
	}
	c, err := ca.Config(a)
	return append(opts, ramjet.WithTLS(c)), err
}

// onceEach logs each message once.
type onceEach struct {
	mu   sync.Mutex
	log  io.Writer
	said map[string]bool
}

func (o *onceEach) refused(peer netip.AddrPort, err error) {
	const most = 100 // limits the log in a flood
	_, why, _ := strings.Cut(err.Error(), peer.String())
	key := peer.Addr().String() + why
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.said[key] && len(o.said) < most {
		o.said[key] = true
		fmt.Fprintf(o.log, "refused: %v\n", err)
	}
}
