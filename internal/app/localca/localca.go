// SPDX-License-Identifier: Apache-2.0

// Package localca is a certificate authority of one machine, for iWARP inside TLS in tests,
// and between the two processes of a measurement or demonstration.
package localca

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net/netip"
	"os"
	"path/filepath"
	"time"
)

// CA issues certificates that last a day.
type CA struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	Pool *x509.CertPool // has its own certificate
}

// New creates a CA.
func New() (*CA, error) {
	der, key, err := sign(nil, &x509.Certificate{Subject: pkix.Name{CommonName: "Ramjet on this machine"}, IsCA: true,
		BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	if err != nil {
		return nil, err
	}
	return of(der, key)
}

func of(der []byte, key *ecdsa.PrivateKey) (*CA, error) {
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	c := &CA{cert: cert, key: key, Pool: x509.NewCertPool()}
	c.Pool.AddCert(cert)
	return c, nil
}

// sign creates a certificate with a key of its own. Without a CA it is self-signed.
func sign(ca *CA, template *x509.Certificate) ([]byte, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if template.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60)); err != nil {
		return nil, nil, err
	}
	if template.NotAfter.IsZero() {
		template.NotBefore, template.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(24*time.Hour)
	}
	parent, signer := template, key
	if ca != nil {
		parent, signer = ca.cert, ca.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	return der, key, err
}

// Issue creates a certificate for addresses, modified by change if that is not nil.
func (c *CA) Issue(change func(*x509.Certificate), addrs ...netip.Addr) (tls.Certificate, error) {
	template := &x509.Certificate{Subject: pkix.Name{CommonName: "a device of Ramjet"}}
	for _, a := range addrs {
		template.IPAddresses = append(template.IPAddresses, a.AsSlice())
	}
	if change != nil {
		change(template)
	}
	der, key, err := sign(c, template)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// Config returns the configuration of a device of an address that accepts the CA's certificates.
func (c *CA) Config(addr netip.Addr) (*tls.Config, error) {
	cert, err := c.Issue(nil, addr)
	return &tls.Config{Certificates: []tls.Certificate{cert}, RootCAs: c.Pool}, err
}

// Kinds of PEM blocks.
const (
	certificate = "CERTIFICATE"
	privateKey  = "PRIVATE KEY"
)

func pemOf(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

// PEM returns the CA with its key.
func (c *CA) PEM() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(c.key)
	return append(pemOf(certificate, c.cert.Raw), pemOf(privateKey, der)...), err
}

// Parse parses the result of PEM.
func Parse(b []byte) (*CA, error) {
	cert, rest := pem.Decode(b)
	key, _ := pem.Decode(rest)
	if cert == nil || key == nil {
		return nil, errors.New("no certificate with its key")
	}
	k, err := x509.ParsePKCS8PrivateKey(key.Bytes)
	if err != nil {
		return nil, err
	}
	ec, ok := k.(*ecdsa.PrivateKey)
	if !ok {
		return nil, errors.New("no ECDSA key")
	}
	return of(cert.Bytes, ec)
}

// Write writes files in dir: a certificate for addresses, its key, and the CA's certificate.
func (c *CA) Write(dir string, addrs ...netip.Addr) (cert, key, ca string, err error) {
	issued, err := c.Issue(nil, addrs...)
	if err != nil {
		return "", "", "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(issued.PrivateKey)
	if err != nil {
		return "", "", "", err
	}
	cert, key, ca = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem"), filepath.Join(dir, "ca.pem")
	for name, b := range map[string][]byte{cert: pemOf(certificate, issued.Certificate[0]), key: pemOf(privateKey, der),
		ca: pemOf(certificate, c.cert.Raw)} {
		if err := os.WriteFile(name, b, 0o600); err != nil {
			return "", "", "", err
		}
	}
	return cert, key, ca, nil
}
