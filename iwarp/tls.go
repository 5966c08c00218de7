// SPDX-License-Identifier: Apache-2.0

package iwarp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
)

// LoadTLS reads the configuration for [Options.TLS] from PEM files: a certificate with its
// intermediates, its key, and the CAs that verify peers.
func LoadTLS(certFile, keyFile, caFile string) (*tls.Config, error) {
	for _, f := range []struct{ what, name string }{{"certificate", certFile}, {"key", keyFile}, {"CA", caFile}} {
		if f.name == "" {
			return nil, fmt.Errorf("iwarp: no file for the %s: TLS needs a certificate, its key and a CA", f.what)
		}
	}
	cert, err := tls.LoadX509KeyPair(certFile, keyFile)
	if err != nil {
		return nil, fmt.Errorf("iwarp: certificate %s with key %s: %w", certFile, keyFile, err)
	}
	pem, err := os.ReadFile(caFile)
	if err != nil {
		return nil, fmt.Errorf("iwarp: CA: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("iwarp: CA: no certificate in %s: it has to be PEM", caFile)
	}
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: pool}, nil
}

// tlsConfigs returns the configurations towards peers that this side dials, and that dial it: TLS
// 1.3, with certificates on both sides.
func tlsConfigs(c *tls.Config) (client, server *tls.Config, err error) {
	switch {
	case len(c.Certificates) == 0 && c.GetCertificate == nil:
		return nil, nil, errors.New("TLS: no certificate: both sides need one")
	case c.RootCAs == nil:
		return nil, nil, errors.New("TLS: no RootCAs: name the CA whose certificates are taken from peers")
	case c.MaxVersion != 0 && c.MaxVersion < tls.VersionTLS13:
		return nil, nil, errors.New("TLS: MaxVersion is below 1.3, which is needed")
	}
	client = c.Clone()
	client.MinVersion, client.MaxVersion = tls.VersionTLS13, 0
	client.SessionTicketsDisabled, client.DynamicRecordSizingDisabled = true, true
	server = client.Clone()
	server.ClientAuth = tls.RequireAndVerifyClientCert
	if server.ClientCAs == nil {
		server.ClientCAs = server.RootCAs
	}
	return client, server, nil
}

// errTruncated is the end of a TCP connection without a close of TLS: anybody on the path could have
// ended it.
var errTruncated = errors.New("TCP ended before TLS did")

// explainTLS adds the meaning of a failure of TLS, and its remedy.
func explainTLS(peer netip.AddrPort, dialed, up bool, err error) error {
	var (
		wrong  *tls.CertificateVerificationError
		record tls.RecordHeaderError
		alert  *net.OpError
	)
	why := "TLS with %v: %w"
	switch {
	case errors.As(err, &record):
		why = "TLS with %v: the peer does not speak it: does it mean iwarp: and not iwarps:? %w"
	case errors.As(err, &wrong):
		why = "TLS with %v: the peer's certificate: %w"
	case errors.As(err, &alert) && alert.Op == "remote error":
		if strings.Contains(alert.Err.Error(), "certificate") { // crypto/tls does not export the kinds of alerts
			why = "TLS with %v: the peer does not take this side's certificate: %w"
		}
	case !up && dialed:
		why = "TLS with %v: the peer ended the handshake: does it speak iwarps: there? %w"
	}
	return fmt.Errorf(why, peer, err)
}
